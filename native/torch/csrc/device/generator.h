// Random numbers of a device: a seed and an offset, as Philox has them.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <memory>
#include <mutex>

namespace softnpu {

class NpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit NpuGenerator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return state_->offset; }
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // A generator that goes on together with this one, for graph capture.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  static c10::DeviceType device_type();

  // A generator of the CPU for the next operator: it depends on seed and offset alone. The offset moves on.
  at::Generator next();

 private:
  NpuGenerator* clone_impl() const override;

  struct State {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
    std::mutex mutex;  // of the state, since generators for graph capture share it
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

const at::Generator& default_generator(c10::DeviceIndex device);
NpuGenerator* as_npu(const at::Generator& generator);

}  // namespace softnpu
