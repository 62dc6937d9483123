// Python's lock where memory is made: whoever waits for a lock of ours must not hold it, since the holder of ours may need it.
#pragma once

#include <Python.h>

namespace softnpu {

inline bool python_is_up() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// Lets go of Python's lock, if this thread has it, until the end of the scope.
class PythonLetGo {
 public:
  PythonLetGo() : saved_(python_is_up() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~PythonLetGo() {
    if (saved_ != nullptr) PyEval_RestoreThread(saved_);
  }
  PythonLetGo(const PythonLetGo&) = delete;
  PythonLetGo& operator=(const PythonLetGo&) = delete;

 private:
  PyThreadState* saved_;
};

}  // namespace softnpu
