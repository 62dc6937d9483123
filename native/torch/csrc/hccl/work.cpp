#include "hccl/work.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue_inl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace softnpu {

namespace {

c10::intrusive_ptr<c10::ivalue::Future> future_for(const std::vector<at::Tensor>& outputs) {
  std::vector<c10::Device> devices;
  for (const auto& output : outputs) {
    if (std::find(devices.begin(), devices.end(), output.device()) == devices.end()) devices.push_back(output.device());
  }
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

bool wait_for_each(const std::vector<WorkPtr>& works, std::chrono::milliseconds timeout) {
  bool good = true;
  for (const auto& work : works) good = work->wait(timeout) && good;
  return good;
}

// Raises too when the watch gives a transfer with `peer` up.
bool wait_for(const std::vector<WorkPtr>& works, int peer, const std::shared_ptr<Watch>& watch, std::chrono::milliseconds timeout) {
  if (peer < 0) return wait_for_each(works, timeout);
  struct GivenUp {
    std::mutex lock;
    std::string why;
  };
  const auto given_up = std::make_shared<GivenUp>();  // the watch may be at it when this returns
  const auto place = watch->add({0, peer, [given_up, works](const std::string& why) {
                                   std::lock_guard<std::mutex> guard(given_up->lock);
                                   given_up->why = why;
                                   for (const auto& work : works) work->abort();
                                 }});
  std::exception_ptr error;
  bool good = false;
  try {
    good = wait_for_each(works, timeout);
  } catch (...) {
    error = std::current_exception();
  }
  watch->remove(place);
  std::lock_guard<std::mutex> guard(given_up->lock);
  if (!given_up->why.empty() && !good) throw std::runtime_error(given_up->why);
  if (error) std::rethrow_exception(error);
  return good;
}

}  // namespace

HcclWork::HcclWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<at::Tensor> outputs, Explain explain,
                   std::shared_ptr<Board> board, std::shared_ptr<Watch> watch)
    : Work(rank, type),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      explain_(std::move(explain)),
      future_(future_for(outputs_)),
      board_(std::move(board)),
      watch_(std::move(watch)) {}

void HcclWork::start(const std::vector<WorkPtr>& inner, std::function<void()> after) {
  after_ = std::move(after);
  pending_ += inner.size();
  auto self = c10::intrusive_ptr<HcclWork>::reclaim_copy(this);
  watch_->gloo_began();
  {
    std::lock_guard<std::mutex> guard(lock_);
    place_ = watch_->add({sequence_, -1, [self](const std::string& why) { self->give_up(why); }});
  }
  for (const auto& work : inner) {
    work->getFuture()->addCallback(
        [self](c10::ivalue::Future& ended) { self->one_ended(ended.hasError() ? ended.exception_ptr() : nullptr); });
  }
  one_ended(nullptr);  // this call itself: the work ends when all are started
}

bool HcclWork::wait(std::chrono::milliseconds timeout) {
  try {
    return Work::wait(timeout);
  } catch (...) {
    if (isCompleted()) throw;  // its own error, which is explained
    std::rethrow_exception(explain_(std::current_exception()));
  }
}

void HcclWork::one_ended(const std::exception_ptr& error) {
  if (error) {
    std::lock_guard<std::mutex> guard(lock_);
    if (!error_) error_ = error;
  }
  if (--pending_ == 0) gloo_ended();
}

void HcclWork::gloo_ended() {
  watch_->gloo_ended();
  auto after = std::exchange(after_, nullptr);  // it holds the memory of all arguments
  if (over_.exchange(true)) return;
  auto error = error_;
  if (!error && after) {
    at::AutoDispatchBelowADInplaceOrView no_autograd;  // this is Gloo's thread with the caller's state: no modes of Python here
    c10::impl::ExcludeDispatchKeyGuard no_python(c10::DispatchKeySet(c10::DispatchKey::Python) |
                                                 c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot));
    try {
      after();
    } catch (...) {
      error = std::current_exception();
    }
  }
  after = nullptr;
  if (!error) board_->finished();
  complete(error ? explain_(error) : nullptr);
}

