// Results of adapters: made, and checked where the caller brings them.
#pragma once

#include "torch_npu/csrc/framework/utils/CalcuOpUtil.h"
#include "torch_npu/csrc/framework/utils/KernelNpuOutputSize.h"

#include <ATen/native/TypeProperties.h>

#include <initializer_list>

namespace at_npu {
namespace native {

class OpPreparation {
 public:
  static at::Tensor apply_tensor_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format,
                                             bool keep_format = false) {
    return empty_with_format(sizes, options, format, keep_format);
  }
  static at::Tensor apply_tensor_with_format(const at::Tensor& like, int64_t format, bool keep_format = false) {
    return empty_with_format(like.sizes(), like.options(), format, keep_format);
  }
  static at::Tensor apply_tensor_with_format(const at::Tensor& like, c10::IntArrayRef sizes, int64_t format, bool keep_format = false) {
    return empty_with_format(sizes, like.options(), format, keep_format);
  }
  static at::Tensor apply_tensor(const at::Tensor& like) { return apply_tensor(like, like.sizes()); }
  static at::Tensor apply_tensor(const at::Tensor& like, c10::IntArrayRef sizes) { return apply_tensor(like, like.options(), sizes); }
  static at::Tensor apply_tensor(const at::Tensor& like, const c10::TensorOptions& options) {
    return apply_tensor(like, options, like.sizes());
  }
  static at::Tensor apply_tensor(const at::Tensor& like, const c10::TensorOptions& options, c10::IntArrayRef sizes) {
    return empty_with_format(sizes, options, get_npu_format(like));
  }
  static at::Tensor apply_tensor_without_format(const at::Tensor& like) { return at::empty(like.sizes(), like.options()); }
  static at::Tensor apply_tensor_without_format(const at::Tensor& like, c10::IntArrayRef sizes) { return at::empty(sizes, like.options()); }
  static at::Tensor apply_tensor_without_format(c10::IntArrayRef sizes, const c10::TensorOptions& options) {
    return at::empty(sizes, options);
  }
  static at::Tensor apply_tensor_with_sizes(c10::IntArrayRef sizes, const c10::TensorOptions& options) { return at::empty(sizes, options); }

  static void check_tensor(std::initializer_list<at::Tensor> inputs, at::Tensor& output, const at::Tensor& expected) {
    check_tensor(inputs, output, expected.scalar_type(), expected.sizes());
  }
  static void check_tensor(std::initializer_list<at::Tensor> inputs, at::Tensor& output, at::ScalarType type, c10::IntArrayRef sizes) {
    check_tensor(inputs, output, get_npu_format(output), type, sizes);
  }
  static void check_tensor(std::initializer_list<at::Tensor> inputs, at::Tensor& output, int64_t format, at::ScalarType type,
                           c10::IntArrayRef sizes) {
    (void)inputs, (void)format;  // a format changes no values here, so any output will do
    TORCH_CHECK(output.device().type() == c10::DeviceType::PrivateUse1, "output with device ", output.device(), " doesn't match the npu");
    TORCH_CHECK(output.scalar_type() == type, "expected dtype ", type, " but got dtype ", output.scalar_type());
    if (!output.sizes().equals(sizes)) output.resize_(sizes);
  }
  static void check_memory(std::initializer_list<at::Tensor> inputs, std::initializer_list<at::Tensor> outputs) {
    CalcuOpUtil::check_memory_over_laps(at::ArrayRef<at::Tensor>(inputs), at::ArrayRef<at::Tensor>(outputs));
  }

  static at::Tensor cast_to_ori_format(const at::Tensor& tensor) {
    const auto format = get_npu_format(tensor);
    const bool deep = format == ACL_FORMAT_NDC1HWC0 || format == ACL_FRACTAL_Z_3D;
    if (format == ACL_FORMAT_NC1HWC0 || format == ACL_FORMAT_FRACTAL_Z) return npu_format_cast(tensor, ACL_FORMAT_NCHW);
    return deep ? npu_format_cast(tensor, ACL_FORMAT_NCDHW) : npu_format_cast(tensor, ACL_FORMAT_ND);
  }
  static int64_t get_tensor_npu_format(const at::Tensor& tensor) { return get_npu_format(tensor); }
  static bool is_scalar_wrapped_to_tensor(const at::Tensor& tensor) { return CalcuOpUtil::is_scalar_wrapped_to_tensor(tensor); }

  static at::Tensor copy_scalar_to_device(const c10::Scalar& value, at::ScalarType type) {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    return at::scalar_tensor(value, at::TensorOptions(at::kCPU).dtype(type)).to(guard.getDevice());
  }
  static at::Tensor copy_tensor_host_to_device(const at::Tensor& tensor) {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    return tensor.to(guard.getDevice());
  }

  // The type that both operands are computed in, and the sizes of the result.
  static UnifiedResult binary_op_check(at::Tensor& out, const at::Tensor& first, const at::Tensor& second, bool check_overlap) {
    if (check_overlap) check_memory({first, second}, {out});
    return {broadcast_ops_npu_output_size(first, second), at::native::result_type(first, second), false};
  }
  static UnifiedResult binary_op_check(at::Tensor& out, const at::Tensor& first, const c10::Scalar& second, bool check_overlap) {
    if (check_overlap) check_memory({first}, {out});
    return {input_same_output_size(first), at::native::result_type(first, second), false};
  }
  static UnifiedResult comparison_op_check(at::Tensor& out, const at::Tensor& first, const at::Tensor& second, bool check_overlap) {
    auto found = binary_op_check(out, first, second, check_overlap);
    found.result_type_defined = true;
    return found;
  }
  static UnifiedResult unary_op_check(at::Tensor& out, const at::Tensor& self, bool check_overlap) {
    if (check_overlap) check_memory({self}, {out});
    return {input_same_output_size(self), self.scalar_type(), false};
  }

  // The older spellings.
  template <typename... Arguments>
  static at::Tensor ApplyTensor(Arguments&&... arguments) {
    return apply_tensor(std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  static at::Tensor ApplyTensorWithFormat(Arguments&&... arguments) {
    return apply_tensor_with_format(std::forward<Arguments>(arguments)...);
  }
  static at::Tensor ApplyTensorWithSizes(c10::IntArrayRef sizes, const c10::TensorOptions& options) { return at::empty(sizes, options); }
  template <typename... Arguments>
  static void CheckOut(std::initializer_list<at::Tensor> inputs, at::Tensor& output, Arguments&&... arguments) {
    check_tensor(inputs, output, std::forward<Arguments>(arguments)...);
  }
  static void CheckMemory(std::initializer_list<at::Tensor> inputs, std::initializer_list<at::Tensor> outputs) {
    check_memory(inputs, outputs);
  }
  static at::Tensor CastBackToOriFormat(const at::Tensor& tensor) { return cast_to_ori_format(tensor); }
};

}  // namespace native
}  // namespace at_npu
