// What a fork must find in order: a child has one thread, and would wait for ever for a lock that another held.
#pragma once

#include <mutex>

namespace softnpu {

// From now on a fork waits for the mutex, and the child finds it free. It must live as long as the process, and nobody may hold it
// while waiting for another such mutex or for the GIL.
void free_across_fork(std::mutex& mutex);

// From now on a forked child may not use the devices.
void device_is_used();

}  // namespace softnpu
