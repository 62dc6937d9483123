// A forked child must ask torch.npu again before it uses a device: torch.npu._lazy_init refuses there. What it can do is let the
// parent's tensors go, so the locks on that way are free in it.
#include "device/fork.h"

#include "device/chip.h"
#include "device/device.h"

#include <torch/csrc/utils/device_lazy_init.h>

#include <atomic>
#include <pthread.h>
#include <vector>

namespace softnpu {

namespace {

struct Guarded {
  std::mutex mutex;
  std::vector<std::mutex*> all;
};

Guarded& guarded() {
  static auto* one = new Guarded;
  return *one;
}

void before_fork() {
  guarded().mutex.lock();
  for (auto* mutex : guarded().all) mutex->lock();
}

void after_fork() {
  for (auto* mutex : guarded().all) mutex->unlock();
  guarded().mutex.unlock();
}

std::atomic<bool> used{false};

void after_fork_in_child() {
  after_fork();
  if (used.load()) strict_bits.fetch_or(kForked);
}

// Without the first torch remembers, in the child, that the device of the parent was ready. Whether it was is for torch.npu to say.
const bool registered = [] {
  torch::utils::register_fork_handler_for_device_init(kNpu);
  return pthread_atfork(&before_fork, &after_fork, &after_fork_in_child) == 0;
}();

}  // namespace

void device_is_used() { used.store(true); }

void free_across_fork(std::mutex& mutex) {
  std::lock_guard<std::mutex> lock(guarded().mutex);
  guarded().all.push_back(&mutex);
}

}  // namespace softnpu
