#include "aten/alias.h"

#include "device/device.h"
#include "device/errors.h"
#include "memory/allocator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/CPUAllocator.h>

namespace softnpu {

namespace {

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes, c10::DataPtr data,
                                                  c10::Allocator* allocator, bool resizable) {
  if (data == nullptr && allocator != nullptr) {
    return c10::make_intrusive<NpuStorage>(c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes.expect_int()), allocator,
                                           resizable);
  }
  return c10::make_intrusive<NpuStorage>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), allocator, resizable);
}

// A CPU storage over the memory of a device's storage; it owns nothing.
c10::intrusive_ptr<c10::StorageImpl> borrow(c10::StorageImpl* storage) {
  void* data = storage->mutable_data();
  auto* own = dynamic_cast<NpuStorage*>(storage);
  auto* spare = own == nullptr ? nullptr : own->spare.exchange(nullptr);
  c10::DataPtr borrowed(data, c10::Device(c10::DeviceType::CPU));
  if (spare == nullptr) {
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage->nbytes(), std::move(borrowed),
                                                 c10::GetCPUAllocator(), storage->resizable());
  }
  if (spare->data() != data || spare->nbytes() != storage->nbytes()) {
    spare->set_data_ptr_noswap(std::move(borrowed));
    spare->set_nbytes(storage->nbytes());
    spare->set_resizable(storage->resizable());
  }
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim(spare);
}

void let_go(void* context) { delete static_cast<c10::Storage*>(context); }

// Memory of one storage in another, which keeps the first alive.
c10::DataPtr memory_with(c10::Storage storage, c10::Device device) {
  void* data = storage.mutable_data();
  return {data, new c10::Storage(std::move(storage)), &let_go, device};
}

// A kernel of somebody else may have kept its argument: then the alias owns what it stands for.
void give_back(const c10::Storage& storage, c10::intrusive_ptr<c10::StorageImpl> alias) {
  auto* own = dynamic_cast<NpuStorage*>(storage.unsafeGetStorageImpl());
  if (C10_UNLIKELY(alias.use_count() != 1)) {
    if (alias->data() == storage.data()) alias->set_data_ptr_noswap(memory_with(storage, c10::Device(c10::DeviceType::CPU)));
    return;
  }
  if (own == nullptr) return;
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(own->spare.exchange(alias.release()));
}

void copy_geometry(const at::Tensor& from, at::TensorImpl* to) {
  to->set_storage_offset(from.storage_offset());
  to->set_sizes_and_strides(from.sizes(), from.strides());
}

at::Tensor make_empty(c10::Storage storage, bool on_npu, const at::Tensor& like) {
  if (C10_UNLIKELY(like.is_quantized())) {
    const auto key = on_npu ? c10::DispatchKey::QuantizedPrivateUse1 : c10::DispatchKey::QuantizedCPU;
    return at::detail::make_tensor<at::QTensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype(), like.quantizer());
  }
  const auto key = on_npu ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
  return at::detail::make_tensor<at::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
}

// Sizes, strides and offsets of the parts are tensors of the host on every device.
at::Tensor make_nested(c10::Storage storage, bool on_npu, const at::Tensor& like) {
  const auto count = static_cast<int64_t>(storage.nbytes() / like.dtype().itemsize());
  const auto key = on_npu ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
  auto buffer = at::detail::make_tensor<at::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  buffer.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  const auto* impl = at::native::get_nested_tensor_impl(like);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, impl->get_nested_sizes(), impl->get_nested_strides(),
                                                               impl->get_storage_offsets());
}

at::Tensor make(c10::Storage storage, bool on_npu, const at::Tensor& like) {
  if (C10_UNLIKELY(like.is_nested())) return make_nested(std::move(storage), on_npu, like);
  auto made = make_empty(std::move(storage), on_npu, like);
  auto* impl = made.unsafeGetTensorImpl();
  copy_geometry(like, impl);
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return made;
}

// The CPU's kernels would run into the null pointer.
void check_has_memory(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.numel() == 0, "The tensor has a non-zero number of elements, but its data is not allocated yet: a tensor of shape ",
              tensor.sizes(), " lost the memory of its storage (untyped_storage().resize_(0), set_); give it memory before use",
              pta_error(ErrCode::kPointer));
}

