// torch.ops.npu: the operators that ask for a storage format or tell it.
#include "device/device.h"
#include "device/errors.h"
#include "formats/formats.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using Code = std::optional<int64_t>;

void check_npu(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.device().type() == kNpu, name, ": Expected all tensors to be on the same device. Expected NPU tensor, got one on ",
              self.device(), "; move it with .npu() first", pta_error(ErrCode::kParam));
}

// Storages of traced tensors are not real, so nothing is known about them and nothing is kept.
bool traced(const at::Tensor& self) { return self.is_meta() || self.unsafeGetTensorImpl()->is_python_dispatch(); }

// A format that new storages may have now; a padded one becomes its plain one unless padded ones are allowed.
int64_t granted(int64_t wanted, c10::IntArrayRef base_sizes, bool padded) {
  const auto format = settled_format(wanted, base_sizes);
  return padded ? format : settled_format(base_format(format), base_sizes);
}

int64_t granted(int64_t wanted, c10::IntArrayRef base_sizes) { return granted(wanted, base_sizes, allow_internal_format()); }

bool lies_within(const at::Tensor& self, const Description& from) {
  if (from.itemsize != self.itemsize()) return false;
  int64_t last = self.storage_offset();
  for (int64_t i = 0; i < self.dim(); ++i) last += std::max<int64_t>(0, self.size(i) - 1) * self.stride(i);
  const auto count = product(from.base_sizes);
  return (self.numel() == 0 || last < count) && static_cast<size_t>(count) * from.itemsize <= self.storage().nbytes();
}

// A tensor of one dimension over the first elements of a storage.
at::Tensor flat(const at::Tensor& like, int64_t count) { return at::empty({0}, like.options()).set_(like.storage(), 0, {count}, {1}); }

// The memory of a storage in a format, padding zeroed, with the values of `values` in front.
at::Tensor filled(const at::Tensor& values, int64_t elements) {
  auto made = at::empty({elements}, values.options());
  const auto count = values.numel();
  made.narrow(0, 0, count).copy_(values);
  if (elements > count) made.narrow(0, count, elements - count).zero_();
  return made;
}

void report(const at::Tensor& tensor, int64_t from, int64_t to, int64_t start, int64_t end) {
  const bool leaves = !is_base_format(from), enters = !is_base_format(to);
  const auto middle = leaves && enters ? (start + end) / 2 : end;
  if (leaves && enters && base_format(from) == base_format(to)) return converted(tensor, from, to, start, end);
  if (leaves) converted(tensor, from, base_format(from), start, middle);
  if (enters) converted(tensor, base_format(to), to, leaves ? middle : start, end);
}

void note_dtypes(const Code& customize_dtype, const Code& input_dtype) {
  if (customize_dtype || input_dtype) {
    TORCH_WARN_ONCE("npu_format_cast: customize_dtype and input_dtype have no effect here, values keep the dtype of the tensor");
  }
}

bool has_format(const at::Tensor& self, int64_t wanted) {
  if (traced(self)) return false;
  const auto from = described(self);
  return granted(wanted, from.base_sizes) == from.format;
}

at::Tensor format_cast(const at::Tensor& self, int64_t format, Code customize_dtype, Code input_dtype) {
  note_dtypes(customize_dtype, input_dtype);
  return cast_format(self, format);
}

at::Tensor format_cast_meta(const at::Tensor& self, int64_t, Code, Code) {
  return at::empty_strided_symint(self.sym_sizes(), self.sym_strides(), self.options());
}

at::Tensor format_cast_elsewhere(const at::Tensor& self, int64_t, Code, Code) {
  check_npu(self, "npu_format_cast");
  return self;
}

auto& format_cast_op() {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("npu::npu_format_cast", "")
                       .typed<at::Tensor(const at::Tensor&, int64_t, Code, Code)>();
  return op;
}