void HcclWork::give_up(const std::string& why) {
  if (over_.exchange(true)) return;
  complete(explain_(std::make_exception_ptr(std::runtime_error(why))));
}

void HcclWork::complete(std::exception_ptr error) {
  Watch::Place place;
  {
    std::lock_guard<std::mutex> guard(lock_);  // `start` may not have it yet
    place = place_;
  }
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(outputs_));
  }
  finish(error);
  watch_->remove(place);
}

Waiters::~Waiters() {
  std::list<One> rest;
  {
    std::lock_guard<std::mutex> guard(lock_);
    rest.swap(all_);
  }
  for (auto& one : rest) {
    for (const auto& work : one.works) work->abort();
    one.thread.join();
  }
}

void Waiters::join_ended() {
  for (auto one = all_.begin(); one != all_.end();) {
    if (!one->ended) {
      ++one;
      continue;
    }
    one->thread.join();
    one = all_.erase(one);
  }
}

void Waiters::add(std::vector<WorkPtr> works, int peer, Done done) {
  std::lock_guard<std::mutex> guard(lock_);
  join_ended();
  auto& one = all_.emplace_back();
  one.works = std::move(works);
  one.thread = std::thread([this, &one, peer, done = std::move(done)]() mutable {
    std::exception_ptr error;
    try {
      wait_for(one.works, peer, watch_, kNoTimeout);
    } catch (...) {
      error = std::current_exception();  // of a forgotten work nobody asks
    }
    if (done) done(error);
    done = nullptr;
    one.ended = true;
    one_ended_.notify_all();
  });
}

void Waiters::drain(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> guard(lock_);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  join_ended();
  while (!all_.empty() && std::chrono::steady_clock::now() < deadline) {
    one_ended_.wait_for(guard, std::chrono::milliseconds(10));
    join_ended();
  }
}

HcclJoinedWork::HcclJoinedWork(int rank, c10d::OpType type, uint64_t sequence, std::vector<WorkPtr> inner, std::vector<at::Tensor> outputs,
                               Explain explain, std::weak_ptr<Waiters> waiters, std::shared_ptr<Watch> watch, int peer)
    : Work(rank, type),
      sequence_(sequence),
      inner_(std::move(inner)),
      outputs_(std::move(outputs)),
      explain_(std::move(explain)),
      waiters_(std::move(waiters)),
      watch_(std::move(watch)),
      peer_(peer),
      future_(future_for(outputs_)) {}

HcclJoinedWork::~HcclJoinedWork() {
  if (inner_.empty() || claimed_.exchange(true)) return;
  if (const auto waiters = waiters_.lock()) waiters->add(inner_, peer_, nullptr);
}

std::exception_ptr HcclJoinedWork::complete(std::exception_ptr error) {
  if (error && explain_) error = explain_(error);
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(outputs_));
  }
  finish(error);
  return error;
}

void HcclJoinedWork::wait_elsewhere() {
  if (claimed_.exchange(true)) return;
  const auto waiters = waiters_.lock();
  if (waiters == nullptr || inner_.empty()) {
    complete(inner_.empty() ? nullptr : std::make_exception_ptr(std::runtime_error("the process group was destroyed")));
    return;
  }
  auto self = c10::intrusive_ptr<HcclJoinedWork>::reclaim_copy(this);
  waiters->add(inner_, peer_, [self = std::move(self)](const std::exception_ptr& error) { self->complete(error); });
}

bool HcclJoinedWork::wait(std::chrono::milliseconds timeout) {
  if (claimed_.exchange(true)) return Work::wait(timeout);
  bool good = true;
  std::exception_ptr error;
  try {
    good = wait_for(inner_, peer_, watch_, timeout);
  } catch (...) {
    error = std::current_exception();
  }
  error = complete(error);
  if (error) std::rethrow_exception(error);
  return good;
}

bool HcclJoinedWork::isCompleted() {
  wait_elsewhere();
  return Work::isCompleted();
}

c10::intrusive_ptr<c10::ivalue::Future> HcclJoinedWork::getFuture() {
  wait_elsewhere();
  return future_;
}

void HcclJoinedWork::abort() {
  for (const auto& work : inner_) work->abort();
}

}  // namespace softnpu
