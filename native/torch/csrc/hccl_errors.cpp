#include "hccl_errors.h"

namespace softnpu {

namespace {

// The line with other words from its code on; nothing where lines are left away.
std::string with_end(std::string line, const std::string& end) {
  const auto code = line.rfind(") ERR");
  if (code != std::string::npos) line.replace(code + 2, std::string::npos, end);
  return line;
}

}  // namespace

std::string group_error(ErrCode code) {
  const auto line = pta_error(code);
  const auto module = line.rfind(" PTA ");
  if (module == std::string::npos) return line;
  return with_end(line, "ERR02" + line.substr(module - 3, 3) + " DIST " + line.substr(module + 5));
}

std::string group_timeout_error() { return with_end(pta_error(ErrCode::kInternal), "ERR02011 DIST timeout error"); }

std::string group_call_error() { return with_end(pta_error(ErrCode::kInternal), "ERR02200 DIST call hccl api failed"); }

}  // namespace softnpu
