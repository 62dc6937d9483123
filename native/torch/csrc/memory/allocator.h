// The allocator of the npu devices as torch sees it: memory by address, over the books of each device (device_memory.h).
#pragma once

#include "memory/cpu_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <optional>

namespace softnpu {

class DeviceMemory;

c10::DeviceAllocator* allocator();
DeviceMemory& memory_of(c10::DeviceIndex index);

// On a device that is known to be there, which need not be the current one of this thread.
c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes);
void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream);
void raw_free(void* address);
bool free_if_ours(void* address);
void erase_stream(const c10::DataPtr& data, c10::StreamId stream);
void empty_cache(std::optional<uint32_t> pool = std::nullopt);

// The device whose memory an address lies in, the allocator's own or other memory of the runtime; raises for any other.
c10::DeviceIndex device_of(void* address);

}  // namespace softnpu
