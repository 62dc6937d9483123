// The line that every error of torch_npu ends with: "[ERROR] time (PID:n, Device:n, RankID:n) ERR00001 PTA invalid parameter".
//
// TORCH_CHECK builds its message only when it fails: TORCH_CHECK(good, "what, with which value", pta_error(ErrCode::kParam)).
#pragma once

#include <string>

namespace softnpu {

enum class ErrCode : int {
  kParam = 1,
  kType = 2,
  kValue = 3,
  kPointer = 4,
  kInternal = 5,
  kMemory = 6,
  kNotSupported = 7,
  kNotFound = 8,
  kUnavailable = 9,
  kTimeout = 11,
  kAcl = 100,
  kHccl = 200,
};

std::string pta_error(ErrCode code);   // of the adapter: devices, memory, streams, formats
std::string ops_error(ErrCode code);   // of operators
std::string dist_error(ErrCode code);  // of process groups

}  // namespace softnpu
