#include "hccl/watch.h"

#include <utility>

namespace softnpu {

namespace {

constexpr auto kPeriod = std::chrono::milliseconds(500);
// After a rank was seen to be gone: what it sent before may still be on its way, and Gloo's own error says more.
constexpr auto kGrace = std::chrono::seconds(2);

}  // namespace

Watch::Watch(std::shared_ptr<Board> board) : state_(std::make_shared<State>()) { state_->board = std::move(board); }

Watch::~Watch() {
  {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->stop = true;
  }
  state_->stopped.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // the last work of the group was this thread's
  } else {
    thread_.join();
  }
}

Watch::Place Watch::add(Entry entry) {
  std::lock_guard<std::mutex> guard(state_->lock);
  if (!thread_.joinable() && state_->board->is_open()) thread_ = std::thread([state = state_] { look(state); });
  return state_->entries.insert(state_->entries.end(), std::move(entry));
}

void Watch::remove(Place place) {
  Fail dropped;  // it may own what ends this object: not under the lock
  std::lock_guard<std::mutex> guard(state_->lock);
  dropped = std::move(place->fail);
  state_->entries.erase(place);
  if (state_->entries.empty()) state_->emptied.notify_all();
}

void Watch::fail_all(const std::string& why) {
  std::list<Fail> all;
  {
    std::lock_guard<std::mutex> guard(state_->lock);
    for (auto& one : state_->entries) all.push_back(std::exchange(one.fail, nullptr));
  }
  for (const auto& fail : all) {
    if (fail) fail(why);
  }
}

bool Watch::settle(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> guard(state_->lock);
  return state_->emptied.wait_for(guard, patience, [&] { return state_->entries.empty(); });
}

std::list<std::pair<Watch::Fail, std::string>> Watch::lost_ones(State& state) {
  std::list<std::pair<Fail, std::string>> found;
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard<std::mutex> guard(state.lock);
  for (auto& one : state.entries) {
    if (!one.fail) continue;
    const auto why = state.board->lost(one.sequence, one.peer);
    if (why.empty()) continue;
    if (one.lost_since.time_since_epoch().count() == 0) one.lost_since = now;
    if (now - one.lost_since >= kGrace) found.emplace_back(std::exchange(one.fail, nullptr), why);
  }
  return found;
}

void Watch::look(const std::shared_ptr<State>& state) {
  for (;;) {
    {
      std::unique_lock<std::mutex> guard(state->lock);
      if (state->stopped.wait_for(guard, kPeriod, [&] { return state->stop; })) return;
    }
    for (const auto& [fail, why] : lost_ones(*state)) fail(why);
  }
}

}  // namespace softnpu
