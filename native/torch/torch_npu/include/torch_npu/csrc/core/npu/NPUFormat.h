// Storage formats of npu tensors.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

enum aclFormat {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_NC1HWC0 = 3,
  ACL_FORMAT_FRACTAL_Z = 4,
  ACL_FORMAT_NC1HWC0_C04 = 12,
  ACL_FORMAT_HWCN = 16,
  ACL_FORMAT_NDHWC = 27,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_NDC1HWC0 = 32,
  ACL_FRACTAL_Z_3D = 33
};

namespace at_npu {
namespace native {

inline int64_t get_npu_format(const at::Tensor& self) {
  if (self.device().type() != c10::DeviceType::PrivateUse1) return ACL_FORMAT_ND;
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("npu::get_npu_format", "").typed<int64_t(const at::Tensor&)>();
  return op.call(self);
}

inline at::Tensor npu_format_cast(const at::Tensor& self, int64_t format) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("npu::npu_format_cast", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>)>();
  return op.call(self, format, std::nullopt, std::nullopt);
}

inline at::Tensor empty_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format, bool keep_format = false) {
  using Call = at::Tensor(c10::IntArrayRef, std::optional<at::ScalarType>, std::optional<at::Layout>, std::optional<at::Device>,
                          std::optional<bool>, int64_t, bool);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("npu::unsafe_empty_with_format", "").typed<Call>();
  return op.call(sizes, c10::typeMetaToScalarType(options.dtype()), options.layout_opt(), options.device(), options.pinned_memory_opt(),
                 format, keep_format);
}

// How many elements the storage has, padding included.
inline int64_t get_npu_storage_size(const at::Tensor& self) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("npu::get_storage_size", "").typed<int64_t(const at::Tensor&)>();
  return op.call(self);
}
// The sizes of the storage in its own format.
inline std::vector<int64_t> get_npu_storage_sizes(const at::Tensor& self) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("softnpu::storage_sizes", "").typed<std::vector<int64_t>(const at::Tensor&)>();
  return op.call(self);
}

}  // namespace native
}  // namespace at_npu
