// What torch asks an accelerator about: devices, generators, pinned memory, storages that grow.
#include "allocator.h"
#include "device.h"
#include "generator.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_set>

namespace softnpu {

namespace {

// Pinned memory is ordinary memory whose blocks are remembered, so that is_pinned() can tell.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* address = c10::alloc_cpu(bytes == 0 ? 1 : bytes);
    {
      std::lock_guard<std::mutex> lock(mutex());
      blocks()[reinterpret_cast<uintptr_t>(address)] = bytes == 0 ? 1 : bytes;
    }
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t count) const override { std::memcpy(target, source, count); }

  static bool owns(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> lock(mutex());
    auto next = blocks().upper_bound(address);
    if (next == blocks().begin()) return false;
    --next;
    return address < next->first + next->second;
  }

 private:
  static void release(void* address) {
    {
      std::lock_guard<std::mutex> lock(mutex());
      blocks().erase(reinterpret_cast<uintptr_t>(address));
    }
    c10::free_cpu(address);
  }
  static std::map<uintptr_t, size_t>& blocks() {
    static auto* all = new std::map<uintptr_t, size_t>;
    return *all;
  }
  static std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
  }
};

PinnedAllocator pinned;

struct NpuHooks final : public at::PrivateUse1HooksInterface {
  void init() const override {
    if (runtime().initialise != nullptr) runtime().initialise();
  }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index < device_count(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto before = current_device();
    set_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* data) const override { return PinnedAllocator::owns(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  c10::Device getDeviceFromPtr(void*) const override { return c10::Device(kNpu, current_device()); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<NpuGenerator>(check_device(index < 0 ? current_device() : index));
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    auto* impl = storage.unsafeGetStorageImpl();
    c10::DeviceGuard guard(storage.device());
    auto data = bytes == 0 ? c10::DataPtr(nullptr, storage.device()) : impl->allocator()->allocate(bytes);
    if (bytes != 0 && storage.data() != nullptr) std::memcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(bytes);
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new NpuHooks); }

}  // namespace softnpu
