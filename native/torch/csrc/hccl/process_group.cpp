#include "hccl/process_group.h"

#include "device/chip.h"
#include "device/device.h"
#include "device/errors.h"
#include "device/python_lock.h"
#include "formats/formats.h"

#include <ATen/Functions.h>

#include <unordered_map>

namespace softnpu {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);  // with what the peers have not asked for when the group ends
constexpr auto kMoment = std::chrono::milliseconds(25);
constexpr int kMoments = 20;  // until a process whose connection has closed is seen to end

using WeakGroup = c10::weak_intrusive_ptr<ProcessGroupHCCL>;

// Groups by the name that the fused operators are given.
struct Named {
  std::mutex lock;
  std::unordered_map<std::string, WeakGroup> groups;
};

Named& named() {
  static auto* all = new Named();  // never destroyed: groups may outlive static objects
  return *all;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    return known.what_without_backtrace();
  } catch (const std::exception& other) {
    return other.what();
  } catch (...) {
    return "an unknown error";
  }
}

// Gloo's text without the place in its source and its advice.
std::string shortened(std::string text) {
  const auto advice = text.find(" This is typically caused");
  if (advice != std::string::npos) text.resize(advice);
  const auto place = text.find("] ");
  if (!text.empty() && text[0] == '[' && place != std::string::npos && text.find(".cc:") < place) text.erase(0, place + 2);
  while (!text.empty() && (text.back() == '.' || text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

const std::map<std::string, bool>& config_keys() {  // whether the value is a number
  static const std::map<std::string, bool> keys = {
      {"hccl_buffer_size", true},       {"group_name", false},        {"qos_service_level", true}, {"qos_traffic_class", true},
      {"hccl_op_expansion_mode", true}, {"hccl_world_rank_id", true}, {"hccl_job_id", true}};
  return keys;
}

}  // namespace

void HcclOptions::set_config(Config config) {
  for (const auto& [key, value] : config) {
    const auto known = config_keys().find(key);
    TORCH_CHECK_VALUE(known != config_keys().end(), "hccl_config has no key '", key,
                      "'; there are hccl_buffer_size, group_name, qos_service_level, qos_traffic_class, hccl_op_expansion_mode, "
                      "hccl_world_rank_id and hccl_job_id",
                      dist_error(ErrCode::kParam));
    TORCH_CHECK_TYPE(std::holds_alternative<int64_t>(value) == known->second, "hccl_config['", key, "'] must be ",
                     known->second ? "a whole number" : "text", dist_error(ErrCode::kType));
  }
  hccl_config = std::move(config);
}

void check_root(int64_t root, int size, const std::string& name) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "HCCL ", name, ": rank ", root, " does not exist, the group has the ranks 0 to ", size - 1,
                    dist_error(ErrCode::kParam));
}

void check_tensor(const at::Tensor& tensor, const std::string& name) {
  TORCH_CHECK(tensor.defined() && tensor.device().type() == kNpu && tensor.layout() == c10::kStrided,
              "Tensors must be NPU and dense: HCCL ", name, " got a tensor on ",
              tensor.defined() ? tensor.device().str() : std::string("no device"), "; move it with .npu(), .to_dense()",
              dist_error(ErrCode::kParam));
  TORCH_CHECK(tensor.is_contiguous(tensor.suggest_memory_format()), "Tensors must be contiguous: HCCL ", name, " got one with sizes ",
              tensor.sizes(), " and strides ", tensor.strides(), "; call .contiguous()", dist_error(ErrCode::kParam));
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), "HCCL ", name, " sends memory as it is: call resolve_conj() and resolve_neg()",
              dist_error(ErrCode::kParam));
  TORCH_CHECK(!(strict() & kRules) || !tensor.is_complex(), "HCCL ", name, ": Unsupported data type ", tensor.scalar_type(),
              dist_error(ErrCode::kType));
  if (!formats_recorded.load(std::memory_order_relaxed) || tensor.storage_offset() == 0) return;
  const auto format = recorded(tensor);
  TORCH_CHECK(!format.has_value() || format->format == kND, "HCCL ", name, ": a tensor of internal format ",
              format.has_value() ? format->format : 0, " must have storage offset 0, this has ", tensor.storage_offset(),
              "; use npu_format_cast(x, 2)", dist_error(ErrCode::kNotSupported));
}

const at::Tensor& only(const Tensors& tensors, const char* name) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "HCCL ", name, " takes one tensor per device, not a list of ", tensors.size(),
                    dist_error(ErrCode::kParam));
  return tensors[0];
}

