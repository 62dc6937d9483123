// What torch asks an accelerator about: devices, generators, pinned memory, whose a pointer is, storages that grow.
#include "device/device.h"
#include "device/errors.h"
#include "device/generator.h"
#include "memory/allocator.h"
#include "memory/pinned.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>

namespace softnpu {

namespace {

struct NpuHooks final : public at::PrivateUse1HooksInterface {
  void init() const override {
    if (runtime().initialise != nullptr) runtime().initialise();
  }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index >= 0 && index < device_count(); }
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
  // Where there is a GPU, torch.empty(pin_memory=True) takes CUDA's memory whatever the accelerator is: it is pinned too. The hooks
  // are asked and not the context, which knows nothing of CUDA's memory before somebody has used the GPU.
  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data) || (at::hasCUDA() && at::detail::getCUDAHooks().isPinnedPtr(data));
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* data) const override { return c10::Device(kNpu, device_of(data)); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return at::make_generator<NpuGenerator>(given_or_current(index)); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable", pta_error(ErrCode::kNotSupported));
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
