// Collectives that move values: they travel as bytes.
#include "device/errors.h"
#include "hccl/process_group.h"

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace softnpu {

namespace {

Tensors all_bytes(const Tensors& tensors, const std::string& name) {
  Tensors found;
  for (const auto& tensor : tensors) {
    check_tensor(tensor, name);
    found.push_back(bytes_of(tensor));
  }
  return found;
}

// The list of one per rank that the root has; the other ranks have none.
const Tensors& list_of_root(const std::vector<Tensors>& lists, int size, const char* name) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists[0].size() == static_cast<size_t>(size), "HCCL ", name, " needs a list of ", size,
                    " tensors, one per rank, on the root rank; it has ", lists.empty() ? 0 : lists[0].size(), dist_error(ErrCode::kParam));
  return lists[0];
}

bool all_like(const Tensors& tensors, const at::Tensor& like) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& one) { return one.nbytes() == like.nbytes(); });
}

void check_like(const Tensors& tensors, const at::Tensor& like, const std::string& name) {
  for (const auto& one : tensors) {
    TORCH_CHECK_VALUE(one.numel() == like.numel() && one.scalar_type() == like.scalar_type(), "HCCL ", name,
                      ": tensors must have the same size and dtype, got ", one.sizes(), " ", one.scalar_type(), " beside ", like.sizes(),
                      " ", like.scalar_type(), dist_error(ErrCode::kParam));
  }
}

// Sizes of the pieces in bytes. Without splits all are the same.
std::vector<int64_t> byte_splits(const std::vector<int64_t>& splits, const at::Tensor& tensor, int size) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, "HCCL alltoall: a scalar cannot be split; give it a dimension", dist_error(ErrCode::kParam));
  c10d::checkSplitSizes(splits, tensor, size);
  const int64_t rows = tensor.size(0);
  const int64_t row = rows == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / rows;
  if (splits.empty()) return std::vector<int64_t>(size, rows / size * row);
  std::vector<int64_t> found;
  for (const auto one : splits) found.push_back(one * row);
  return found;
}

}  // namespace

WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const auto& tensor = only(tensors, "broadcast");
  check_tensor(tensor, "broadcast");
  check_root(opts.rootRank, size_, "broadcast");
  auto bytes = Tensors{bytes_of(tensor)};
  const Call call{c10d::OpType::BROADCAST, "broadcast", "of " + size_text(tensor) + " from rank " + std::to_string(opts.rootRank)};
  return run(call, {tensor}, [&](c10d::Backend& inner) -> std::vector<WorkPtr> {
    if (bytes[0].numel() == 0) return {};
    return {inner.broadcast(bytes, opts)};
  });
}

// Every rank's piece from that rank; `own` is copied to this rank's first. Pieces may differ in size.
WorkPtr ProcessGroupHCCL::gather_pieces(const Call& call, Tensors outputs, Tensors pieces, const at::Tensor& own,
                                        std::chrono::milliseconds timeout) {
  auto mine = pieces[rank_];
  if (mine.numel() != 0 && mine.data_ptr() != own.data_ptr()) mine.copy_(own);
  return run(call, std::move(outputs), [&](c10d::Backend& inner) {
    std::vector<WorkPtr> works;
    for (int rank = 0; rank < size_; ++rank) {
      if (pieces[rank].numel() == 0) continue;
      c10d::BroadcastOptions from;
      from.rootRank = rank;
      from.timeout = timeout;
      Tensors one{pieces[rank]};
      works.push_back(inner.broadcast(one, from));
    }
    return works;
  });
}

WorkPtr ProcessGroupHCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const auto& input = only(inputs, "allgather");
  check_tensor(input, "allgather");
  const auto& list = list_of_root(outputs, size_, "allgather");
  auto pieces = all_bytes(list, "allgather");
  if (!all_like(list, input)) {
    TORCH_CHECK_VALUE(list[rank_].nbytes() == input.nbytes(), "HCCL allgather: output ", rank_, " has ", list[rank_].nbytes(),
                      " bytes, this rank's input ", input.nbytes(), dist_error(ErrCode::kParam));
    std::string sizes = "of";
    for (const auto& one : list) sizes += " " + size_text(one);
    return gather_pieces({c10d::OpType::ALLGATHER, "allgather", sizes}, list, pieces, bytes_of(input), opts.timeout);
  }
  std::vector<Tensors> to{std::move(pieces)};
  Tensors from{bytes_of(input)};
  return run({c10d::OpType::ALLGATHER, "allgather", "of " + size_text(input)}, list, [&](c10d::Backend& inner) -> std::vector<WorkPtr> {
    if (from[0].numel() == 0) return {};
    return {inner.allgather(to, from, opts)};
  });
}

