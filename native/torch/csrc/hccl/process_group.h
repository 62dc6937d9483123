// ProcessGroupHCCL: collectives between npu tensors of several processes, done by Gloo over the tensors' own memory.
//
// What does not compute travels as bytes, so every data type does. What Gloo lacks is made of what it has (hccl_reduce.h).
#pragma once

#include "hccl/board.h"
#include "hccl/work.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <variant>

namespace softnpu {

using Tensors = std::vector<at::Tensor>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

struct HcclOptions final : public c10d::Backend::Options {
  using Config = std::map<std::string, std::variant<int64_t, std::string>>;
  explicit HcclOptions(bool high_priority = false) : Options("hccl"), is_high_priority_stream(high_priority) {}
  void set_config(Config config);  // raises for a key that there is not, or a value of the wrong type

  bool is_high_priority_stream;
  std::string group_id;
  Config hccl_config;
};

class ProcessGroupHCCL final : public c10d::Backend {
 public:
  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<HcclOptions> options);
  ~ProcessGroupHCCL() override;

  // The group whose collectives do the work, and the board's file ("" where there is none). A second time after an abort.
  void connect(BackendPtr inner, const std::string& board);
  void abort() override;  // ends every connection; peers that wait get an error
  void shutdown() override;
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  const c10::intrusive_ptr<HcclOptions>& options() const { return options_; }
  std::string comm_name() const;
  void set_comm_name(const std::string& name);
  static c10::intrusive_ptr<ProcessGroupHCCL> find(const std::string& comm_name);  // null when there is none

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& opts) override;  // null on ranks that are not in it
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_uneven(at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& splits, const c10d::AllgatherOptions& opts);
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_uneven(at::Tensor& output, at::Tensor& input, const std::vector<int64_t>& splits,
                                const c10d::ReduceScatterOptions& opts);
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all) override;

 private:
  using Launch = std::function<std::vector<WorkPtr>(c10d::Backend& inner)>;
  using After = std::function<void()>;
  struct Call {
    c10d::OpType type;
    std::string name;
    std::string what;                          // the same on every rank, or the ranks do not do the same
    std::vector<int64_t> sends{}, receives{};  // bytes by rank, where each pair must agree
    Step step() const { return {what.empty() ? name : name + " " + what, sends, receives}; }
  };

  // Gives the call its number, lets the board compare it, starts Gloo's works and what follows them.
  WorkPtr run(const Call& call, Tensors outputs, const Launch& launch, After after = nullptr);
  WorkPtr point_to_point(c10d::OpType type, const char* name, int peer, int tag, Tensors& tensors,
                         const std::function<WorkPtr(c10d::Backend&, Tensors&)>& launch);
  WorkPtr gather_pieces(const Call& call, Tensors outputs, Tensors pieces, const at::Tensor& own, std::chrono::milliseconds timeout);
  WorkPtr scatter_reduced(const Call& call, const Tensors& outputs, const Tensors& sent, const std::vector<std::vector<int64_t>>& splits,
                          const c10d::ReduceScatterOptions& opts);
  Explain explain(const std::string& name, uint64_t sequence, bool collective) const;
  BackendPtr inner() const;
  [[noreturn]] void refuse(const std::string& text, const std::string& advice);  // here, and at ranks that wait
  void refuse_shared_device(const Tensors& outputs);
  void end(BackendPtr inner);  // without waiting for what it still has to do

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<HcclOptions> options_;
  mutable std::mutex lock_;
  BackendPtr inner_;
  std::shared_ptr<Board> board_;
  std::string name_;
  std::string ended_because_;
  std::atomic<uint64_t> sequence_{0};
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<Waiters> waiters_;
};

// A group with its connections; they are made in Python.
c10::intrusive_ptr<ProcessGroupHCCL> connected_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                     const c10::intrusive_ptr<HcclOptions>& options);
int physical_device(int index);  // the id of what the program calls npu:index; asks Python

// Raises unless HCCL would take the tensor.
void check_tensor(const at::Tensor& tensor, const std::string& name);
void check_root(int64_t root, int size, const std::string& name);
const at::Tensor& only(const Tensors& tensors, const char* name);
// CPU tensors of one dimension over the memory of an npu tensor; they own it.
at::Tensor flat(const at::Tensor& tensor, at::ScalarType dtype);
at::Tensor bytes_of(const at::Tensor& tensor);
std::string size_text(const at::Tensor& tensor);

}  // namespace softnpu
