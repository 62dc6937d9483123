// Storage formats: their names, the plain format each belongs to, and how large a storage in it is.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <vector>

namespace softnpu {

enum Format : int64_t {
  kNCHW = 0,
  kNHWC = 1,
  kND = 2,
  kNC1HWC0 = 3,
  kFractalZ = 4,
  kNDHWC = 27,
  kFractalNZ = 29,
  kNCDHW = 30,
  kNDC1HWC0 = 32,
  kFractalZ3D = 33,
  kFractalNZ_C0_16 = 50,
  kFractalNZ_C0_32 = 51,
  kFractalNZ_C0_2 = 52,
  kFractalNZ_C0_4 = 53,
  kFractalNZ_C0_8 = 54,
};

using Sizes = std::vector<int64_t>;

bool is_base_format(int64_t format);
int64_t base_format(int64_t format);  // the plain format that a padded one is made from
int64_t default_format(size_t rank);  // what a new tensor of that rank has
const char* format_name(int64_t format);
// The format that a request ends in: ND of four dimensions is NCHW, and NZ needs two dimensions. Raises for what no storage can have.
int64_t settled_format(int64_t format, c10::IntArrayRef base_sizes);
Sizes storage_sizes(int64_t format, c10::IntArrayRef base_sizes, size_t itemsize);
int64_t product(c10::IntArrayRef sizes);

}  // namespace softnpu
