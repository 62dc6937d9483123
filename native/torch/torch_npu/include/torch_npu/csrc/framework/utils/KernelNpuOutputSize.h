// Sizes of results.
#pragma once

#include "torch_npu/csrc/framework/OpCommand.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

namespace at_npu {
namespace native {

using OutputSize = c10::SmallVector<int64_t, SIZE>;

inline OutputSize broadcast_ops_npu_output_size(c10::IntArrayRef first, c10::IntArrayRef second) {
  const auto found = at::infer_size(first, second);
  return OutputSize(found.begin(), found.end());
}
inline OutputSize broadcast_ops_npu_output_size(const at::Tensor& self, const at::Tensor& other) {
  return broadcast_ops_npu_output_size(self.sizes(), other.sizes());
}

inline OutputSize input_same_output_size(const at::Tensor& self) { return OutputSize(self.sizes().begin(), self.sizes().end()); }

inline OutputSize reduce_ops_npu_output_size(const at::Tensor& self, c10::IntArrayRef dim, bool keepdim) {
  const auto reduced = at::dim_list_to_bitset(dim, self.dim());
  OutputSize found;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!dim.empty() && !reduced[i]) {
      found.push_back(self.size(i));
    } else if (keepdim) {
      found.push_back(1);
    }
  }
  return found;
}

}  // namespace native
}  // namespace at_npu