WorkPtr ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const std::string name = "allgather_into_tensor";
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "HCCL ", name, ": ", outputs.size(), " outputs for ", inputs.size(), " inputs",
                    dist_error(ErrCode::kParam));
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].scalar_type() == inputs[i].scalar_type(), "output tensor must have the same type as input tensor",
                      dist_error(ErrCode::kType));
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size: ", outputs[i].numel(), " for ", size_,
                      " times ", inputs[i].numel(), dist_error(ErrCode::kParam));
  }
  auto to = all_bytes(outputs, name), from = all_bytes(inputs, name);
  std::string sizes = "of";
  for (const auto& one : inputs) sizes += " " + size_text(one);
  return run({c10d::OpType::_ALLGATHER_BASE, name, sizes}, outputs, [&](c10d::Backend& inner) {
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].numel() == 0) continue;
      std::vector<Tensors> pieces{to[i].chunk(size_)};
      Tensors one{from[i]};
      works.push_back(inner.allgather(pieces, one, opts));
    }
    return works;
  });
}

WorkPtr ProcessGroupHCCL::allgather_uneven(at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& splits,
                                           const c10d::AllgatherOptions& opts) {
  const std::string name = "all_gather_into_tensor_uneven";
  check_tensor(output, name);
  check_tensor(input, name);
  const auto sizes = byte_splits(splits, output, size_);
  TORCH_CHECK_VALUE(static_cast<int64_t>(input.nbytes()) == sizes[rank_], "HCCL ", name, ": the input of rank ", rank_, " has ",
                    input.nbytes(), " bytes, its split of the output ", sizes[rank_], dist_error(ErrCode::kParam));
  return gather_pieces({c10d::OpType::_ALLGATHER_BASE, name, c10::str("into ", size_text(output), ", splits ", splits)}, {output},
                       bytes_of(output).split_with_sizes(sizes), bytes_of(input), opts.timeout);
}

WorkPtr ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const auto& input = only(inputs, "gather");
  check_tensor(input, "gather");
  check_root(opts.rootRank, size_, "gather");
  const bool root = opts.rootRank == rank_;
  const Tensors list = root ? list_of_root(outputs, size_, "gather") : Tensors{};
  check_like(list, input, "gather");
  std::vector<Tensors> to;
  if (root) to.push_back(all_bytes(list, "gather"));
  Tensors from{bytes_of(input)};
  return run({c10d::OpType::GATHER, "gather", "of " + size_text(input) + " to rank " + std::to_string(opts.rootRank)}, list,
             [&](c10d::Backend& inner) -> std::vector<WorkPtr> {
               if (from[0].numel() == 0) return {};
               return {inner.gather(to, from, opts)};
             });
}

WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) {
  const auto& output = only(outputs, "scatter");
  check_tensor(output, "scatter");
  check_root(opts.rootRank, size_, "scatter");
  std::vector<Tensors> from;
  if (opts.rootRank == rank_) {
    const auto& list = list_of_root(inputs, size_, "scatter");
    check_like(list, output, "scatter");
    from.push_back(all_bytes(list, "scatter"));
  }
  Tensors to{bytes_of(output)};
  return run({c10d::OpType::SCATTER, "scatter", "of " + size_text(output) + " from rank " + std::to_string(opts.rootRank)}, outputs,
             [&](c10d::Backend& inner) -> std::vector<WorkPtr> {
               if (to[0].numel() == 0) return {};
               return {inner.scatter(to, from, opts)};
             });
}

