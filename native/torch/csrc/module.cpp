// The Python module torch_npu._C: the device runtime that Python provides, and what torch.npu needs from here.
#include "alias.h"
#include "allocator.h"
#include "device.h"
#include "formats.h"
#include "generator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace softnpu {

void register_hooks();

namespace {

// The functions of the Python runtime. They stay for the life of the process: tensors may be freed while the interpreter ends.
struct Callbacks {
  py::object allocate, release, total, free;
};
Callbacks* callbacks = nullptr;

void* python_allocate(int device, size_t bytes) {
  py::gil_scoped_acquire gil;
  return reinterpret_cast<void*>(callbacks->allocate(device, bytes).cast<uintptr_t>());
}

void python_release(int device, void* address) {
  if (!Py_IsInitialized()) return;
  py::gil_scoped_acquire gil;
  try {
    callbacks->release(device, reinterpret_cast<uintptr_t>(address));
  } catch (py::error_already_set& error) {  // memory is given back inside destructors
    error.discard_as_unraisable("torch_npu: a segment could not be given back");
  }
}

size_t python_total(int device) {
  py::gil_scoped_acquire gil;
  return callbacks->total(device).cast<size_t>();
}

size_t python_free(int device) {
  py::gil_scoped_acquire gil;
  return callbacks->free(device).cast<size_t>();
}

void start(int count, py::object allocate, py::object release, py::object total, py::object free) {
  callbacks = new Callbacks{std::move(allocate), std::move(release), std::move(total), std::move(free)};
  auto& the_runtime = runtime();
  the_runtime.allocate = &python_allocate;
  the_runtime.release = &python_release;
  the_runtime.total = &python_total;
  the_runtime.free = &python_free;
  the_runtime.device_count = count;
}

py::dict stat_array(const c10::CachingAllocator::StatArray& array) {
  static const char* const pools[] = {"all", "small_pool", "large_pool"};
  py::dict found;
  for (size_t i = 0; i < 3; ++i) {
    py::dict one;
    one["current"] = array[i].current;
    one["peak"] = array[i].peak;
    one["allocated"] = array[i].allocated;
    one["freed"] = array[i].freed;
    found[pools[i]] = one;
  }
  return found;
}

py::dict stat(const c10::CachingAllocator::Stat& value) {
  py::dict one;
  one["current"] = value.current;
  one["peak"] = value.peak;
  one["allocated"] = value.allocated;
  one["freed"] = value.freed;
  return one;
}

py::dict memory_stats(int device) {
  const auto stats = allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  py::dict found;
  found["num_alloc_retries"] = stats.num_alloc_retries;
  found["num_ooms"] = stats.num_ooms;
  found["num_oom_rejections"] = 0;
  found["num_sync_all_streams"] = stats.num_sync_all_streams;
  found["num_device_alloc"] = stats.num_device_alloc;
  found["num_device_free"] = stats.num_device_free;
  found["max_split_size"] = -1;
  found["allocation"] = stat_array(stats.allocation);
  found["segment"] = stat_array(stats.segment);
  found["active"] = stat_array(stats.active);
  found["inactive_split"] = stat_array(stats.inactive_split);
  found["allocated_bytes"] = stat_array(stats.allocated_bytes);
  found["reserved_bytes"] = stat_array(stats.reserved_bytes);
  found["active_bytes"] = stat_array(stats.active_bytes);
  found["inactive_split_bytes"] = stat_array(stats.inactive_split_bytes);
  found["requested_bytes"] = stat_array(stats.requested_bytes);
  found["oversize_allocations"] = stat(stats.oversize_allocations);
  found["oversize_segments"] = stat(stats.oversize_segments);
  return found;
}

py::list memory_snapshot() {
  py::list found;
  for (const auto& segment : snapshot()) {
    py::dict one;
    one["device"] = static_cast<int>(segment.device);
    one["address"] = segment.address;
    one["total_size"] = segment.total_size;
    one["allocated_size"] = segment.allocated_size;
    one["active_size"] = segment.active_size;
    one["requested_size"] = segment.requested_size;
    one["stream"] = reinterpret_cast<uintptr_t>(segment.stream);
    one["segment_type"] = segment.is_large ? "large" : "small";
    one["segment_pool_id"] = py::make_tuple(0, 0);
    one["is_expandable"] = false;
    one["frames"] = py::list();
    py::list blocks;
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      py::dict row;
      row["address"] = address;
      row["size"] = block.size;
      row["requested_size"] = block.requested_size;
      row["state"] = block.allocated ? "active_allocated" : "inactive";
      row["frames"] = py::list();
      blocks.append(row);
      address += block.size;
    }
    one["blocks"] = blocks;
    found.append(one);
  }
  return found;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  register_hooks();
  register_storage();
  install_cpu_allocator();
  bind_formats(m);
  m.def("_start", &start);
  m.def("_get_device_count", [] { return static_cast<int>(device_count()); });
  m.def("_get_device", [] { return static_cast<int>(current_device()); });
  m.def("_set_device", [](int index) { set_device(static_cast<c10::DeviceIndex>(index)); });
  m.def("_memory_stats", &memory_stats);
  m.def("_memory_snapshot", &memory_snapshot);
  m.def("_reset_peak_stats", [](int device) { allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
  m.def("_reset_accumulated_stats", [](int device) { allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(device)); });
  m.def("_empty_cache", [] { py::gil_scoped_release release; empty_cache(); });
  m.def("_set_memory_fraction", [](double fraction, int device) { set_memory_fraction(static_cast<c10::DeviceIndex>(device), fraction); });
  m.def("_get_memory_fraction", [](int device) { return memory_fraction(static_cast<c10::DeviceIndex>(device)); });
  m.def("_raw_allocate", [](size_t bytes, int device, int64_t stream) {
    py::gil_scoped_release release;
    return reinterpret_cast<uintptr_t>(raw_allocate(static_cast<c10::DeviceIndex>(device), bytes, stream));
  });
  m.def("_raw_free", [](uintptr_t address) { py::gil_scoped_release release; raw_free(reinterpret_cast<void*>(address)); });
  m.def("_default_generator", [](int device) { return default_generator(static_cast<c10::DeviceIndex>(device)); });
  m.def("_stream_priority", [](int64_t id) { return stream_priority(id); });
}

}  // namespace softnpu