// Another layout of the same values: the gradient passes unchanged.
struct FormatCast : public torch::autograd::Function<FormatCast> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& self, int64_t format, Code customize_dtype,
                            Code input_dtype) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return format_cast_op().call(self, format, customize_dtype, input_dtype);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list grads) {
    return {grads[0], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor format_cast_autograd(const at::Tensor& self, int64_t format, Code customize_dtype, Code input_dtype) {
  if (has_format(self, format)) return self;
  return FormatCast::apply(self, format, customize_dtype, input_dtype);
}

int64_t get_format(const at::Tensor& self) {
  check_npu(self, "get_npu_format");
  return traced(self) ? default_format(self.dim()) : described(self).format;
}

int64_t get_storage_size(const at::Tensor& self) {
  check_npu(self, "get_storage_size");
  if (traced(self)) return self.numel();
  if (const auto found = recorded(self)) return product(found->stored_sizes);
  return static_cast<int64_t>(self.storage().nbytes() / self.itemsize());
}

at::Tensor format_cast_like(const at::Tensor& self, const at::Tensor& target, Code customize_dtype, Code input_dtype) {
  return format_cast_op().call(self, get_format(target), customize_dtype, input_dtype);
}

at::Tensor& format_cast_in_place(at::Tensor& self, int64_t format, Code customize_dtype, Code input_dtype) {
  note_dtypes(customize_dtype, input_dtype);
  const auto made = cast_format(self, format);
  if (made.is_same(self)) return self;
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(made.storage());
  impl->set_storage_offset(made.storage_offset());
  impl->set_sizes_and_strides(made.sizes(), made.strides());
  return self;
}

at::Tensor& format_cast_in_place_meta(at::Tensor& self, int64_t, Code, Code) { return self; }

at::Tensor& format_cast_in_place_like(at::Tensor& self, const at::Tensor& source, Code customize_dtype, Code input_dtype) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("npu::npu_format_cast_", "acl_format")
                       .typed<at::Tensor&(at::Tensor&, int64_t, Code, Code)>();
  return op.call(self, get_format(source), customize_dtype, input_dtype);
}

at::Tensor empty_in(c10::IntArrayRef size, at::TensorOptions options, int64_t wanted, bool padded) {
  const auto device = options.device_opt().value_or(c10::Device(kNpu, current_device()));
  TORCH_CHECK(device.type() == kNpu, "a storage format needs a tensor on npu, device is ", device, pta_error(ErrCode::kParam));
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto format = granted(wanted, size, padded);
  auto made = at::empty({product(storage_sizes(format, size, options.dtype().itemsize()))}, options.device(device));
  auto shaped = made.as_strided(size, c10::contiguous_strides(size));
  if (!traced(shaped)) record(shaped, format, size.vec());
  return shaped;
}

at::TensorOptions options_of(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory) {
  return at::TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pin_memory);
}

at::Tensor empty_with_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                             std::optional<c10::Device> device, std::optional<bool> pin_memory, int64_t format, Code aligned_kb) {
  // Blocks of the allocator start at multiples of 512 bytes, which nothing here needs to be more.
  TORCH_CHECK(!aligned_kb || (*aligned_kb >= 0 && *aligned_kb <= 16), "base_addr_aligned_kb should be in [0, 16], got ", *aligned_kb,
              pta_error(ErrCode::kValue));
  return empty_in(size, options_of(dtype, layout, device, pin_memory), format, allow_internal_format());
}

at::Tensor unsafe_empty_with_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                    std::optional<c10::Device> device, std::optional<bool> pin_memory, int64_t format, bool keep_format) {
  return empty_in(size, options_of(dtype, layout, device, pin_memory), format, keep_format || allow_internal_format());
}

}  // namespace

at::Tensor cast_format(const at::Tensor& self, int64_t wanted) {
  check_npu(self, "npu_format_cast");
  auto from = described(self);
  auto format = granted(wanted, from.base_sizes);
  if (format == from.format) return self;
  const auto start = nanoseconds();
  const UncountedCopies uncounted;
  const bool whole = lies_within(self, from);  // otherwise the tensor its storage was made for is not known: only its own values go
  const auto source = whole ? self : self.contiguous();
  const auto base = whole ? from.base_sizes : self.sizes().vec();
  if (!whole) format = granted(wanted, base);
  const auto memory = filled(whole ? flat(self, product(base)) : source.flatten(), product(storage_sizes(format, base, self.itemsize())));
  auto made = memory.as_strided(source.sizes(), source.strides(), whole ? self.storage_offset() : 0);
  record(made, format, base);
  report(made, from.format, format, start, nanoseconds());
  return made;
}

TORCH_LIBRARY_FRAGMENT(npu, m) {
  m.def("get_npu_format(Tensor self) -> int", get_format);
  m.def("get_storage_size(Tensor self) -> int", get_storage_size);
  m.def("npu_format_cast(Tensor self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor");
  m.def("npu_format_cast.Tensor(Tensor self, Tensor dst, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor", format_cast_like);
  m.def("npu_format_cast_.acl_format(Tensor(a!) self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor(a!)");
  m.def("npu_format_cast_(Tensor(a!) self, Tensor src, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor(a!)",
        format_cast_in_place_like);
  m.def("_npu_format_cast(Tensor self, int acl_format) -> Tensor",
        [](const at::Tensor& self, int64_t format) { return format_cast_op().call(self, format, std::nullopt, std::nullopt); });
  m.def(
      "empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
      "int acl_format=2, int? base_addr_aligned_kb=None) -> Tensor",
      empty_with_format);
  m.def(
      "unsafe_empty_with_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
      "int acl_format=2, bool keep_format=False) -> Tensor",
      unsafe_empty_with_format);
}

TORCH_LIBRARY_IMPL(npu, PrivateUse1, m) {
  m.impl("npu_format_cast", format_cast);
  m.impl("npu_format_cast_.acl_format", format_cast_in_place);
}

TORCH_LIBRARY_IMPL(npu, CPU, m) { m.impl("npu_format_cast", format_cast_elsewhere); }

TORCH_LIBRARY_IMPL(npu, AutogradPrivateUse1, m) {
  m.impl("npu_format_cast", format_cast_autograd);
  m.impl("npu_format_cast_.acl_format", torch::CppFunction::makeFallthrough());  // values and graph stay as they are
}

TORCH_LIBRARY_IMPL(npu, Meta, m) {
  m.impl("npu_format_cast", format_cast_meta);
  m.impl("npu_format_cast_.acl_format", format_cast_in_place_meta);
}

}  // namespace softnpu
