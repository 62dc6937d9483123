#include "formats/formats.h"

#include "device/device.h"
#include "device/errors.h"

#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <mutex>
#include <unordered_map>

namespace py = pybind11;

namespace softnpu {

std::atomic<bool> formats_recorded{false};

namespace {

// Records of living storages. The weak reference keeps the address from being given to another storage.
class Records {
 public:
  std::optional<Description> find(c10::StorageImpl* storage) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = rows_.find(storage);
    return found == rows_.end() ? std::nullopt : std::optional<Description>(found->second.description);
  }

  void set(const c10::Storage& storage, Description description) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (rows_.size() >= limit_) sweep();
    auto weak = storage.getWeakStorageImpl();
    rows_.insert_or_assign(storage.unsafeGetStorageImpl(), Row{std::move(weak), std::move(description)});
    formats_recorded.store(true, std::memory_order_relaxed);
  }

  size_t living() {
    std::lock_guard<std::mutex> lock(mutex_);
    sweep();
    formats_recorded.store(!rows_.empty(), std::memory_order_relaxed);
    return rows_.size();
  }

 private:
  struct Row {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    Description description;
  };

  void sweep() {
    for (auto row = rows_.begin(); row != rows_.end();) row = row->second.storage.expired() ? rows_.erase(row) : std::next(row);
    limit_ = std::max<size_t>(64, 2 * rows_.size());
  }

  std::mutex mutex_;
  std::unordered_map<c10::StorageImpl*, Row> rows_;
  size_t limit_ = 64;
};

// Never destroyed: tensors may die after the statics of this library.
Records& records() {
  static auto* const the_records = new Records();
  return *the_records;
}

// The Python side: who hears of conversions, and who knows whether padded formats are allowed. It stays for the life of the process.
struct Python {
  py::object converted, allowed;
};
Python* python = nullptr;

template <class Slot>
auto python_knows(const Slot& slot, int) -> decltype(slot.load_pyobj() != nullptr) {
  return slot.load_pyobj() != nullptr;
}

template <class Slot>
bool python_knows(const Slot& slot, long) {  // torch before 2.13
  return slot.check_pyobj().value_or(nullptr) != nullptr;
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && static_cast<size_t>(tensor.numel()) * tensor.itemsize() == tensor.storage().nbytes() &&
         tensor.is_non_overlapping_and_dense();
}

// The sizes of the tensor that a plain storage was made for; a view knows the tensor it was taken from.
Sizes plain_base_sizes(const at::Tensor& tensor) {
  if (tensor.is_view()) {
    const auto& base = tensor._base();
    if (base.storage().is_alias_of(tensor.storage()) && base.itemsize() == tensor.itemsize()) return base.sizes().vec();
  }
  return tensor.sizes().vec();
}

bool matches(const at::Tensor& tensor, const Description& description) {
  return tensor.storage_offset() == 0 && tensor.is_contiguous() && tensor.sizes() == c10::IntArrayRef(description.base_sizes);
}

thread_local int t_uncounted = 0;

// The padded format of a tensor's storage, and whether the tensor is all of it as it was made.
struct Padded {
  int64_t format = -1;
  bool whole = true;
};

Padded padded(const at::Tensor& tensor) {
  if (tensor.device().type() != kNpu) return {};
  const auto found = recorded(tensor);
  if (!found || is_base_format(found->format)) return {};
  return {found->format, matches(tensor, *found)};
}

// The storage grew under its description: the tensor at hand is what it is for now.
Description refreshed(const at::Tensor& tensor, const Description& old) {
  const auto fits = old.base_sizes.size() == static_cast<size_t>(tensor.dim());
  const auto format = fits ? old.format : default_format(tensor.dim());
  record(tensor, format, tensor.sizes().vec());
  return *records().find(tensor.storage().unsafeGetStorageImpl());
}

}  // namespace

bool allow_internal_format() {
  if (python == nullptr || !Py_IsInitialized()) return false;
  py::gil_scoped_acquire gil;
  return python->allowed().cast<bool>();
}

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<Description> recorded(const at::Tensor& tensor) {
  if (!formats_recorded.load(std::memory_order_relaxed) || !tensor.has_storage()) return std::nullopt;
  auto found = records().find(tensor.storage().unsafeGetStorageImpl());
  if (found && found->bytes != tensor.storage().nbytes()) return refreshed(tensor, *found);
  return found;
}

