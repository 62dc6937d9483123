// How values of several ranks become one: which operations and data types there are, and what Gloo needs help with.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace softnpu {

class Reduction {
 public:
  // Raises for operations and data types that HCCL does not take.
  Reduction(const c10d::ReduceOp& op, const at::Tensor& tensor, int size, const std::string& name);

  c10d::ReduceOp::RedOpType wire_op() const { return wire_op_; }
  // The tensor as Gloo reduces it: its own memory, or a copy where Gloo lacks the data type or the values must stay.
  at::Tensor sent(const at::Tensor& tensor, bool copy) const;
  // The values as they are sent to the rank that sums them up.
  at::Tensor scaled(const at::Tensor& flat) const;
  // From what Gloo left in `reduced` to the tensor: the division of AVG, the data type.
  void received(const at::Tensor& reduced, const at::Tensor& tensor) const;
  // The rows of `rows`, one per rank, into `out`.
  void rows_into(const at::Tensor& rows, const at::Tensor& out) const;
  at::Tensor own_memory(const at::Tensor& tensor) const;

 private:
  void divide(const at::Tensor& values) const;

  c10d::ReduceOp op_;
  c10d::ReduceOp::RedOpType wire_op_;
  at::ScalarType dtype_;  // of memory, bool as bytes
  at::ScalarType wire_;   // as Gloo reduces it
  int size_;
};

void allow_wide_reductions(bool allow);  // chips that reduce uint64 and float64, in chip mode

}  // namespace softnpu
