#include "generator.h"

#include "device.h"

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
    : c10::GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      seed_(c10::default_rng_seed_val) {}

void NpuGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void NpuGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kStep == 0, "offset must be a multiple of 4");
  offset_ = offset;
}

uint64_t NpuGenerator::seed() {
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void NpuGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes), "RNG state is wrong size: ", state.numel(), " bytes, not ",
              kStateBytes);
  const auto* bytes = static_cast<const char*>(state.data());
  uint64_t offset = 0;
  std::memcpy(&seed_, bytes, sizeof(seed_));
  std::memcpy(&offset, bytes + sizeof(seed_), sizeof(offset));
  set_offset(offset);
}

c10::intrusive_ptr<c10::TensorImpl> NpuGenerator::get_state() const {
  auto state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, sizeof(seed_));
  std::memcpy(bytes + sizeof(seed_), &offset_, sizeof(offset_));
  return state.getIntrusivePtr();
}

c10::DeviceType NpuGenerator::device_type() { return kNpu; }

NpuGenerator* NpuGenerator::clone_impl() const {
  auto* copy = new NpuGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

at::Generator NpuGenerator::next() {
  std::lock_guard<std::mutex> lock(mutex_);
  static thread_local at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(c10::default_rng_seed_val);
  numbers.set_current_seed(mix(seed_ ^ mix(offset_)));
  offset_ += kStep;
  return numbers;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < 16; ++i) made->push_back(at::make_generator<NpuGenerator>(i));
    return made;
  }();
  return (*all)[check_device(device < 0 ? current_device() : device)];
}

NpuGenerator* as_npu(const at::Generator& generator) {
  return generator.device().type() == kNpu ? static_cast<NpuGenerator*>(generator.unsafeGetGeneratorImpl()) : nullptr;
}

}  // namespace softnpu
