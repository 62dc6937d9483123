#include "formats/rules.h"

#include "device/errors.h"

#include <c10/util/Exception.h>

namespace softnpu {

namespace {

constexpr int64_t kBlock = 16;

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

Sizes padded_to_nchw(c10::IntArrayRef sizes) {
  Sizes padded(sizes.begin(), sizes.end());
  if (padded.size() < 4) {
    if (padded.size() < 2) padded.resize(1, 1);
    padded.insert(padded.begin(), 1);
    padded.resize(4, 1);
  }
  return padded;
}

// C0 of a NZ format; 0 for every other format.
int64_t nz_c0(int64_t format, size_t itemsize) {
  switch (format) {
    case kFractalNZ:
      return itemsize == 1 ? 32 : 16;
    case kFractalNZ_C0_16:
      return 16;
    case kFractalNZ_C0_32:
      return 32;
    case kFractalNZ_C0_2:
      return 2;
    case kFractalNZ_C0_4:
      return 4;
    case kFractalNZ_C0_8:
      return 8;
    default:
      return 0;
  }
}

Sizes nz_sizes(c10::IntArrayRef sizes, int64_t c0) {
  Sizes stored(sizes.begin(), sizes.end() - 2);
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  stored.insert(stored.end(), {blocks(columns, c0), blocks(rows, kBlock), kBlock, c0});
  return stored;
}

void need_rank(int64_t format, c10::IntArrayRef sizes, bool fits, const char* wanted) {
  TORCH_CHECK(fits, "format ", format_name(format), " (", format, ") needs a tensor of ", wanted, " dimensions, got ", sizes,
              "; reshape the tensor or use ND (2)", pta_error(ErrCode::kValue));
}

}  // namespace

const char* format_name(int64_t format) {
  switch (format) {
    case kNCHW:
      return "NCHW";
    case kNHWC:
      return "NHWC";
    case kND:
      return "ND";
    case kNC1HWC0:
      return "NC1HWC0";
    case kFractalZ:
      return "FRACTAL_Z";
    case kNDHWC:
      return "NDHWC";
    case kFractalNZ:
      return "FRACTAL_NZ";
    case kNCDHW:
      return "NCDHW";
    case kNDC1HWC0:
      return "NDC1HWC0";
    case kFractalZ3D:
      return "FRACTAL_Z_3D";
    case kFractalNZ_C0_16:
      return "FRACTAL_NZ_C0_16";
    case kFractalNZ_C0_32:
      return "FRACTAL_NZ_C0_32";
    case kFractalNZ_C0_2:
      return "FRACTAL_NZ_C0_2";
    case kFractalNZ_C0_4:
      return "FRACTAL_NZ_C0_4";
    case kFractalNZ_C0_8:
      return "FRACTAL_NZ_C0_8";
    default:
      return nullptr;
  }
}

bool is_base_format(int64_t format) { return format == kND || format == kNCHW || format == kNHWC || format == kNCDHW || format == kNDHWC; }

int64_t base_format(int64_t format) {
  switch (format) {
    case kNC1HWC0:
    case kFractalZ:
      return kNCHW;
    case kNDC1HWC0:
    case kFractalZ3D:
      return kNCDHW;
    default:
      return is_base_format(format) ? format : kND;
  }
}

int64_t default_format(size_t rank) { return rank == 4 ? kNCHW : rank == 5 ? kNCDHW : kND; }

int64_t settled_format(int64_t format, c10::IntArrayRef base_sizes) {
  TORCH_CHECK(format_name(format) != nullptr, "storage format ", format,
              " is not supported; use one of 0 NCHW, 1 NHWC, 2 ND, 3 NC1HWC0, 4 FRACTAL_Z, 27 NDHWC, 29 FRACTAL_NZ, 30 NCDHW, 32 NDC1HWC0, "
              "33 FRACTAL_Z_3D, 50 to 54 FRACTAL_NZ_C0_*",
              pta_error(ErrCode::kValue));
  const auto rank = base_sizes.size();
  if (nz_c0(format, 2) != 0 && rank < 2) {
    TORCH_WARN("Cannot create tensor with ", format_name(format), " format, dim of tensor should be at least 2, but got ", rank,
               "; the tensor has base format ND");
    return kND;
  }
  if (format == kND && rank == 4) return kNCHW;
  if (base_format(format) == kNCDHW || format == kNDHWC) need_rank(format, base_sizes, rank == 5, "5");
  if (format == kNC1HWC0 || format == kFractalZ) need_rank(format, base_sizes, rank <= 4, "at most 4");
  return format;
}

Sizes storage_sizes(int64_t format, c10::IntArrayRef base_sizes, size_t itemsize) {
  if (const auto c0 = nz_c0(format, itemsize)) return nz_sizes(base_sizes, c0);
  const auto& s = base_sizes;
  switch (format) {
    case kNCHW:
      return padded_to_nchw(s);
    case kNDHWC:
      return {s[0], s[2], s[3], s[4], s[1]};
    case kNC1HWC0: {
      const auto n = padded_to_nchw(s);
      return {n[0], blocks(n[1], kBlock), n[2], n[3], kBlock};
    }
    case kFractalZ: {
      const auto n = padded_to_nchw(s);
      return {blocks(n[1], kBlock) * n[2] * n[3], blocks(n[0], kBlock), kBlock, kBlock};
    }
    case kNDC1HWC0:
      return {s[0], s[2], blocks(s[1], kBlock), s[3], s[4], kBlock};
    case kFractalZ3D:
      return {s[2] * blocks(s[1], kBlock) * s[3] * s[4], blocks(s[0], kBlock), kBlock, kBlock};
    default:
      return s.vec();
  }
}

int64_t product(c10::IntArrayRef sizes) {
  int64_t count = 1;
  for (const auto size : sizes) count *= size;
  return count;
}

}  // namespace softnpu
