// Every operator that has no kernel of its own here: run by the CPU's kernel over the same memory.
#include "aten/on_cpu.h"
#include "device/chip.h"
#include "device/device.h"
#include "device/errors.h"
#include "device/generator.h"
#include "device/sync_debug.h"
#include "formats/formats.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <unordered_set>

namespace softnpu {

namespace {

using torch::jit::Stack;

enum class Mix : uint8_t { kNo, kHost, kIndices };  // tensors of the host: refused, taken, taken as indices

// What the schema says, looked up once per operator and thread.
struct Facts {
  size_t arguments = 0, returns = 0;
  uint64_t generators = 0, writes = 0;  // a bit per argument
  Mix mix = Mix::kNo;
};

bool takes_generator(const c10::Argument& argument) {
  const auto& type = argument.type();
  return type->kind() == c10::TypeKind::GeneratorType ||
         (type->kind() == c10::TypeKind::OptionalType &&
          type->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType);
}

// Operators whose tensors of indices or lengths live on the host by contract.
Mix mix_of(const std::string& name) {
  static const std::unordered_set<std::string> indices = {
      "aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_unsafe_index_put"};
  static const std::unordered_set<std::string> host = {"aten::tensor_split",        "aten::_pack_padded_sequence",
                                                       "aten::_ctc_loss",           "aten::_ctc_loss_backward",
                                                       "aten::_nested_from_padded", "aten::_nested_view_from_buffer"};
  if (indices.count(name) != 0) return Mix::kIndices;
  return host.count(name) != 0 ? Mix::kHost : Mix::kNo;
}

Facts learn(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  Facts facts;
  facts.arguments = schema.arguments().size();
  facts.returns = schema.returns().size();
  TORCH_CHECK(facts.arguments <= 64, schema.name(), " has ", facts.arguments, " arguments; npu takes 64 at most",
              ops_error(ErrCode::kNotSupported));
  for (size_t i = 0; i < facts.arguments; ++i) {
    const auto& argument = schema.arguments()[i];
    if (takes_generator(argument)) facts.generators |= uint64_t{1} << i;
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) facts.writes |= uint64_t{1} << i;
  }
  facts.mix = mix_of(schema.name());
  return facts;
}

const Facts& facts_of(const c10::OperatorHandle& op) {
  static thread_local ska::flat_hash_map<c10::OperatorName, Facts> by_name;  // for operators of others: they may come and go
  static thread_local ska::flat_hash_map<const c10::FunctionSchema*, Facts> known;
  const auto* schema = &op.schema();
  const auto found = known.find(schema);
  if (found != known.end()) return found->second;
  if (schema->name().rfind("aten::", 0) == 0) return known.emplace(schema, learn(op)).first->second;
  return by_name[op.operator_name()] = learn(op);
}

// What is known about a call before it is made.
struct Call {
  Aliases aliases;
  CallFormats formats;
  c10::DeviceIndex device = -1;
  bool host = false;         // a tensor of the host that is not a number
  bool host_index = false;   // such a one among indices
  bool host_result = false;  // the call would write to a tensor of the host
  bool any_host = false;     // a tensor of the host, numbers too

  at::Tensor see(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() == kNpu) {
      const auto index = tensor.device().index();
      if (device >= 0 && device != index) two_devices(device, tensor.device());
      device = index;
      formats.input(tensor);
      return aliases.to_cpu(tensor);
    }
    if (tensor.is_cpu()) {
      host |= tensor.dim() > 0;
      any_host = true;
      host_result |= written;
      aliases.keep(tensor);
    }
    return tensor;
  }

  void replace(c10::IValue& value, bool written) {
    if (value.isTensor()) {
      value = see(value.toTensor(), written);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      const auto items = value.toListRef();
      list.reserve(items.size());
      for (const auto& item : items) list.push_back(see(item.toTensor(), written));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      const bool before = std::exchange(host, false);
      for (const auto& item : value.toListRef()) {
        list.push_back(item.isTensor() ? std::optional<at::Tensor>(see(item.toTensor(), written)) : std::nullopt);
      }
      host_index |= std::exchange(host, before);
      value = std::move(list);
    } else if (value.isDevice() && value.toDevice().type() == kNpu) {
      const auto index = value.toDevice().index();
      if (device < 0) device = given_or_current(index);
      value = c10::Device(c10::DeviceType::CPU);
    }
  }
};

void check_host(const Facts& facts, const Call& call, const c10::IValue& first) {
  if (call.device < 0 || !(call.host || call.host_index || call.host_result)) return;
  if (facts.mix == Mix::kIndices) {
    TORCH_CHECK(!call.host_result && (!first.isTensor() || call.aliases.stands_for_npu(first.toTensor())),
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)", pta_error(ErrCode::kParam));
    if (!call.host) return;
  }
  if (facts.mix != Mix::kHost) two_devices(call.device, c10::Device(c10::DeviceType::CPU));
}

// A generator of the CPU for this call, which depends on the device's alone.
void replace_generator(c10::IValue& value, c10::DeviceIndex index, const Call& call) {
  if (value.isNone()) {
    value = static_cast<NpuGenerator*>(default_generator(index).unsafeGetGeneratorImpl())->next();
  } else if (auto* own = as_npu(value.toGenerator())) {
    TORCH_CHECK(call.device >= 0 || !call.any_host, "Expected a 'cpu' device type for generator but found 'npu'",
                pta_error(ErrCode::kParam));
    value = own->next();
  } else {
    TORCH_CHECK(false, "Expected a 'npu' device type for generator but found '", value.toGenerator().device().type(), "'",
                pta_error(ErrCode::kParam));
  }
}

