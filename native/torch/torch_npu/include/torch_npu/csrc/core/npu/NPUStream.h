// Streams and the current device, by way of what torch knows about npu.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace c10_npu {

inline c10::impl::VirtualGuardImpl guard_impl() { return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1); }

inline c10::DeviceIndex current_device() { return guard_impl().getDevice().index(); }
inline c10::DeviceIndex device_count() { return guard_impl().deviceCount(); }
inline void set_device(c10::DeviceIndex device) { guard_impl().setDevice({c10::DeviceType::PrivateUse1, device}); }

class NPUStream {
 public:
  explicit NPUStream(c10::Stream stream) : stream_(stream) {
    TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "a stream of ", stream.device_type(), " is no stream of npu");
  }
  operator c10::Stream() const { return stream_; }
  c10::Stream unwrap() const { return stream_; }
  c10::StreamId id() const { return stream_.id(); }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  bool query() const { return guard_impl().queryStream(stream_); }
  void synchronize() const { guard_impl().synchronizeStream(stream_); }
  bool operator==(const NPUStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const { return !(*this == other); }

 private:
  c10::Stream stream_;
};

inline c10::Device npu_device(c10::DeviceIndex device) {
  return {c10::DeviceType::PrivateUse1, device < 0 ? current_device() : device};
}
inline NPUStream getCurrentNPUStream(c10::DeviceIndex device = -1) { return NPUStream(guard_impl().getStream(npu_device(device))); }
inline NPUStream getDefaultNPUStream(c10::DeviceIndex device = -1) { return NPUStream(guard_impl().getDefaultStream(npu_device(device))); }
inline NPUStream getNPUStreamFromPool(c10::DeviceIndex device = -1) {
  return NPUStream(guard_impl().getStreamFromGlobalPool(npu_device(device), false));
}
inline void setCurrentNPUStream(const NPUStream& stream) { guard_impl().exchangeStream(stream.unwrap()); }

}  // namespace c10_npu
