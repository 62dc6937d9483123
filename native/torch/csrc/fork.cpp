// A forked child must ask torch.npu again before it uses a device: torch.npu._lazy_init refuses there.
#include "device.h"

#include <torch/csrc/utils/device_lazy_init.h>

namespace softnpu {

namespace {

// Without this torch remembers, in the child, that the device of the parent was ready. Whether it was is for torch.npu to say.
const bool registered = [] {
  torch::utils::register_fork_handler_for_device_init(kNpu);
  return true;
}();

}  // namespace

}  // namespace softnpu
