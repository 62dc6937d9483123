// Layout: whether a kernel may write to a tensor as it is, and what to do otherwise.
#pragma once

#include "torch_npu/csrc/core/npu/NPUFormat.h"

namespace at_npu {
namespace native {

class NpuUtils {
 public:
  static bool check_match(const at::Tensor* tensor) { return tensor->is_contiguous(); }

  // Two views along the channels of five-dimensional storages, which StrideAdd adds without copies.
  static bool check_5d_5d_match(const at::Tensor& tensor) {
    if (tensor.is_contiguous() || get_npu_format(tensor) != ACL_FORMAT_NC1HWC0) return false;
    constexpr int64_t c0 = 16;
    const bool sliced = tensor.dim() == 4 && tensor.stride(3) == 1 && tensor.stride(2) == tensor.size(3) &&
                        tensor.stride(1) == tensor.size(2) * tensor.size(3);
    return sliced && tensor.size(1) % c0 == 0 && tensor.storage_offset() % (tensor.size(2) * tensor.size(3) * c0) == 0;
  }

  static at::Tensor format_contiguous(const at::Tensor& tensor) { return tensor.contiguous(); }

  // The values of a dense result back into the view that it stands for.
  static void format_fresh_view(at::Tensor& view, const at::Tensor& result) { view.copy_(result); }
};

}  // namespace native
}  // namespace at_npu