// The memory of a result. One that only this call knows gives it away; one that somebody keeps (a kernel in Python may) shares it.
c10::DataPtr taken(const at::Tensor& result, c10::Device device) {
  if (C10_UNLIKELY(result.use_count() > 1 || result.storage().use_count() > 1)) return memory_with(result.storage(), device);
  auto* storage = result.storage().unsafeGetStorageImpl();
  auto data = storage->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
  data.unsafe_set_device(device);
  return data;
}

}  // namespace

NpuStorage::~NpuStorage() { c10::intrusive_ptr<c10::StorageImpl>::reclaim(spare.exchange(nullptr)); }

Aliases::~Aliases() {
  pairs_.clear();
  for (auto& one : storages_) give_back(one.npu, std::move(one.cpu));
}

const c10::intrusive_ptr<c10::StorageImpl>& Aliases::storage_of(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (const auto& one : storages_) {
    if (one.npu.unsafeGetStorageImpl() == storage) return one.cpu;
  }
  storages_.push_back({tensor.storage(), borrow(storage)});
  return storages_.back().cpu;
}

void register_storage() { c10::SetStorageImplCreate(kNpu, &make_storage); }

at::Tensor Aliases::to_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kNpu) return tensor;
  TORCH_CHECK(tensor.layout() == c10::kStrided, "a tensor of layout ", tensor.layout(), " is not supported on npu; use to_dense()",
              ops_error(ErrCode::kNotSupported));
  for (const auto& pair : pairs_) {
    if (pair.npu.is_same(tensor)) return pair.cpu;
  }
  const auto& storage = storage_of(tensor);
  if (C10_UNLIKELY(storage->data() == nullptr)) check_has_memory(tensor);
  auto alias = make(c10::Storage(storage), false, tensor);
  pairs_.push_back({tensor, alias});
  return alias;
}

bool Aliases::stands_for_npu(const at::Tensor& alias) const {
  for (const auto& pair : pairs_) {
    if (pair.cpu.is_same(alias)) return true;
  }
  return false;
}

at::Tensor Aliases::to_npu(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || result.device().type() != c10::DeviceType::CPU) return result;
  for (const auto& pair : pairs_) {
    if (pair.cpu.is_same(result)) return pair.npu;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == c10::kStrided, "a result of layout ", result.layout(),
                              " is not supported on npu: sparse tensors are refused; compute it on the cpu",
                              ops_error(ErrCode::kNotSupported));
  auto* storage = result.storage().unsafeGetStorageImpl();
  for (const auto* kept : kept_) {
    if (kept == storage) return result;
  }
  for (const auto& one : storages_) {
    if (one.cpu.get() == storage) return make(one.npu, true, result);
  }
  for (const auto& [before, after] : moved_) {
    if (before == storage) return make(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(after)), true, result);
  }
  const auto bytes = storage->nbytes();
  auto data = taken(result, device);
  auto made = c10::make_intrusive<NpuStorage>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), allocator(), true);
  moved_.emplace_back(storage, made.get());
  return make(c10::Storage(std::move(made)), true, result);
}

void Aliases::write_back() {
  for (auto& pair : pairs_) {
    auto* npu = pair.npu.unsafeGetTensorImpl();
    auto* npu_storage = pair.npu.storage().unsafeGetStorageImpl();
    auto* cpu_storage = pair.cpu.storage().unsafeGetStorageImpl();
    if (cpu_storage->nbytes() != npu_storage->nbytes() || cpu_storage->data() != npu_storage->data()) {
      const auto bytes = cpu_storage->nbytes();
      void* address = cpu_storage->mutable_data();
      auto data = cpu_storage->set_data_ptr(c10::DataPtr(address, c10::Device(c10::DeviceType::CPU)));
      data.unsafe_set_device(pair.npu.device());
      npu_storage->set_data_ptr_noswap(std::move(data));
      npu_storage->set_nbytes(bytes);
    }
    if (C10_UNLIKELY(pair.npu.is_nested())) continue;
    if (pair.npu.sizes() != pair.cpu.sizes() || pair.npu.strides() != pair.cpu.strides() ||
        pair.npu.storage_offset() != pair.cpu.storage_offset()) {
      copy_geometry(pair.cpu, npu);
    }
    if (pair.npu.is_conj() != pair.cpu.is_conj()) npu->_set_conj(pair.cpu.is_conj());
    if (pair.npu.is_neg() != pair.cpu.is_neg()) npu->_set_neg(pair.cpu.is_neg());
  }
}

}  // namespace softnpu
