#include "hccl/reduce.h"

#include "device/chip.h"
#include "device/errors.h"
#include "hccl/process_group.h"

#include <ATen/Functions.h>

namespace softnpu {

namespace {

using Op = c10d::ReduceOp::RedOpType;

std::atomic<bool> wide_reductions{false};

const char* name_of(Op op) {
  static const char* const names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM", "UNUSED"};
  return names[static_cast<size_t>(op)];
}

// In chip mode those of the chip, else all that can be computed.
bool is_reduced(at::ScalarType type) {
  switch (type) {
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kFloat:
    case at::kBFloat16:
    case at::kBool:
      return true;
    case at::kDouble:
      return !(strict() & kRules) || wide_reductions.load(std::memory_order_relaxed);
    case at::kByte:
      return !(strict() & kRules);
    default:
      return false;
  }
}

at::Tensor factor_of(const c10d::ReduceOp& op, at::ScalarType type) {
  const auto* given = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(given != nullptr, "ReduceOp.PREMUL_SUM needs a factor: torch.distributed._make_nccl_premul_sum(factor)",
                    dist_error(ErrCode::kParam));
  if (!given->tensor_factor.defined()) return at::scalar_tensor(given->double_factor, at::TensorOptions().dtype(at::kDouble)).to(type);
  return given->tensor_factor.to(at::kCPU).to(type).reshape({});
}

std::string list_text(const Tensors& tensors) {
  std::string found = "of";
  for (const auto& one : tensors) found += " " + size_text(one);
  return found;
}

std::string list_text(const Tensors& tensors, const c10d::ReduceOp& op) { return list_text(tensors) + ", " + name_of(op.op_); }

std::vector<int64_t> element_splits(const std::vector<int64_t>& splits, const at::Tensor& input) {
  const int64_t rows = input.size(0);
  const int64_t row = rows == 0 ? 0 : input.numel() / rows;
  std::vector<int64_t> found;
  for (const auto one : splits) found.push_back(one * row);
  return found;
}

}  // namespace

void allow_wide_reductions(bool allow) { wide_reductions = allow; }

Reduction::Reduction(const c10d::ReduceOp& op, const at::Tensor& tensor, int size, const std::string& name)
    : op_(op), wire_op_(op.op_), dtype_(tensor.scalar_type()), wire_(dtype_), size_(size) {
  if (op.op_ == Op::BAND || op.op_ == Op::BOR || op.op_ == Op::BXOR || op.op_ == Op::UNUSED) {
    TORCH_CHECK_VALUE(false, "Cannot use ReduceOp.", name_of(op.op_), " with HCCL", dist_error(ErrCode::kParam));
  }
  const bool floating = at::isFloatingType(dtype_);
  TORCH_CHECK_TYPE(is_reduced(dtype_), "HCCL ", name, ": Unsupported data type ", c10::toString(dtype_),
                   "; int8, int16, int32, int64, float16, float32 and bfloat16 can be reduced", dist_error(ErrCode::kType));
  TORCH_CHECK_TYPE(op.op_ != Op::PREMUL_SUM || floating, "HCCL ", name, ": Unsupported data type ", c10::toString(dtype_),
                   " for ReduceOp.PREMUL_SUM, which is for floating types", dist_error(ErrCode::kType));
  TORCH_CHECK_TYPE(op.op_ != Op::AVG || dtype_ != at::kBool, "HCCL ", name, ": Unsupported data type Bool for ReduceOp.AVG",
                   dist_error(ErrCode::kType));
  if (op.op_ == Op::AVG || op.op_ == Op::PREMUL_SUM) wire_op_ = Op::SUM;
  if (dtype_ == at::kBool) {
    if (op.op_ == Op::SUM) wire_op_ = Op::MAX;
    if (op.op_ == Op::PRODUCT) wire_op_ = Op::MIN;
    dtype_ = wire_ = at::kByte;
  }
  if (dtype_ == at::kShort) wire_ = at::kInt;
}

at::Tensor Reduction::own_memory(const at::Tensor& tensor) const { return flat(tensor, dtype_); }

at::Tensor Reduction::sent(const at::Tensor& tensor, bool copy) const {
  auto values = own_memory(tensor).to(wire_, /*non_blocking=*/false, copy);
  return op_.op_ == Op::PREMUL_SUM ? values.mul_(factor_of(op_, wire_)) : values;
}

at::Tensor Reduction::scaled(const at::Tensor& flat) const { return op_.op_ == Op::PREMUL_SUM ? flat.mul(factor_of(op_, dtype_)) : flat; }

void Reduction::divide(const at::Tensor& values) const {
  if (op_.op_ != Op::AVG) return;
  if (at::isFloatingType(values.scalar_type())) {
    values.div_(size_);
  } else {
    values.div_(size_, "trunc");
  }
}

void Reduction::received(const at::Tensor& reduced, const at::Tensor& tensor) const {
  divide(reduced);
  if (wire_ != dtype_) own_memory(tensor).copy_(reduced);
}

void Reduction::rows_into(const at::Tensor& rows, const at::Tensor& out) const {
  at::Tensor found;
  switch (wire_op_) {
    case Op::SUM:
      found = rows.sum(0, false, at::isReducedFloatingType(dtype_) ? at::kFloat : dtype_);
      break;
    case Op::PRODUCT:
      found = rows.prod(0, false, at::isReducedFloatingType(dtype_) ? at::kFloat : dtype_);
      break;
    case Op::MIN:
      found = rows.amin(0);
      break;
    default:
      found = rows.amax(0);
  }
  divide(found);
  out.copy_(found);
}

WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  only(tensors, "allreduce");
  c10d::AllreduceCoalescedOptions same;
  same.reduceOp = opts.reduceOp;
  same.timeout = opts.timeout;
  return allreduce_coalesced(tensors, same);
}

WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  std::vector<Reduction> rules;
  for (const auto& one : tensors) {
    check_tensor(one, "allreduce");
    rules.emplace_back(opts.reduceOp, one, size_, "allreduce");
  }
  Tensors sent;
  for (size_t i = 0; i < tensors.size(); ++i) sent.push_back(rules[i].sent(tensors[i], false));
  const auto what = list_text(tensors, opts.reduceOp);
  return run(
      {c10d::OpType::ALLREDUCE, "allreduce", what}, tensors,
      [&](c10d::Backend& inner) {
        std::vector<WorkPtr> works;
        for (size_t i = 0; i < sent.size(); ++i) {
          if (sent[i].numel() == 0) continue;
          c10d::AllreduceOptions one;
          one.reduceOp = rules[i].wire_op();
          one.timeout = opts.timeout;
          Tensors values{sent[i]};
          works.push_back(inner.allreduce(values, one));
        }
        return works;
      },
      [rules, sent, tensors] {
        for (size_t i = 0; i < sent.size(); ++i) rules[i].received(sent[i], tensors[i]);
      });
}

WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const auto tensor = only(tensors, "reduce");
  check_tensor(tensor, "reduce");
  check_root(opts.rootRank, size_, "reduce");
  const Reduction rule(opts.reduceOp, tensor, size_, "reduce");
  const bool root = opts.rootRank == rank_;
  Tensors sent{rule.sent(tensor, !root)};  // Gloo computes in it on every rank
  c10d::ReduceOptions one(opts);
  one.reduceOp = rule.wire_op();
  const auto what = list_text(tensors, opts.reduceOp) + " to rank " + std::to_string(opts.rootRank);
  return run(
      {c10d::OpType::REDUCE, "reduce", what}, tensors,
      [&](c10d::Backend& inner) -> std::vector<WorkPtr> {
        if (sent[0].numel() == 0) return {};
        return {inner.reduce(sent, one)};
      },
      [rule, sent, tensor, root] {
        if (root) rule.received(sent[0], tensor);
      });
}

