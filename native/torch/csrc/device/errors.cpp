#include "device/errors.h"

#include "device/device.h"

#include <Python.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace softnpu {

namespace {

const char* text_of(ErrCode code) {
  switch (code) {
    case ErrCode::kParam:
      return "invalid parameter";
    case ErrCode::kType:
      return "invalid type";
    case ErrCode::kValue:
      return "invalid value";
    case ErrCode::kPointer:
      return "invalid pointer";
    case ErrCode::kInternal:
      return "internal error";
    case ErrCode::kMemory:
      return "memory error";
    case ErrCode::kNotSupported:
      return "feature not supported";
    case ErrCode::kNotFound:
      return "resource not found";
    case ErrCode::kUnavailable:
      return "resource unavailable";
    case ErrCode::kTimeout:
      return "timeout error";
    case ErrCode::kAcl:
      return "call acl api failed";
    case ErrCode::kHccl:
      return "call hccl api failed";
  }
  return "internal error";
}

// Left away when asked for, and where a person types at the interpreter.
bool is_compact() {
  const char* asked = std::getenv("TORCH_NPU_COMPACT_ERROR_OUTPUT");
  if (asked != nullptr && std::strcmp(asked, "1") == 0) return true;
  if (!Py_IsInitialized()) return false;
  const auto state = PyGILState_Ensure();
  const bool interactive = PySys_GetObject("ps1") != nullptr;
  PyGILState_Release(state);
  return interactive;
}

std::string rank() {
  const char* value = std::getenv("RANK");
  if (value == nullptr || *value == '\0' || std::strspn(value, "0123456789") != std::strlen(value) || std::strlen(value) > 9) return "-1";
  return value;
}

// Without streams: the locale of a libstdc++ that is older than the compiler's is no place to be in while an error is told.
std::string line(int module, const char* name, ErrCode code) {
  if (is_compact()) return "";
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char moment[32], text[256];
  std::strftime(moment, sizeof(moment), "%Y-%m-%d-%H:%M:%S", &local);
  std::snprintf(text, sizeof(text), "\n[ERROR] %s (PID:%d, Device:%d, RankID:%s) ERR%02d%03d %s %s", moment, static_cast<int>(getpid()),
                static_cast<int>(current_device()), rank().c_str(), module, static_cast<int>(code), name, text_of(code));
  return text;
}

}  // namespace

std::string pta_error(ErrCode code) { return line(0, "PTA", code); }

std::string ops_error(ErrCode code) { return line(1, "OPS", code); }

std::string dist_error(ErrCode code) { return line(2, "DIST", code); }

}  // namespace softnpu
