// Looks after works under way while Gloo is silent.
//
// Gloo tells of a connection that closes, but not to a receive that has part of its bytes already: that waits for the timeout. And a
// group that is given up has no way to end what it began. So one thread per group looks at the board now and then.
#pragma once

#include "hccl/board.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <thread>

namespace softnpu {

class Watch {
 public:
  using Fail = std::function<void(const std::string& why)>;  // may come from another thread, once
  struct Entry {
    uint64_t sequence;  // of a collective
    int peer;           // of a transfer, else -1
    Fail fail;
    std::chrono::steady_clock::time_point lost_since{};
  };
  using Place = std::list<Entry>::iterator;

  explicit Watch(std::shared_ptr<Board> board);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Place add(Entry entry);
  void remove(Place place);                         // not before `add` has returned
  void fail_all(const std::string& why);            // everything under way
  bool settle(std::chrono::milliseconds patience);  // whether nothing is under way, at the latest after that time
  void gloo_began() { ++at_gloo_; }
  void gloo_ended() { --at_gloo_; }
  bool gloo_is_busy() const { return at_gloo_.load() > 0; }  // it still has collectives, given up or not

 private:
  struct State {
    std::shared_ptr<Board> board;
    std::mutex lock;
    std::condition_variable stopped, emptied;
    std::list<Entry> entries;
    bool stop = false;
  };
  static void look(const std::shared_ptr<State>& state);
  static std::list<std::pair<Fail, std::string>> lost_ones(State& state);

  std::shared_ptr<State> state_;  // the thread's too
  std::thread thread_;
  std::atomic<int64_t> at_gloo_{0};
};

}  // namespace softnpu