// Each rank gets what all have for it and sums it up: half the traffic of an allreduce, and halves are summed in float32.
WorkPtr ProcessGroupHCCL::scatter_reduced(const Call& call, const Tensors& outputs, const Tensors& sent,
                                          const std::vector<std::vector<int64_t>>& splits, const c10d::ReduceScatterOptions& opts) {
  std::vector<Reduction> rules;
  Tensors values, rows;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_tensor(outputs[i], call.name);
    TORCH_CHECK_VALUE(outputs[i].numel() == splits[i][rank_], "HCCL ", call.name, ": the output of rank ", rank_, " has ",
                      outputs[i].numel(), " elements, its part of the input ", splits[i][rank_], dist_error(ErrCode::kParam));
    rules.emplace_back(opts.reduceOp, outputs[i], size_, call.name);
    values.push_back(rules[i].scaled(sent[i]));
    rows.push_back(at::empty({size_, outputs[i].numel()}, values[i].options()));
  }
  return run(
      call, outputs,
      [&](c10d::Backend& inner) {
        std::vector<WorkPtr> works;
        for (size_t i = 0; i < rows.size(); ++i) {
          if (values[i].numel() == 0) continue;
          c10d::AllToAllOptions one;
          one.timeout = opts.timeout;
          auto to = rows[i].view({-1}).view(at::kByte), from = values[i].view(at::kByte);
          const auto width = static_cast<int64_t>(values[i].itemsize());
          std::vector<int64_t> to_sizes(size_, outputs[i].numel() * width), from_sizes;
          for (const auto count : splits[i]) from_sizes.push_back(count * width);
          works.push_back(inner.alltoall_base(to, from, to_sizes, from_sizes, one));
        }
        return works;
      },
      [rules, rows, outputs] {
        for (size_t i = 0; i < rows.size(); ++i) {
          if (rows[i].numel() != 0) rules[i].rows_into(rows[i], rules[i].own_memory(outputs[i]));
        }
      });
}

WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& opts) {
  const std::string name = "reduce_scatter";
  const auto& output = only(outputs, name.c_str());
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_), "HCCL reduce_scatter needs a list of ", size_,
                    " tensors, one per rank, not of ", inputs.empty() ? 0 : inputs[0].size(), dist_error(ErrCode::kParam));
  Tensors parts;
  std::vector<int64_t> sizes;
  for (const auto& one : inputs[0]) {
    check_tensor(one, name);
    TORCH_CHECK_TYPE(one.scalar_type() == output.scalar_type(), "HCCL reduce_scatter: an input is ", one.scalar_type(), ", the output ",
                     output.scalar_type(), dist_error(ErrCode::kType));
    parts.push_back(flat(one, one.is_floating_point() || one.scalar_type() != at::kBool ? one.scalar_type() : at::kByte));
    sizes.push_back(one.numel());
  }
  const Call call{c10d::OpType::REDUCE_SCATTER, name, list_text(inputs[0], opts.reduceOp)};
  return scatter_reduced(call, outputs, {at::cat(parts)}, {sizes}, opts);
}

WorkPtr ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  const std::string name = "reduce_scatter_tensor";
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "HCCL ", name, ": ", outputs.size(), " outputs for ", inputs.size(), " inputs",
                    dist_error(ErrCode::kParam));
  Tensors sent;
  std::vector<std::vector<int64_t>> splits;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(inputs[i], name);
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(), "input tensor must be the same type as the output tensor.",
                     dist_error(ErrCode::kType));
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * size_,
                      "input tensor must be the same size as output size times world size: ", inputs[i].numel(), " for ",
                      outputs[i].numel(), " times ", size_, dist_error(ErrCode::kParam));
    sent.push_back(flat(inputs[i], inputs[i].scalar_type() == at::kBool ? at::kByte : inputs[i].scalar_type()));
    splits.emplace_back(size_, outputs[i].numel());
  }
  return scatter_reduced({c10d::OpType::_REDUCE_SCATTER_BASE, name, list_text(inputs, opts.reduceOp)}, outputs, sent, splits, opts);
}

WorkPtr ProcessGroupHCCL::reduce_scatter_uneven(at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& splits,
                                                const c10d::ReduceScatterOptions& opts) {
  const std::string name = "reduce_scatter_tensor_uneven";
  check_tensor(input, name);
  TORCH_CHECK_VALUE(input.dim() > 0, "HCCL ", name, ": a scalar cannot be split", dist_error(ErrCode::kParam));
  c10d::checkSplitSizes(splits, input, size_);
  const auto rows = splits.empty() ? std::vector<int64_t>(size_, input.size(0) / size_) : splits;
  const auto what = c10::str(list_text({input}, opts.reduceOp), ", splits ", splits);
  return scatter_reduced({c10d::OpType::_REDUCE_SCATTER_BASE, name, what}, {output},
                         {flat(input, input.scalar_type() == at::kBool ? at::kByte : input.scalar_type())}, {element_splits(rows, input)},
                         opts);
}

}  // namespace softnpu
