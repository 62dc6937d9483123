// What each rank of a group does at the moment, in memory that the processes of one host share.
//
// Gloo ends the process when two ranks bring different sizes to one collective and waits for the timeout when they bring different
// collectives. So a rank writes down what it is about to do and reads what the others have written, before it sends anything: of two
// ranks that differ the later one sees it. Nobody waits for anybody. After a failure the board tells who has ended and who is elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace softnpu {

class Board {
 public:
  Board() = default;
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  static size_t bytes(int size);
  void open(const std::string& path, int rank, int size);  // raises when the file cannot be mapped
  bool is_open() const { return rows_ != nullptr; }
  // Collective number `sequence` begins here; the text of the first rank that does something else under that number, or "".
  std::string begin(uint64_t sequence, const std::string& what);
  // For an error message: ranks that have ended, ranks that are not at `sequence`.
  std::string others(uint64_t sequence) const;
  uint64_t own() const { return rows_ == nullptr ? 0 : rows_[rank_].sequence.load(); }

 private:
  static constexpr size_t kSlots = 64;  // as many collectives as a rank may be ahead of another and still be compared
  static constexpr size_t kText = 88;
  struct Slot {
    std::atomic<uint64_t> sequence;
    char text[kText];
  };
  struct Row {
    std::atomic<int32_t> pid;
    std::atomic<uint64_t> sequence;
    Slot slots[kSlots];
  };

  Row* rows_ = nullptr;
  int rank_ = 0, size_ = 0;
};

}  // namespace softnpu
