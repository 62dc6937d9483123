// OpCommand: a CANN operator by its type, run on npu tensors by the engine behind acl.op. The work is over when Run returns.
#pragma once

#include "torch_npu/csrc/framework/utils/Json.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace at_npu {
namespace native {

constexpr int N = 32;
constexpr int SIZE = 8;

// What the operands of an operator have in common.
struct UnifiedResult {
  c10::SmallVector<int64_t, SIZE> common_shape;
  at::ScalarType common_type = at::ScalarType::Undefined;
  bool result_type_defined = false;
};

enum class CompileType { MEMORY_HOST_COMPILE_DEPENDENT, MEMORY_HOST_COMPILE_INDEPENDENT };

class OpCommand {
 public:
  OpCommand& Name(const std::string& type) {
    type_ = type;
    return *this;
  }
  OpCommand& Expect(UnifiedResult unified) {
    expected_ = std::move(unified);
    return *this;
  }

  // The description names its place in CANN's prototype; inputs are taken in their order, so nothing depends on it.
  OpCommand& Input(const at::Tensor& tensor, const std::string& description = "",
                   const std::optional<at::ScalarType>& real_dtype = std::nullopt) {
    (void)description;
    inputs_.emplace_back(real_dtype ? tensor.to(*real_dtype) : tensor);
    return *this;
  }
  OpCommand& InputWithoutContiguous(const at::Tensor& tensor, const std::string& description = "") { return Input(tensor, description); }
  OpCommand& Inputs(at::TensorList tensors) {
    for (const auto& one : tensors) Input(one);
    return *this;
  }
  // A number as a tensor without dimensions.
  OpCommand& Input(const c10::Scalar& value, at::ScalarType type, CompileType compile = CompileType::MEMORY_HOST_COMPILE_INDEPENDENT) {
    if (compile == CompileType::MEMORY_HOST_COMPILE_DEPENDENT) constants_.push_back(static_cast<int64_t>(inputs_.size()));
    inputs_.emplace_back(at::scalar_tensor(value, at::TensorOptions(at::kCPU).dtype(type)));
    return *this;
  }
  OpCommand& InputScalarToNPUTensor(const c10::Scalar& value, at::ScalarType type) { return Input(value, type); }
  // Numbers that the operator must know when it is compiled: axes, sizes.
  OpCommand& Input(const c10::IntArrayRef& values, at::ScalarType type = at::kLong) {
    constants_.push_back(static_cast<int64_t>(inputs_.size()));
    inputs_.emplace_back(at::tensor(values, at::TensorOptions(at::kCPU).dtype(at::kLong)).to(type));
    return *this;
  }
  template <unsigned Count>
  OpCommand& Input(const c10::SmallVector<int64_t, Count>& values, at::ScalarType type = at::kLong) {
    return Input(c10::IntArrayRef(values), type);
  }
  OpCommand& Input() {  // an optional input that is absent
    inputs_.emplace_back(std::nullopt);
    return *this;
  }

  OpCommand& Output(at::Tensor& tensor, const std::string& description = "", const std::optional<int64_t>& format = std::nullopt,
                    const std::optional<at::ScalarType>& real_dtype = std::nullopt) {
    (void)description, (void)format;  // values are in logical order whatever the format
    TORCH_CHECK(!real_dtype || *real_dtype == tensor.scalar_type(), "OpCommand ", type_, ": the output is ", tensor.scalar_type(),
                " and is said to be ", real_dtype.value_or(tensor.scalar_type()), "; make it with the type it has");
    outputs_.push_back(tensor);
    return *this;
  }

  template <typename Value>
  OpCommand& Attr(const std::string& name, const Value& value) {
    attributes_.add(name, value);
    return *this;
  }
  // An attribute that is left away unless the condition holds.
  template <typename Value>
  OpCommand& Attr(const std::string& name, const Value& value, bool condition) {
    return condition ? Attr(name, value) : *this;
  }

  // Results that another operator decides on are read at once; every run here is over when it returns.
  OpCommand& Sync() { return *this; }
  OpCommand& Sync(c10::SmallVector<int64_t, N>&) { return *this; }

  void Run() {
    TORCH_CHECK(!type_.empty(), "OpCommand: the operator has no type; call Name(\"Add\") first");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("softnpu::op_command", "")
                               .typed<void(c10::string_view, const c10::List<std::optional<at::Tensor>>&, at::TensorList, c10::string_view,
                                           at::IntArrayRef)>();
    at::AutoDispatchBelowADInplaceOrView below;
    const auto results = typed_outputs();
    op.call(type_, typed_inputs(), results, attributes_.text(), constants_);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].is_same(outputs_[i])) outputs_[i].copy_(results[i]);
    }
    *this = OpCommand();
  }

 private:
  bool unified() const { return expected_ && expected_->common_type != at::ScalarType::Undefined; }

  c10::List<std::optional<at::Tensor>> typed_inputs() const {
    c10::List<std::optional<at::Tensor>> found;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool constant = std::find(constants_.begin(), constants_.end(), static_cast<int64_t>(i)) != constants_.end();
      const bool cast = unified() && inputs_[i] && !constant;
      found.push_back(cast ? std::optional<at::Tensor>(inputs_[i]->to(expected_->common_type)) : inputs_[i]);
    }
    return found;
  }

  std::vector<at::Tensor> typed_outputs() const {
    std::vector<at::Tensor> found;
    for (const auto& one : outputs_) {
      const bool cast = unified() && !expected_->result_type_defined && one.scalar_type() != expected_->common_type;
      found.push_back(cast ? at::empty(one.sizes(), one.options().dtype(expected_->common_type)) : one);
    }
    return found;
  }

  std::string type_;
  std::vector<std::optional<at::Tensor>> inputs_;
  std::vector<at::Tensor> outputs_;
  std::vector<int64_t> constants_;
  softnpu::JsonObject attributes_;
  std::optional<UnifiedResult> expected_;
};

}  // namespace native
}  // namespace at_npu
