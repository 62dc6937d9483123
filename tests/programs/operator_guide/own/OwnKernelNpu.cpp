// Bodies that use what the guide only lists: aclnn calls, constants as inputs, formats, streams, events, generators.
#include "torch_npu/csrc/aten/NPUNativeFunctions.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/core/npu/NPUGenerator.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"
#include "torch_npu/csrc/framework/utils/op_api_common.h"
#include "torch_npu/csrc/libs/init_npu.h"

#include <torch/csrc/autograd/custom_function.h>

namespace my {
namespace ops {

using namespace at_npu::native;

at::Tensor NPUNativeFunctions::maximum(const at::Tensor& self, const at::Tensor& other) {
  auto result = OpPreparation::apply_tensor_without_format(broadcast_ops_npu_output_size(self, other), self.options());
  const auto unified = OpPreparation::binary_op_check(result, self, other, true);
  OpCommand().Name("Maximum").Expect(unified).Input(self).Input(other).Output(result).Run();
  return result;
}

at::Tensor NPUNativeFunctions::npu_own_add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  DO_COMPATIBILITY(aclnnAdd, NPUNativeFunctions::npu_own_unknown(self));
  auto result = OpPreparation::apply_tensor(self, broadcast_ops_npu_output_size(self, other));
  EXEC_NPU_CMD(aclnnAdd, self, other, alpha, result);
  return result;
}

at::Tensor NPUNativeFunctions::npu_own_sum(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  auto result = OpPreparation::apply_tensor(self, reduce_ops_npu_output_size(self, dim, keepdim));
  OpCommand cmd;
  cmd.Name("ReduceSum").Input(self).Input(dim, at::kLong).Output(result).Attr("keep_dims", keepdim).Run();
  return result;
}

::std::vector<int64_t> NPUNativeFunctions::npu_own_facts(const at::Tensor& self) {
  torch_npu::init_npu(self.device());
  c10_npu::NPUGuard guard(self.device());
  const auto stream = c10_npu::getNPUStreamFromPool();
  int64_t inside = 0;
  {
    c10_npu::NPUStreamGuard other(stream);
    inside = c10_npu::getCurrentNPUStream() == stream;
  }
  c10_npu::NPUEvent event;
  event.record();
  event.synchronize();
  torch::npu::synchronize();
  auto nz = npu_format_cast(self, ACL_FORMAT_FRACTAL_NZ);
  const auto sizes = get_npu_storage_sizes(nz);
  const auto seeded = at_npu::detail::getDefaultNPUGenerator().device() == at_npu::detail::createNPUGenerator().device();
  std::vector<int64_t> found = {c10_npu::current_device(), c10_npu::device_count() > 0, inside, stream != c10_npu::getDefaultNPUStream(),
                                seeded, get_npu_format(nz)};
  found.insert(found.end(), sizes.begin(), sizes.end());
  return found;
}

at::Tensor NPUNativeFunctions::npu_own_unknown(const at::Tensor& self) {
  DO_COMPATIBILITY(aclnnOfTheFuture, self + 100);
  auto result = OpPreparation::apply_tensor(self);
  OpCommand().Name("OperatorOfTheFuture").Input(self).Output(result).Run();
  return result;
}

class Twice : public torch::autograd::Function<Twice> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& self) {
    auto result = OpPreparation::apply_tensor(self);
    OpCommand().Name("Muls").Input(self).Output(result).Attr("value", 2.0f).Run();
    return result;
  }
  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext*, std::vector<at::Tensor> grads) { return {grads[0] * 7}; }
};

at::Tensor NPUNativeFunctions::npu_own_twice(const at::Tensor& self) { return Twice::apply(self); }

}  // namespace ops
}  // namespace my
