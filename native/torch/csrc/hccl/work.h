// Collectives under way: what torch waits for and asks about.
#pragma once

#include "hccl/watch.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace softnpu {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
// Makes of an error of Gloo the error of this call; it may be used long after the call has returned.
using Explain = std::function<std::exception_ptr(const std::exception_ptr&)>;

// One collective: Gloo's works over the memory of npu tensors, then what Gloo cannot do, then the tensors as result. The tensors over
// that memory own it, so a caller may forget the work.
class HcclWork final : public c10d::Work {
 public:
  HcclWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<at::Tensor> outputs, Explain explain, std::shared_ptr<Board> board,
           std::shared_ptr<Watch> watch);
  // Must be called once; `after` runs in the thread that ends the last of `inner`, which may be this one.
  void start(const std::vector<WorkPtr>& inner, std::function<void()> after);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }
  void abort() override {}  // Gloo ends a collective when its connections do

 private:
  void one_ended(const std::exception_ptr& error);
  void gloo_ended();
  void give_up(const std::string& why);  // Gloo may never end it
  void complete(std::exception_ptr error);

  const uint64_t sequence_;
  const std::vector<at::Tensor> outputs_;
  Explain explain_;
  std::function<void()> after_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  const std::shared_ptr<Board> board_;
  const std::shared_ptr<Watch> watch_;
  std::atomic<size_t> pending_{1};
  std::atomic<bool> over_{false};
  std::mutex lock_;
  std::exception_ptr error_;
  Watch::Place place_;
};

// Threads that wait for sends and receives in place of a caller who has forgotten them or asks for a future: Gloo gives up a send whose
// work is dropped, and ends none that nobody waits for.
class Waiters {
 public:
  using Done = std::function<void(const std::exception_ptr&)>;
  explicit Waiters(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  ~Waiters();  // gives up what is under way
  void add(std::vector<WorkPtr> works, int peer, Done done);
  void drain(std::chrono::milliseconds patience);

 private:
  struct One {
    std::vector<WorkPtr> works;
    std::thread thread;
    std::atomic<bool> ended{false};
  };
  void join_ended();

  const std::shared_ptr<Watch> watch_;
  std::mutex lock_;
  std::condition_variable one_ended_;
  std::list<One> all_;
};

// Sends and receives, and several works as one. Whoever is first to wait, or to ask whether they are over, sees to it that they end.
class HcclJoinedWork final : public c10d::Work {
 public:
  HcclJoinedWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<WorkPtr> inner, std::vector<at::Tensor> outputs,
                 Explain explain, std::weak_ptr<Waiters> waiters, std::shared_ptr<Watch> watch, int peer = -1);
  ~HcclJoinedWork() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  bool isCompleted() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::vector<at::Tensor> result() override { return outputs_; }
  uint64_t getSequencenumber() const override { return sequence_; }
  void abort() override;

 private:
  void wait_elsewhere();
  std::exception_ptr complete(std::exception_ptr error);

  const uint64_t sequence_;
  const std::vector<WorkPtr> inner_;
  const std::vector<at::Tensor> outputs_;
  Explain explain_;
  std::weak_ptr<Waiters> waiters_;
  const std::shared_ptr<Watch> watch_;
  const int peer_;  // of a transfer, else -1
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> claimed_{false};
};

}  // namespace softnpu
