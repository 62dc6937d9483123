#include "device/generator.h"

#include "device/device.h"
#include "device/errors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Utils.h>

#include <cstring>

namespace softnpu {

namespace {

constexpr size_t kStateBytes = 16;  // seed, offset
constexpr uint64_t kStep = 4;       // Philox makes four numbers at a time

// splitmix64: two calls with neighbouring offsets must not have neighbouring numbers.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

NpuGenerator::NpuGenerator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void NpuGenerator::set_current_seed(uint64_t seed) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->seed = seed;
  state_->offset = 0;
}

void NpuGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kStep == 0, "offset must be a multiple of 4, not ", offset, pta_error(ErrCode::kValue));
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->offset = offset;
}

uint64_t NpuGenerator::seed() {
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void NpuGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes), "RNG state is wrong size: ", state.numel(), " bytes, not ", kStateBytes,
              pta_error(ErrCode::kValue));
  const auto* bytes = static_cast<const char*>(state.data());
  uint64_t seed = 0, offset = 0;
  std::memcpy(&seed, bytes, sizeof(seed));
  std::memcpy(&offset, bytes + sizeof(seed), sizeof(offset));
  TORCH_CHECK(offset % kStep == 0, "offset must be a multiple of 4, not ", offset, pta_error(ErrCode::kValue));
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->seed = seed;
  state_->offset = offset;
}

c10::intrusive_ptr<c10::TensorImpl> NpuGenerator::get_state() const {
  auto state =
      at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  auto* bytes = state.data_ptr<uint8_t>();
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::memcpy(bytes, &state_->seed, sizeof(state_->seed));
  std::memcpy(bytes + sizeof(state_->seed), &state_->offset, sizeof(state_->offset));
  return state.getIntrusivePtr();
}

c10::DeviceType NpuGenerator::device_type() { return kNpu; }

NpuGenerator* NpuGenerator::clone_impl() const {
  auto* copy = new NpuGenerator(device().index());
  std::lock_guard<std::mutex> lock(state_->mutex);
  copy->state_->seed = state_->seed;
  copy->state_->offset = state_->offset;
  return copy;
}

c10::intrusive_ptr<c10::GeneratorImpl> NpuGenerator::graphsafe_get_state() const {
  auto twin = c10::make_intrusive<NpuGenerator>(device().index());
  twin->state_ = state_;
  return twin;
}

void NpuGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* own = dynamic_cast<NpuGenerator*>(other.get());
  TORCH_CHECK(own != nullptr, "Expected the state of a 'npu' generator but found '", other->device().type(), "'",
              pta_error(ErrCode::kType));
  state_ = own->state_;
}

at::Generator NpuGenerator::next() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  static thread_local at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(c10::default_rng_seed_val);
  numbers.set_current_seed(mix(state_->seed ^ mix(state_->offset)));
  state_->offset += kStep;
  return numbers;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < 16; ++i) made->push_back(at::make_generator<NpuGenerator>(i));
    return made;
  }();
  return (*all)[given_or_current(device)];
}

NpuGenerator* as_npu(const at::Generator& generator) {
  return generator.device().type() == kNpu ? static_cast<NpuGenerator*>(generator.unsafeGetGeneratorImpl()) : nullptr;
}

}  // namespace softnpu
