// The Python module torch_npu._C: the device runtime that Python provides, and what torch.npu needs from here.
#include "aten/alias.h"
#include "device/device.h"
#include "device/generator.h"
#include "device/sync_debug.h"
#include "formats/formats.h"
#include "memory/allocator.h"
#include "memory/share.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace softnpu {

void register_hooks();
void bind_memory(py::module& m);
void bind_chip(py::module& m);
void bind_hccl(py::module& m);
void bind_attention(py::module& m);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  register_hooks();
  register_storage();
  install_cpu_allocator();
  bind_formats(m);
  bind_memory(m);
  bind_chip(m);
  bind_hccl(m);
  bind_attention(m);
  bind_share(m);
  bind_sync_debug(m);
  m.def("_get_device_count", [] { return static_cast<int>(device_count()); });
  // The context asks a device for pinned memory only after it was initialised through the context.
  m.def("_initialise_context", [] { at::globalContext().lazyInitDevice(kNpu); }, py::call_guard<py::gil_scoped_release>());
  m.def("_get_device", [] { return static_cast<int>(current_device()); });
  m.def("_set_device", [](int index) { set_device(static_cast<c10::DeviceIndex>(index)); });
  m.def("_default_generator", [](int device) { return default_generator(static_cast<c10::DeviceIndex>(device)); });
  m.def("_stream_priority", [](int64_t id) { return stream_priority(id); });
}

}  // namespace softnpu