at::Tensor flat(const at::Tensor& tensor, at::ScalarType dtype) {
  const auto count = tensor.numel() * static_cast<int64_t>(tensor.itemsize() / c10::elementSize(dtype));
  const auto options = at::TensorOptions().dtype(dtype).device(at::kCPU);
  if (count == 0) return at::empty({0}, options);
  return at::from_blob(tensor.mutable_data_ptr(), {count}, [owner = tensor.storage()](void*) {}, options);
}

at::Tensor bytes_of(const at::Tensor& tensor) { return flat(tensor, at::kByte); }

std::string size_text(const at::Tensor& tensor) { return c10::str(tensor.numel(), " ", c10::toString(tensor.scalar_type())); }

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<HcclOptions> options)
    : Backend(rank, size), store_(std::move(store)), options_(std::move(options)) {
  const auto given = options_->hccl_config.find("group_name");
  if (given != options_->hccl_config.end()) name_ = std::get<std::string>(given->second);
  init();
}

ProcessGroupHCCL::~ProcessGroupHCCL() {
  PythonLetGo wait_without;  // Gloo's threads may need Python to end
  waiters_.reset();
  if (watch_ == nullptr) return;
  const bool settled = watch_->settle(kPatience);
  board_->leave("it has destroyed the group");
  if (!settled) watch_->fail_all("the process group was destroyed");
  end(std::move(inner_));
  watch_.reset();
}

// Gloo's group ends when its collectives do, which may take as long as the timeout.
void ProcessGroupHCCL::end(BackendPtr inner) {
  if (watch_ == nullptr || !watch_->gloo_is_busy()) return;
  std::thread([inner = std::move(inner)]() mutable { inner.reset(); }).detach();
}

// Sends that nobody waits for may still be on their way.
void ProcessGroupHCCL::shutdown() {
  PythonLetGo wait_without;
  if (waiters_ != nullptr) waiters_->drain(kPatience);
}

void ProcessGroupHCCL::connect(BackendPtr inner, const std::string& board) {
  auto shared = std::make_shared<Board>();
  if (!board.empty()) shared->open(board, rank_, size_);
  watch_ = std::make_shared<Watch>(shared);
  waiters_ = std::make_shared<Waiters>(watch_);
  std::lock_guard<std::mutex> guard(lock_);
  inner_ = std::move(inner);
  board_ = std::move(shared);
  ended_because_.clear();
  sequence_ = 0;
}

void ProcessGroupHCCL::abort() {
  BackendPtr ending;
  std::string reason;
  {
    std::lock_guard<std::mutex> guard(lock_);
    ending = std::move(inner_);
    if (ended_because_.empty()) ended_because_ = "it was aborted";
    reason = ended_because_;
  }
  if (watch_ == nullptr) return;
  PythonLetGo wait_without;
  board_->leave(reason);
  watch_->fail_all(reason);
  waiters_ = std::make_shared<Waiters>(watch_);
  end(std::move(ending));
}

BackendPtr ProcessGroupHCCL::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                   const c10::intrusive_ptr<Options>& opts) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  auto given = c10::dynamic_intrusive_pointer_cast<HcclOptions>(opts);
  auto options = c10::make_intrusive<HcclOptions>(*(given == nullptr ? options_ : given));
  if (opts != nullptr) options->timeout = opts->timeout;
  options->hccl_config.erase("group_name");  // of the whole
  options->group_id = opts == nullptr ? "" : opts->group_name;
  options->global_ranks_in_group.assign(ranks.begin(), ranks.end());
  return connected_group(store, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()), options);
}

BackendPtr ProcessGroupHCCL::inner() const {
  std::lock_guard<std::mutex> guard(lock_);
  TORCH_CHECK_WITH(DistBackendError, inner_ != nullptr,
                   "HCCL: this process group has ended: ", ended_because_.empty() ? "it was never connected" : ended_because_,
                   ". Call torch.distributed.reinit_process_group() on every rank, or make a new group", dist_error(ErrCode::kUnavailable));
  return inner_;
}

std::string ProcessGroupHCCL::comm_name() const {
  std::lock_guard<std::mutex> guard(lock_);
  if (!name_.empty()) return name_;
  const auto& group = options_->group_id.empty() ? getGroupUid() : options_->group_id;
  return "hccl_group_" + (group.empty() ? std::to_string(getID()) : group);
}

