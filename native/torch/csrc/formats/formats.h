// The storage format of npu tensors. Values stay in logical order; only what programs can see of a format is kept: its code, the
// sizes of the tensor it was made for and the sizes of the padded storage. A storage without a record has the default format.
#pragma once

#include "formats/rules.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <optional>

namespace pybind11 {
class module_;
}

namespace softnpu {

struct Description {
  int64_t format = kND;
  Sizes base_sizes, stored_sizes;
  size_t itemsize = 0;
  size_t bytes = 0;  // of the storage when it was described: another number means that it was resized since
};

extern std::atomic<bool> formats_recorded;  // while false no storage has a record and no call needs to ask

std::optional<Description> recorded(const at::Tensor& tensor);
Description described(const at::Tensor& tensor);  // the record, or what a plain tensor has
void record(const at::Tensor& tensor, int64_t format, Sizes base_sizes);

bool allow_internal_format();
void converted(const at::Tensor& tensor, int64_t from, int64_t to, int64_t start, int64_t end);  // one TransData
int64_t nanoseconds();
at::Tensor cast_format(const at::Tensor& self, int64_t format);

// The formats of one call of an operator: a padded input that is a view is converted first, a new result takes the format of the
// first input.
class CallFormats {
 public:
  void input(const at::Tensor& tensor) {
    if (formats_recorded.load(std::memory_order_relaxed)) see(tensor);
  }
  void output(const at::Tensor& tensor) {
    if (format_ >= 0) inherit(tensor);
  }

 private:
  void see(const at::Tensor& tensor);
  void inherit(const at::Tensor& tensor);
  bool first_ = true;
  int64_t format_ = -1;  // the padded format of the first input
  size_t rank_ = 0;
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
};

at::Tensor plain_copy_for_view(const at::Tensor& self, size_t rank);
// A plain copy for as_strided to look at where the new rank does not fit the format; undefined when the tensor itself will do.
inline at::Tensor copy_for_view(const at::Tensor& self, size_t rank) {
  return formats_recorded.load(std::memory_order_relaxed) ? plain_copy_for_view(self, rank) : at::Tensor();
}
// After resize_: the description follows the tensor.
void resized(const at::Tensor& self);

// While it lives the copies of this thread are not counted: they are part of a conversion that is.
class UncountedCopies {
 public:
  UncountedCopies();
  ~UncountedCopies();
};

void count_copy(const at::Tensor& self, const at::Tensor& source);
// Before copy_: values leave a padded source and enter a padded target by way of their plain formats.
inline void note_copy(const at::Tensor& self, const at::Tensor& source) {
  if (formats_recorded.load(std::memory_order_relaxed)) count_copy(self, source);
}

void bind_formats(pybind11::module_& m);

}  // namespace softnpu
