// Options of the process; adapters include this header and ask for little of it.
#pragma once

#include <string>

namespace c10_npu {
namespace option {

class OptionsManager {
 public:
  static bool CheckInfNanModeEnable() { return true; }  // numbers are IEEE's
  static bool CheckQueueEnable() { return false; }      // work is over when a call returns
};

}  // namespace option
}  // namespace c10_npu