WorkPtr ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  check_tensor(output, "alltoall_base");
  check_tensor(input, "alltoall_base");
  TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "HCCL alltoall_base: output is ", output.scalar_type(), ", input is ",
                    input.scalar_type(), "; they must be the same", dist_error(ErrCode::kType));
  auto to = bytes_of(output), from = bytes_of(input);
  auto to_sizes = byte_splits(output_splits, output, size_), from_sizes = byte_splits(input_splits, input, size_);
  const Call call{c10d::OpType::ALLTOALL_BASE, "alltoall", c10::str("of ", c10::toString(input.scalar_type())), from_sizes, to_sizes};
  return run(call, {output},
             [&](c10d::Backend& inner) -> std::vector<WorkPtr> { return {inner.alltoall_base(to, from, to_sizes, from_sizes, opts)}; });
}

WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_) && inputs.size() == outputs.size(), "HCCL alltoall needs lists of ", size_,
                    " tensors, one per rank, not of ", outputs.size(), " and ", inputs.size(), dist_error(ErrCode::kParam));
  const auto parts = all_bytes(outputs, "alltoall");
  auto from = at::cat(all_bytes(inputs, "alltoall"));
  std::vector<int64_t> to_sizes, from_sizes;
  for (const auto& one : outputs) to_sizes.push_back(static_cast<int64_t>(one.nbytes()));
  for (const auto& one : inputs) from_sizes.push_back(static_cast<int64_t>(one.nbytes()));
  auto to = at::empty({c10::sum_integers(to_sizes)}, at::kByte);
  const Call call{c10d::OpType::ALLTOALL, "alltoall", c10::str("of ", c10::toString(inputs[0].scalar_type())), from_sizes, to_sizes};
  return run(
      call, outputs,
      [&](c10d::Backend& inner) -> std::vector<WorkPtr> { return {inner.alltoall_base(to, from, to_sizes, from_sizes, opts)}; },
      [to, to_sizes, parts] {
        const auto pieces = to.split_with_sizes(to_sizes);
        for (size_t i = 0; i < parts.size(); ++i) {
          if (parts[i].numel() != 0) parts[i].copy_(pieces[i]);
        }
      });
}

WorkPtr ProcessGroupHCCL::point_to_point(c10d::OpType type, const char* name, int peer, int tag, Tensors& tensors,
                                         const std::function<WorkPtr(c10d::Backend&, Tensors&)>& launch) {
  const auto& tensor = only(tensors, name);
  check_tensor(tensor, name);
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "HCCL ", name, ": rank ", rank_, " has no peer ", peer, " in a group of ",
                    size_, dist_error(ErrCode::kValue));
  const auto inner = this->inner();
  const auto other = board_->begin_transfer(type == c10d::OpType::SEND, peer, tag, size_text(tensor));
  if (C10_UNLIKELY(!other.empty())) {
    refuse(c10::str("HCCL: send and recv do not match: ", other), "Both ends need tensors of the same size and dtype");
  }
  Tensors bytes{bytes_of(tensor)};
  auto explained = explain(c10::str(name, type == c10d::OpType::SEND ? " to rank " : " from rank ", peer), 0, false);
  std::vector<WorkPtr> works;
  try {
    if (bytes[0].numel() != 0) works.push_back(launch(*inner, bytes));
  } catch (...) {
    std::rethrow_exception(explained(std::current_exception()));
  }
  auto work =
      c10::make_intrusive<HcclJoinedWork>(rank_, type, 0, std::move(works), Tensors{tensor}, std::move(explained), waiters_, watch_, peer);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int to, int tag) {
  return point_to_point(c10d::OpType::SEND, "send", to, tag, tensors,
                        [&](c10d::Backend& inner, Tensors& bytes) { return inner.send(bytes, to, tag); });
}

WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int from, int tag) {
  return point_to_point(c10d::OpType::RECV, "recv", from, tag, tensors,
                        [&](c10d::Backend& inner, Tensors& bytes) { return inner.recv(bytes, from, tag); });
}

WorkPtr ProcessGroupHCCL::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  TORCH_CHECK(false, "HCCL does not support recvAnysource: name the rank, recv(tensor, src=...)", dist_error(ErrCode::kNotSupported));
}

WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  c10d::BarrierOptions plain;
  plain.timeout = opts.timeout;
  return run({c10d::OpType::BARRIER, "barrier", ""}, {},
             [&](c10d::Backend& inner) -> std::vector<WorkPtr> { return {inner.barrier(plain)}; });
}

void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all) {
  c10d::BarrierOptions plain;
  plain.timeout = opts.timeout;
  inner()->monitoredBarrier(plain, wait_all);
}

}  // namespace softnpu
