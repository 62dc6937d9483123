// Storages over memory that several processes map: Python (torch_npu._runtime.shared_memory) maps it, here it becomes a storage's own.
#pragma once

namespace pybind11 {
class module_;
}

namespace softnpu {

void bind_share(pybind11::module_& m);

}  // namespace softnpu
