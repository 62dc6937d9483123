// Python's side of device memory: the functions that torch_npu/_runtime/connection.py hands over, and how they are called from here.
#include "device/device.h"
#include "device/errors.h"
#include "device/python_lock.h"
#include "memory/device_memory.h"

#include <torch/csrc/utils/pybind.h>

#include <atomic>

namespace py = pybind11;

namespace softnpu {

namespace {

// They stay for the life of the process: tensors may be freed while the interpreter ends.
struct Callbacks {
  py::object allocate, release, total, free, configure, out_of_memory, locate;
};
std::atomic<Callbacks*> callbacks{nullptr};
constexpr int kAttempts = 100;  // a person cannot press Ctrl-C faster than that

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

void* python_allocate(int device, size_t bytes, c10::StreamId stream) {
  py::gil_scoped_acquire gil;
  return reinterpret_cast<void*>(callbacks.load()->allocate(device, bytes, stream).cast<uintptr_t>());
}

void python_release(int device, void* address, size_t bytes, c10::StreamId stream) {
  if (!python_is_up()) return;
  py::gil_scoped_acquire gil;
  py::error_scope kept;  // a tensor may go while an exception is under way
  bool interrupted = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      callbacks.load()->release(device, number(address), bytes, stream);
      break;
    } catch (py::error_already_set& error) {  // memory is given back inside destructors
      if (!error.matches(PyExc_KeyboardInterrupt)) {
        if (!interrupted) error.discard_as_unraisable("torch_npu: a segment could not be given back");
        break;  // after an interruption: it had been given back before
      }
      interrupted = true;
    }
  }
  if (interrupted) PyErr_SetInterrupt();  // the program gets it a moment later
}

size_t python_total(int device) {
  py::gil_scoped_acquire gil;
  return callbacks.load()->total(device).cast<size_t>();
}

size_t python_free(int device) {
  py::gil_scoped_acquire gil;
  return callbacks.load()->free(device).cast<size_t>();
}

void python_configure() {
  py::gil_scoped_acquire gil;
  callbacks.load()->configure();
}

void python_out_of_memory(int device, size_t bytes, size_t free) {
  py::gil_scoped_acquire gil;
  try {
    callbacks.load()->out_of_memory(device, bytes, free);
  } catch (py::error_already_set& error) {  // the error to raise is the one about memory
    error.discard_as_unraisable("torch_npu: a snapshot of the memory could not be written");
  }
}

int python_locate(void* address) {
  py::gil_scoped_acquire gil;
  return callbacks.load()->locate(number(address)).cast<int>();
}

void start(int count, py::object allocate, py::object release, py::object total, py::object free, py::object configure,
           py::object out_of_memory, py::object locate) {
  TORCH_CHECK(count <= kMostDevices, count, " npu devices are visible, at most ", kMostDevices,
              " can be used; name fewer in ASCEND_RT_VISIBLE_DEVICES", pta_error(ErrCode::kNotSupported));
  callbacks = new Callbacks{std::move(allocate),  std::move(release),       std::move(total), std::move(free),
                            std::move(configure), std::move(out_of_memory), std::move(locate)};
  auto& source = memory_source();
  if (source.allocate == nullptr) {
    source = {&python_allocate, &python_release, &python_configure, &python_out_of_memory, &python_locate};
    runtime().total = &python_total;
    runtime().free = &python_free;
  }
  runtime().device_count = count;
}

}  // namespace

void bind_memory_source(py::module& m) { m.def("_start", &start); }

}  // namespace softnpu
