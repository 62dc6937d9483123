#include "memory/share.h"

#include "device/device.h"
#include "device/python_lock.h"
#include "memory/allocator.h"

#include <c10/core/Storage.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <memory>
#include <unistd.h>

namespace py = pybind11;

namespace softnpu {

namespace {

py::object* release_mapping = nullptr;  // stays for the life of the process: tensors may go while the interpreter ends

struct Mapping {
  void* address;
  pid_t owner;
};

// In a forked child the mapping belongs to the parent's books; at the end of the interpreter it goes with the process.
void unmap(void* context) {
  std::unique_ptr<Mapping> mapping(static_cast<Mapping*>(context));
  if (mapping->owner != getpid() || !python_is_up()) return;
  py::gil_scoped_acquire gil;
  py::error_scope kept;  // a tensor may go while an exception is under way
  try {
    (*release_mapping)(reinterpret_cast<uintptr_t>(mapping->address));
  } catch (py::error_already_set& error) {  // memory is given back inside destructors
    error.discard_as_unraisable("torch_npu: shared memory could not be given back");
  }
}

c10::DataPtr shared_data(uintptr_t address, int device) {
  TORCH_INTERNAL_ASSERT(release_mapping != nullptr, "_share_connect was not called");
  auto* data = reinterpret_cast<void*>(address);
  return {data, new Mapping{data, getpid()}, &unmap, c10::Device(kNpu, check_device(static_cast<c10::DeviceIndex>(device)))};
}

c10::Storage storage_of(const py::handle& object) {
  TORCH_CHECK_TYPE(THPStorage_Check(object.ptr()), "expected a torch.UntypedStorage, not ", Py_TYPE(object.ptr())->tp_name);
  return THPStorage_Unpack(object.ptr());
}

// All tensors over the storage follow. It cannot be resized afterwards: new memory would no longer be shared.
void move_into(const py::handle& object, uintptr_t address) {
  const auto storage = storage_of(object);
  TORCH_CHECK(storage.device_type() == kNpu, "expected a storage on npu, not on ", storage.device());
  auto data = shared_data(address, storage.device().index());
  std::memcpy(data.get(), storage.data(), storage.nbytes());
  auto* impl = storage.unsafeGetStorageImpl();
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_resizable(false);
}

py::object open_storage(uintptr_t address, size_t bytes, int device) {
  auto made = c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(), c10::SymInt(bytes), shared_data(address, device), allocator(),
                                     false, c10::Device(kNpu, static_cast<c10::DeviceIndex>(device)));
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(c10::Storage(std::move(made))));
}

bool is_shared(const py::handle& object) { return storage_of(object).data_ptr().get_deleter() == &unmap; }

}  // namespace

void bind_share(py::module_& m) {
  m.def("_share_connect", [](py::object release) {
    delete release_mapping;
    release_mapping = new py::object(std::move(release));
  });
  m.def("_share_move", &move_into);
  m.def("_share_open", &open_storage);
  m.def("_share_is", &is_shared);
}

}  // namespace softnpu