at::Tensor moved(Call& call, const at::Tensor& tensor, c10::Device device) {
  auto made = call.aliases.to_npu(tensor, device);
  call.formats.output(made);
  return made;
}

void move_results(Call& call, c10::IValue& value, c10::Device device) {
  if (value.isTensor()) {
    value = moved(call, value.toTensor(), device);
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& item : value.toListRef()) list.push_back(moved(call, item.toTensor(), device));
    value = std::move(list);
  }
}

void call_kernel(const c10::OperatorHandle& op, Stack* stack, c10::DispatchKey key) {
  const auto& facts = facts_of(op);
  const auto first = stack->size() - facts.arguments, returns = facts.returns;
  Call call;
  for (size_t i = 0; i < facts.arguments; ++i) {
    auto& value = (*stack)[first + i];
    if (value.isTensor() || value.isList() || value.isDevice()) call.replace(value, (facts.writes >> i & 1) != 0);
  }
  if (facts.arguments > 0) check_host(facts, call, (*stack)[first]);
  const auto index = call.device < 0 ? current_device() : call.device;
  for (size_t i = 0; facts.generators >> i != 0; ++i) {
    if ((facts.generators >> i & 1) != 0) replace_generator((*stack)[first + i], index, call);
  }
  {
    CpuMemoryIsNpu memory(index);
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    // From here on `facts` may be gone: a kernel written in Python may call other operators.
    with_line([&] { op.redispatchBoxed(c10::DispatchKeySet(key), stack); });
  }
  call.aliases.write_back();
  for (size_t i = stack->size() - returns; i < stack->size(); ++i) move_results(call, (*stack)[i], c10::Device(kNpu, index));
}

void saturate_all(const c10::IValue& value, bool computed) {
  if (value.isTensor()) return saturate(value.toTensor(), computed);
  if (!value.isTensorList()) return;
  for (const auto& item : value.toListRef()) saturate(item.toTensor(), computed);
}

// An inf that was given, as masks have it, is not an overflow.
bool computes(const std::string& name) {
  static const std::unordered_set<std::string> fills = {"aten::fill_", "aten::masked_fill_", "aten::masked_fill", "aten::where"};
  return fills.count(name) == 0;
}

bool is_view(const c10::Argument& result) { return result.alias_info() != nullptr && !result.alias_info()->isWrite(); }

// With the chip's limits: checked before, float16 results saturated after where the chip does so.
C10_NOINLINE void call_strictly(const c10::OperatorHandle& op, Stack* stack, c10::DispatchKey key) {
  check_call(op, *stack);
  if ((strict() & kSaturates) == 0) return call_kernel(op, stack, key);
  const auto facts = facts_of(op);
  std::vector<c10::IValue> written;
  for (size_t i = 0; facts.writes >> i != 0; ++i) {
    if ((facts.writes >> i & 1) != 0) written.push_back((*stack)[stack->size() - facts.arguments + i]);
  }
  const bool computed = computes(op.schema().name());
  call_kernel(op, stack, key);
  for (const auto& value : written) saturate_all(value, computed);
  for (size_t i = 0; i < facts.returns; ++i) {
    if (!is_view(op.schema().returns()[i])) saturate_all((*stack)[stack->size() - facts.returns + i], computed);
  }
}

void run(const c10::OperatorHandle& op, Stack* stack, c10::DispatchKey key) {
  note_sync_of_call(op, *stack);
  if (C10_LIKELY(strict() == 0)) return call_kernel(op, stack, key);
  call_strictly(op, stack, key);
}

void run_quantized(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, c10::DispatchKey::QuantizedCPU); }

void refuse_sparse(const c10::OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(),
                              ": sparse tensors are not supported on npu; use dense ones (to_dense()) or the cpu",
                              ops_error(ErrCode::kNotSupported));
}

c10::SourceLocation here() { return {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}; }

template <typename Kind>
void throw_as(const c10::Error& error, const std::string& text) {
  if (dynamic_cast<const Kind*>(&error) != nullptr) throw Kind(here(), text);
}

}  // namespace

void two_devices(c10::DeviceIndex first, const c10::Device& second) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, npu:", static_cast<int>(first),
              " and ", second, "!", pta_error(ErrCode::kParam));
}

void throw_with_line(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  const auto line = ops_error(ErrCode::kParam);
  if (line.empty() || text.find("[ERROR]") != std::string::npos || dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) throw;
  text += line;
  throw_as<c10::IndexError>(error, text);
  throw_as<c10::ValueError>(error, text);
  throw_as<c10::TypeError>(error, text);
  throw_as<c10::NotImplementedError>(error, text);
  throw_as<c10::LinAlgError>(error, text);
  throw c10::Error(here(), text);
}

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '", op.operator_name(),
                              "' with arguments from the 'npu' backend: neither npu nor cpu has a kernel for it",
                              ops_error(ErrCode::kNotSupported));
  run(op, stack, c10::DispatchKey::CPU);
}

void run_nested(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, c10::DispatchKey::NestedTensorCPU); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_quantized>()); }

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_nested>()); }

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }

}  // namespace softnpu
