// What each rank of a group does at the moment, in memory that the processes of one host share.
//
// Gloo ends the process when two ranks bring different sizes to one collective and waits for the timeout when they bring different
// collectives. So a rank writes down what it is about to do and reads what the others have written, before it sends anything: of two
// ranks that differ the later one sees it. Nobody waits for anybody. After a failure the board tells who has ended and who is elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace softnpu {

// One collective as the others see it. All of it must be the same on all ranks but the sizes, of which rank a's `sends[b]` must be
// rank b's `receives[a]`; without them there is nothing to compare.
struct Step {
  std::string text;
  std::vector<int64_t> sends, receives;
};

class Board {
 public:
  Board() = default;
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  static size_t bytes(int size);
  void open(const std::string& path, int rank, int size);  // raises when the file cannot be mapped
  bool is_open() const { return rows_ != nullptr; }
  // Collective number `sequence` begins here; what the first rank does that does something else under that number, or "".
  std::string begin(uint64_t sequence, const Step& step);
  void finished();  // one more of this rank's collectives
  // A send to `peer` or a receive from it begins here; what the peer does at its end of the same transfer if that differs, or "".
  std::string begin_transfer(bool send, int peer, int tag, const std::string& text);
  // This rank has left the group; the reason is what waiting ranks will say.
  void leave(const std::string& reason);
  // Another rank that uses the same device as this one does from now on, or -1.
  int also_uses(int device);
  // Why collective `sequence`, or a transfer with `peer` (-1: none), will never end: a rank has ended or left before. "" if it may.
  std::string lost(uint64_t sequence, int peer) const;
  // For an error message: ranks that have ended or left, ranks that are not at `sequence`.
  std::string others(uint64_t sequence) const;
  bool has_lost_one() const;  // a rank has ended or left
  uint64_t own() const;

 private:
  static constexpr size_t kSlots = 64;  // as many collectives as a rank may be ahead of another and still be compared
  static constexpr size_t kTransfers = 16;
  static constexpr size_t kText = 88;
  static constexpr size_t kReason = 320;
  struct Slot {
    std::atomic<uint64_t> sequence;  // 0 while it is written
    uint64_t whole;                  // of the text, which may be longer than its place
    char text[kText];
  };
  struct Row {
    std::atomic<int32_t> pid, device;  // the device and one
    std::atomic<uint64_t> sequence, finished;
    std::atomic<bool> left;
    char reason[kReason];
    Slot slots[kSlots];
  };

  int64_t* sizes_of(int rank, uint64_t sequence) const;  // what it sends to each rank, then what it receives
  Slot& transfer_of(int writer, bool send, int peer, uint64_t key) const;
  std::string compare_sizes(int other, uint64_t sequence) const;
  std::string state_of(int rank) const;

  Row* rows_ = nullptr;
  int64_t* sizes_ = nullptr;
  Slot* transfers_ = nullptr;
  int rank_ = 0, size_ = 0;
  std::mutex lock_;
  std::map<std::tuple<bool, int, int>, uint64_t> numbers_;  // of transfers, by direction, peer and tag
};

}  // namespace softnpu
