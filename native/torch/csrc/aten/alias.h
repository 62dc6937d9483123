// npu tensors as CPU tensors over the same memory, for the length of a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <atomic>

namespace softnpu {

// A storage of a device. It keeps a CPU storage over its memory for the next call; a call takes it out and puts it back, so that
// calls in several threads do not meet.
struct NpuStorage final : public c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
  ~NpuStorage() override;
  std::atomic<c10::StorageImpl*> spare{nullptr};
};

void register_storage();

// The aliases of one call: the same tensor has the same alias, tensors of one storage share one.
class Aliases {
 public:
  Aliases() = default;
  ~Aliases();
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;

  at::Tensor to_cpu(const at::Tensor& tensor);
  // Results: an alias becomes the tensor it stands for, a view of an alias a view of that tensor, anything else moves to the device.
  at::Tensor to_npu(const at::Tensor& result, c10::Device device);
  // What the call changed in its arguments beside their values: sizes, memory, conjugation.
  void write_back();
  // A tensor of the host among the arguments: results over its memory stay there.
  void keep(const at::Tensor& tensor) {
    if (tensor.has_storage()) kept_.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  bool stands_for_npu(const at::Tensor& alias) const;

 private:
  struct Pair {
    at::Tensor npu, cpu;
  };
  struct Shared {
    c10::Storage npu;
    c10::intrusive_ptr<c10::StorageImpl> cpu;
  };
  const c10::intrusive_ptr<c10::StorageImpl>& storage_of(const at::Tensor& tensor);

  c10::SmallVector<Pair, 4> pairs_;
  c10::SmallVector<Shared, 4> storages_;
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::StorageImpl*>, 2> moved_;  // a result's storage on the CPU, and on the device
  c10::SmallVector<c10::StorageImpl*, 2> kept_;
};

}  // namespace softnpu