Description described(const at::Tensor& tensor) {
  if (auto found = recorded(tensor)) return *std::move(found);
  auto sizes = plain_base_sizes(tensor);
  const auto format = default_format(sizes.size());
  auto stored = storage_sizes(format, sizes, tensor.itemsize());
  return {format, std::move(sizes), std::move(stored), tensor.itemsize(), 0};
}

void record(const at::Tensor& tensor, int64_t format, Sizes base_sizes) {
  auto stored = storage_sizes(format, base_sizes, tensor.itemsize());
  records().set(tensor.storage(), {format, std::move(base_sizes), std::move(stored), tensor.itemsize(), tensor.storage().nbytes()});
}

void converted(const at::Tensor& tensor, int64_t from, int64_t to, int64_t start, int64_t end) {
  if (python == nullptr || !Py_IsInitialized()) return;
  const auto device = tensor.device().index();
  const auto stream = current_stream(device).id();
  py::gil_scoped_acquire gil;
  python->converted(static_cast<int>(device), stream, start, end, from, to, tensor.sizes().vec(), c10::toString(tensor.scalar_type()));
}

void CallFormats::see(const at::Tensor& tensor) {
  const auto found = recorded(tensor);
  const bool padded = found && !is_base_format(found->format);
  const bool fits = padded && matches(tensor, *found);
  if (first_ && fits && allow_internal_format()) {
    format_ = found->format;
    rank_ = tensor.dim();
    dtype_ = tensor.scalar_type();
  }
  first_ = false;
  if (padded && !fits) {
    const auto now = nanoseconds();
    converted(tensor, found->format, base_format(found->format), now, now);
  }
}

void CallFormats::inherit(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kNpu || static_cast<size_t>(tensor.dim()) != rank_) return;
  if (tensor.scalar_type() != dtype_ || !tensor.is_contiguous() || !covers_storage(tensor)) return;
  if (python_knows(*tensor.unsafeGetTensorImpl()->pyobj_slot(), 0) || recorded(tensor)) return;  // made by the program: out=, self
  record(tensor, format_, tensor.sizes().vec());
}

at::Tensor plain_copy_for_view(const at::Tensor& self, size_t rank) {
  const auto found = recorded(self);
  if (!found || is_base_format(found->format)) return {};
  const auto base = base_format(found->format);
  if (!(base == kNCHW && rank >= 5) && !(base == kNCDHW && rank != 5)) return {};
  TORCH_WARN("a view with ", rank, " dimensions of a tensor in format ", format_name(found->format), " is a copy in format ",
             format_name(base), ": writing to it in place does not change the tensor it was taken from");
  return cast_format(self, base);
}

UncountedCopies::UncountedCopies() { ++t_uncounted; }

UncountedCopies::~UncountedCopies() { --t_uncounted; }

void count_copy(const at::Tensor& self, const at::Tensor& source) {
  if (t_uncounted > 0) return;
  const auto from = padded(source), to = padded(self);
  const bool alike = self.sizes() == source.sizes() && self.scalar_type() == source.scalar_type();
  if (from.format == to.format && (from.format < 0 || (from.whole && to.whole && alike))) return;
  const auto now = nanoseconds();
  if (from.format >= 0) converted(source, from.format, base_format(from.format), now, now);
  if (to.format < 0) return;
  if (!to.whole) converted(self, to.format, base_format(to.format), now, now);  // what lies around the target stays
  converted(self, base_format(to.format), to.format, now, now);
}

void resized(const at::Tensor& self) {
  const auto found = recorded(self);
  if (!found) return;
  const auto sizes = self.sizes().vec();
  const bool smaller = static_cast<size_t>(product(found->base_sizes)) > static_cast<size_t>(product(sizes));
  const bool keeps = !smaller && sizes.size() == found->base_sizes.size();
  record(self, keeps ? found->format : default_format(sizes.size()), sizes);
}

void bind_formats(py::module_& m) {
  m.def("_formats_connect",
        [](py::object converted, py::object allowed) { python = new Python{std::move(converted), std::move(allowed)}; });
  m.def("_formats_records", [] { return records().living(); });
  m.def("_formats_describe", [](const at::Tensor& tensor) {
    TORCH_CHECK(tensor.device().type() == kNpu, "expected a tensor on npu, got one on ", tensor.device(), "; move it with .npu()",
                pta_error(ErrCode::kParam));
    const auto found = described(tensor);
    return py::make_tuple(found.format, base_format(found.format), found.base_sizes, found.stored_sizes);
  });
}

}  // namespace softnpu