void ProcessGroupHCCL::set_comm_name(const std::string& name) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    name_ = name;
  }
  auto& all = named();
  std::lock_guard<std::mutex> guard(all.lock);
  for (auto one = all.groups.begin(); one != all.groups.end();) one = one->second.expired() ? all.groups.erase(one) : std::next(one);
  all.groups.insert_or_assign(name, WeakGroup(c10::intrusive_ptr<ProcessGroupHCCL>::reclaim_copy(this)));
}

c10::intrusive_ptr<ProcessGroupHCCL> ProcessGroupHCCL::find(const std::string& comm_name) {
  auto& all = named();
  std::lock_guard<std::mutex> guard(all.lock);
  const auto found = all.groups.find(comm_name);
  return found == all.groups.end() ? nullptr : found->second.lock();
}

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  inner()->setTimeout(timeout);
}

Explain ProcessGroupHCCL::explain(const std::string& name, uint64_t sequence, bool collective) const {
  auto who = c10::str("HCCL ", name, collective ? c10::str(" (collective ", sequence, ", ") : std::string(" ("), "rank ", rank_, " of ",
                      size_, collective && !options_->group_id.empty() ? ", group " + options_->group_id : std::string(), ") failed: ");
  return [who = std::move(who), sequence, board = board_, collective, device = current_device(),
          caller = std::this_thread::get_id()](const std::exception_ptr& error) {
    if (std::this_thread::get_id() != caller) set_device(device);  // which the last line tells
    const auto text = shortened(text_of(error));
    const bool timeout = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
    for (int i = 0; !timeout && board->is_open() && !board->has_lost_one() && i < kMoments; ++i) std::this_thread::sleep_for(kMoment);
    auto told = who + text + "." + board->others(collective ? sequence : board->own());
    told += timeout ? " All ranks must call the same collectives in the same order before the timeout."
                    : " A peer may have ended: its log tells why.";
    const auto line = timeout ? dist_error(ErrCode::kTimeout) : dist_error(ErrCode::kHccl);
    return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, told + line));
  };
}

void ProcessGroupHCCL::refuse(const std::string& text, const std::string& advice) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    ended_because_ = text;
  }
  abort();  // the others would wait for the timeout, or be ended by Gloo
  TORCH_CHECK_WITH(DistBackendError, false, text, ". ", advice, dist_error(ErrCode::kParam));
}

// As the chip does: a device belongs to one rank.
void ProcessGroupHCCL::refuse_shared_device(const Tensors& outputs) {
  const int device = physical_device(outputs.empty() ? current_device() : outputs[0].device().index());
  const int other = board_->also_uses(device);
  if (other < 0) return;
  refuse(c10::str("HCCL: rank ", rank_, " and rank ", other, " both use device ", device),
         "Each rank needs a device of its own: torch.npu.set_device(LOCAL_RANK) before the first collective");
}

WorkPtr ProcessGroupHCCL::run(const Call& call, Tensors outputs, const Launch& launch, After after) {
  const auto inner = this->inner();
  const uint64_t sequence = ++sequence_;
  if (C10_UNLIKELY(strict() & kRules)) refuse_shared_device(outputs);
  const auto other = board_->begin(sequence, call.step());
  if (C10_UNLIKELY(!other.empty())) {
    refuse(c10::str("HCCL: collective ", sequence, " (", call.name, ") does not match: ", other),
           "All ranks of a group must call the same collectives in the same order with the same sizes");
  }
  auto explained = explain(call.name, sequence, true);
  std::vector<WorkPtr> works;
  try {
    works = launch(*inner);
  } catch (...) {
    std::rethrow_exception(explained(std::current_exception()));
  }
  auto work = c10::make_intrusive<HcclWork>(rank_, call.type, sequence, std::move(outputs), std::move(explained), board_, watch_);
  work->start(works, std::move(after));
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

void ProcessGroupHCCL::startCoalescing() {
  coalescing_ = true;
  coalesced_.clear();
}

WorkPtr ProcessGroupHCCL::endCoalescing() {
  coalescing_ = false;
  Tensors tensors;
  for (const auto& work : coalesced_) {
    for (const auto& one : work->result()) tensors.push_back(one);
  }
  return c10::make_intrusive<HcclJoinedWork>(rank_, c10d::OpType::COALESCED, sequence_, std::exchange(coalesced_, {}), std::move(tensors),
                                             nullptr, waiters_, watch_);
}

}  // namespace softnpu
