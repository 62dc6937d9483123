#include "device/chip.h"

#include "aten/saturate.h"
#include "device/device.h"
#include "device/errors.h"

#include <c10/util/flat_hash_map.h>
#include <torch/csrc/utils/pybind.h>

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace softnpu {

std::atomic<uint8_t> strict_bits{0};

void refuse_in_fork() {
  TORCH_CHECK(false, "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, ",
              "you must use the 'spawn' start method", pta_error(ErrCode::kNotSupported));
}

namespace {

using torch::jit::Stack;

// What the rows say about an operator. Several rows may name one: the first that refuses a data type explains it.
struct Rule {
  bool missing = false;
  bool one_dtype = false;                                 // its tensors must agree
  std::vector<std::pair<uint64_t, std::string>> refused;  // data types, a bit each, and why
};

// Filled while torch_npu is imported, read only afterwards.
struct Rules {
  std::string chip;
  std::string backend;       // what the older adapter calls itself when it lacks an operator; empty: it falls back to the CPU
  bool no_fallback = false;  // TORCH_NPU_FALLBACK_CPU_DISABLE
  ska::flat_hash_map<std::string, Rule> by_name;
  Rule every;                              // for every operator but these
  std::unordered_set<std::string> moving;  // operators that move bytes
};

Rules& rules() {
  static auto* all = new Rules;
  return *all;
}

std::string base_name(const std::string& schema) {
  constexpr size_t prefix = 6;
  auto name = schema.rfind("aten::", 0) == 0 ? schema.substr(prefix) : schema;
  if (name.size() > 2 && name.back() == '_' && name[name.size() - 2] != '_') name.pop_back();
  return name;
}

void warn_once(const std::string& name) {
  static std::mutex mutex;
  static auto* warned = new std::unordered_set<std::string>;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!warned->insert(name).second) return;
  }
  TORCH_WARN("CAUTION: The operator '", name, "' is not currently supported on the NPU backend and will fall back to run on the CPU. ",
             "This may have performance implications.");
}

void lacks(const c10::OperatorHandle& op) {
  const auto& all = rules();
  const auto name = c10::toString(op.operator_name());
  TORCH_CHECK(all.backend.empty(), "Could not run '", name, "' with arguments from the '", all.backend, "' backend. The adapter of ",
              all.chip, " lacks it: compute it on the cpu (x.cpu()), use operators that it has, or set SOFTNPU_TORCH=lenient",
              ops_error(ErrCode::kNotSupported));
  TORCH_CHECK(!all.no_fallback, "The operator '", name, "' is not currently supported on the NPU backend, and falling back to the CPU ",
              "is switched off: unset TORCH_NPU_FALLBACK_CPU_DISABLE, or compute it on the cpu (x.cpu())",
              ops_error(ErrCode::kNotSupported));
  warn_once(name);
}

void check_dtype(const Rule& rule, const std::string& name, at::ScalarType type) {
  const auto bit = uint64_t{1} << static_cast<int>(type);
  for (const auto& [types, why] : rule.refused) {
    TORCH_CHECK((types & bit) == 0, name, ": dtype ", type, " is not supported on ", rules().chip, ": ", why,
                "; cast the tensor (x.float(), x.half(), x.int()), compute it on the cpu, or set SOFTNPU_TORCH=lenient",
                ops_error(ErrCode::kNotSupported));
  }
}

struct Tensors {
  const Rule* own;  // null: no row names the operator
  const Rule* every;
  std::string name;
  std::optional<at::ScalarType> first;
  bool any = false;

  void see(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kNpu) return;
    any = true;
    use_device(tensor.device().index());
    const auto type = tensor.scalar_type();
    if (own != nullptr) check_dtype(*own, name, type);
    if (every != nullptr) check_dtype(*every, name, type);
    TORCH_CHECK(own == nullptr || !own->one_dtype || first.value_or(type) == type, "Run: NPU error,NPU error code is:500002. ", name,
                " got tensors of dtypes ", first.value_or(type), " and ", type, ", which ", rules().chip,
                " does not take together: cast them to one dtype first, or set SOFTNPU_TORCH=lenient", ops_error(ErrCode::kType));
    if (!first) first = type;
  }

  void see(const c10::IValue& value) {
    if (value.isTensor()) return see(value.toTensor());
    if (!value.isTensorList() && !value.isOptionalTensorList()) return;
    for (const auto& item : value.toListRef()) {
      if (item.isTensor()) see(item.toTensor());
    }
  }
};

const Rule* find_rule(const std::string& name) {
  const auto found = rules().by_name.find(name);
  return found == rules().by_name.end() ? nullptr : &found->second;
}

uint64_t bits_of(const std::vector<at::ScalarType>& types) {
  uint64_t bits = 0;
  for (const auto type : types) bits |= uint64_t{1} << static_cast<int>(type);
  return bits;
}

void refuse_dtypes(const std::vector<std::string>& names, const std::vector<at::ScalarType>& types, const std::string& why) {
  const auto bits = bits_of(types);
  for (const auto& name : names) (name == "*" ? rules().every : rules().by_name[name]).refused.emplace_back(bits, why);
}

void set_strict(const std::string& chip, const std::string& backend, bool no_fallback, int bits) {
  rules().chip = chip;
  rules().backend = backend;
  rules().no_fallback = no_fallback;
  strict_bits.store(static_cast<uint8_t>(bits), std::memory_order_relaxed);
}

}  // namespace

void check_call(const c10::OperatorHandle& op, const Stack& stack) {
  if ((strict() & kForked) != 0) refuse_in_fork();
  const auto& schema = op.schema();
  const auto name = base_name(schema.name());
  const auto named = (strict() & kRules) != 0;
  const auto* own = named ? find_rule(name) : nullptr;
  const auto* every = named && rules().moving.count(name) == 0 ? &rules().every : nullptr;
  Tensors tensors{own, every, schema.name(), std::nullopt};
  for (size_t i = stack.size() - schema.arguments().size(); i < stack.size(); ++i) tensors.see(stack[i]);
  if (!tensors.any) use_device(current_device());
  if (own != nullptr && own->missing) lacks(op);
}

void check_kernel(const char* name, const at::Tensor& tensor) {
  if ((strict() & kForked) != 0) refuse_in_fork();
  const auto named = (strict() & kRules) != 0;
  Tensors{named ? find_rule(name) : nullptr, named ? &rules().every : nullptr, name, std::nullopt}.see(tensor);
}

void bind_chip(pybind11::module& m) {
  m.def("_set_strict", &set_strict);
  m.def("_refuse_dtypes", &refuse_dtypes);
  m.def("_lacks", [](const std::vector<std::string>& names) {
    for (const auto& name : names) rules().by_name[name].missing = true;
  });
  m.def("_wants_one_dtype", [](const std::vector<std::string>& names) {
    for (const auto& name : names) rules().by_name[name].one_dtype = true;
  });
  m.def("_moves", [](const std::vector<std::string>& names) { rules().moving.insert(names.begin(), names.end()); });
  m.def("_keep_device", [] { keep_device_for_backward(); });
  m.def("_used_device_that_was_not_set", [] { return used_device_that_was_not_set(); });
  m.def("_set_streams_per_device", [](int count) { set_streams_per_device(count); });
  m.def("_saturates", [] { return (strict() & kSaturates) != 0; });
  m.def("_has_overflowed", [] { return has_overflowed(); });
  m.def("_clear_overflow", [] { clear_overflow(); });
}

}  // namespace softnpu
