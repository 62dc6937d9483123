// torch_npu._C._distributed_c10d: the process group and its options for Python, and DDP's clock for npu.
#include "device/device.h"
#include "device/errors.h"
#include "hccl/process_group.h"
#include "hccl/reduce.h"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace softnpu {

// Work is over when a call returns, so the host's clock is the device's.
class NpuTimer final : public c10d::Timer {
 public:
  explicit NpuTimer(c10::Device /*device*/) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = getTimeRef(start), to = getTimeRef(end);
    if (from == c10d::kUnsetTime || to == c10d::kUnsetTime || to < from) return std::nullopt;
    return to - from;
  }
};

}  // namespace softnpu

namespace c10d {  // where the registry is

C10_REGISTER_TYPED_CLASS(TimerRegistry, softnpu::kNpu, softnpu::NpuTimer)

}  // namespace c10d

namespace softnpu {

// Python makes Gloo's group and the board (torch_npu/distributed/_gloo.py).
c10::intrusive_ptr<ProcessGroupHCCL> connected_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                     const c10::intrusive_ptr<HcclOptions>& options) {
  auto group = c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, options);
  py::gil_scoped_acquire python;
  py::module_::import("torch_npu.distributed._gloo").attr("connect")(py::cast(group), store, options->timeout);
  return group;
}

int physical_device(int index) {
  py::gil_scoped_acquire python;
  const auto devices = py::module_::import("softnpu.runtime.process").attr("process")().attr("devices");
  return devices[py::int_(index)].attr("info").attr("index").cast<int>();
}

namespace {

using Group = ProcessGroupHCCL;
using GroupPtr = c10::intrusive_ptr<Group>;
using Milliseconds = std::chrono::milliseconds;

void bind_options(py::class_<Group, GroupPtr, c10d::Backend>& group) {
  py::class_<HcclOptions, c10::intrusive_ptr<HcclOptions>, c10d::Backend::Options>(group, "Options")
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def_readwrite("op_timeout", &HcclOptions::timeout)
      .def_readwrite("is_high_priority_stream", &HcclOptions::is_high_priority_stream)
      .def_readwrite("global_ranks_in_group", &HcclOptions::global_ranks_in_group)
      .def_readwrite("group_id", &HcclOptions::group_id)
      .def_property(
          "hccl_config", [](const HcclOptions& self) { return self.hccl_config; }, &HcclOptions::set_config)
      .def("__copy__", [](const HcclOptions& self) { return c10::make_intrusive<HcclOptions>(self); })
      .def("__deepcopy__", [](const HcclOptions& self, const py::dict& /*known*/) { return c10::make_intrusive<HcclOptions>(self); });
}

// Its name is how the fused operators find the group; they look it up when they run.
std::string comm_name(Group& self, int rank, bool init_comm) {
  const auto size = std::max<int>(self.getSize(), static_cast<int>(self.options()->global_ranks_in_group.size()));
  TORCH_CHECK_VALUE(rank >= 0, "get_hccl_comm_name: there is no rank ", rank, " in a group of ", size, dist_error(ErrCode::kValue));
  const auto name = self.comm_name();
  if (init_comm) self.set_comm_name(name);
  return name;
}

void bind_comm(py::class_<Group, GroupPtr, c10d::Backend>& group) {
  group.def("get_hccl_comm_name", &comm_name, py::arg("rank"), py::arg("init_comm") = true)
      .def(
          "get_hccl_comm", [](Group& self, int /*rank*/) { return self.getID(); }, py::arg("rank"),
          "A number for the communicator: a process has one per group, whatever its rank.")
      .def("_set_hccl_comm_name", &Group::set_comm_name)
      .def(
          "abort_hccl_comm", [](Group& self, const std::string& /*reason*/) { self.abort(); }, py::arg("reason") = "",
          "Ends the connections; the reason is for the product's log, which there is not.")
      .def("resume_hccl_comm", [](const py::object& self) { py::module_::import("torch_npu.distributed._groups").attr("repair")(self); })
      .def(
          "set_watchdog_status", [](Group&, int /*status*/) {}, py::arg("status"),
          "Without effect: there is no watchdog, errors end the work they belong to.")
      .def(
          "get_coll_stream_id", [](Group&, int /*rank*/) { return current_stream(current_device()).id(); }, py::arg("rank") = 0,
          "The current stream: collectives have none of their own.");
}

void bind_uneven(py::class_<Group, GroupPtr, c10d::Backend>& group) {
  group
      .def(
          "_reduce_scatter_base_uneven",
          [](Group& self, at::Tensor output, at::Tensor input, const std::vector<int64_t>& splits, const c10d::ReduceScatterOptions& opts) {
            return self.reduce_scatter_uneven(output, input, splits, opts);
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "_allgather_base_uneven",
          [](Group& self, at::Tensor output, at::Tensor input, const std::vector<int64_t>& splits) {
            return self.allgather_uneven(output, input, splits, c10d::AllgatherOptions());
          },
          py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_hccl(py::module& m) {
  auto names = m.def_submodule("_distributed_c10d", "Process groups of npu tensors.");
  py::module_::import("torch._C._distributed_c10d");  // it has the base classes
  py::class_<Group, GroupPtr, c10d::Backend> group(names, "ProcessGroupHCCL");
  bind_options(group);
  group.def(py::init(&connected_group), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout) {
             auto options = c10::make_intrusive<HcclOptions>();
             options->timeout = timeout;
             return connected_group(store, rank, size, options);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = Milliseconds(kBackendDefaultTimeout))
      .def_property_readonly("options", &Group::options)
      .def("_connect", &Group::connect, py::arg("inner"), py::arg("board"))
      .def("_store", &Group::store)
      .def("_set_default_timeout", &Group::setTimeout, py::arg("timeout"));
  bind_comm(group);
  bind_uneven(group);
  names.def("_find_group", &Group::find);
  names.def("_board_bytes", &Board::bytes);
  names.def("_allow_wide_reductions", &allow_wide_reductions);
}

}  // namespace softnpu
