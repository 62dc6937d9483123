// float16 without inf and nan, as chips before the 910B1 compute: inf is the largest number, nan is 0, and a flag tells of both.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu {

// In place, a tensor of the device or its alias; other data types stay as they are. `computed`: what was found sets the flag.
void saturate(const at::Tensor& tensor, bool computed = true);

bool has_overflowed();  // since the flag was last cleared, in any thread
void clear_overflow();

}  // namespace softnpu
