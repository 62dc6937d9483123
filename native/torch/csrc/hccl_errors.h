// The error line of process groups (errors.h).
#pragma once

#include "errors.h"

namespace softnpu {

std::string group_error(ErrCode code);
std::string group_timeout_error();
std::string group_call_error();  // a call of HCCL itself has failed

}  // namespace softnpu
