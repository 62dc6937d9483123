#include "hccl/board.h"

#include "device/errors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

namespace softnpu {

namespace {

constexpr unsigned long kExiting = 4;  // PF_EXITING of the kernel: connections close before the process is a zombie

// A process that nobody has waited for yet has ended too, and one that is about to.
bool has_ended(int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const auto name_end = text.rfind(") ");
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 2));
  char state = ' ';
  int64_t other = 0;
  unsigned long flags = 0;
  fields >> state >> other >> other >> other >> other >> other >> flags;
  return state == 'Z' || state == 'X' || (flags & kExiting) != 0;
}

std::string read(const char* text, size_t most) { return std::string(text, strnlen(text, most)); }

void write(char* place, size_t most, const std::string& text) {
  const auto length = std::min(text.size(), most - 1);
  std::memcpy(place, text.data(), length);
  place[length] = '\0';
}

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

size_t Board::bytes(int size) {
  const auto ranks = static_cast<size_t>(size);
  return ranks * sizeof(Row) + ranks * kSlots * 2 * ranks * sizeof(int64_t) + ranks * ranks * 2 * kTransfers * sizeof(Slot);
}

void Board::open(const std::string& path, int rank, int size) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* memory = file < 0 ? MAP_FAILED : ::mmap(nullptr, bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int problem = errno;
  if (file >= 0) ::close(file);
  TORCH_CHECK(memory != MAP_FAILED, "HCCL: the board of the group at ", path, " cannot be mapped: ", std::strerror(problem),
              dist_error(ErrCode::kUnavailable));
  rows_ = static_cast<Row*>(memory);  // a new file is zeros, which is what an empty board is
  rank_ = rank;
  size_ = size;
  sizes_ = reinterpret_cast<int64_t*>(rows_ + size);
  transfers_ = reinterpret_cast<Slot*>(sizes_ + static_cast<size_t>(size) * kSlots * 2 * size);
  rows_[rank].pid.store(getpid());
}

Board::~Board() {
  if (rows_ != nullptr) ::munmap(rows_, bytes(size_));
}

uint64_t Board::own() const { return rows_ == nullptr ? 0 : rows_[rank_].sequence.load(); }

int64_t* Board::sizes_of(int rank, uint64_t sequence) const {
  return sizes_ + (static_cast<size_t>(rank) * kSlots + sequence % kSlots) * 2 * size_;
}

Board::Slot& Board::transfer_of(int writer, bool send, int peer, uint64_t key) const {
  return transfers_[((static_cast<size_t>(writer) * size_ + peer) * 2 + (send ? 1 : 0)) * kTransfers + key % kTransfers];
}

std::string Board::compare_sizes(int other, uint64_t sequence) const {
  const auto* own = sizes_of(rank_, sequence);
  const auto* theirs = sizes_of(other, sequence);
  if (own[other] != theirs[size_ + rank_]) {
    return c10::str(name_of(rank_), " sends ", own[other], " bytes to ", name_of(other), ", which expects ", theirs[size_ + rank_]);
  }
  if (own[size_ + other] == theirs[rank_]) return "";
  return c10::str(name_of(rank_), " expects ", own[size_ + other], " bytes from ", name_of(other), ", which sends ", theirs[rank_]);
}

std::string Board::begin(uint64_t sequence, const Step& step) {
  if (rows_ == nullptr) return "";
  auto& own = rows_[rank_].slots[sequence % kSlots];
  own.sequence.store(0);
  own.whole = std::hash<std::string>()(step.text);
  write(own.text, kText, step.text);
  std::copy(step.sends.begin(), step.sends.end(), sizes_of(rank_, sequence));
  std::copy(step.receives.begin(), step.receives.end(), sizes_of(rank_, sequence) + size_);
  own.sequence.store(sequence);
  rows_[rank_].sequence.store(sequence);
  for (int rank = 0; rank < size_; ++rank) {
    const auto& other = rows_[rank].slots[sequence % kSlots];
    if (rank == rank_ || other.sequence.load() != sequence) continue;
    std::string found;
    if (other.whole != own.whole) {
      found = name_of(rank_) + " calls " + step.text + ", " + name_of(rank) + " calls " + read(other.text, kText);
    } else if (!step.sends.empty()) {
      found = compare_sizes(rank, sequence);
    }
    if (!found.empty() && other.sequence.load() == sequence) return found;
  }
  return "";
}

void Board::finished() {
  if (rows_ != nullptr) ++rows_[rank_].finished;
}

std::string Board::begin_transfer(bool send, int peer, int tag, const std::string& text) {
  if (rows_ == nullptr) return "";
  uint64_t key = 0;  // the same at both ends, and 0 for none
  {
    std::lock_guard<std::mutex> guard(lock_);
    const auto number = ++numbers_[{send, peer, tag}];
    key = (static_cast<uint64_t>(static_cast<uint32_t>(tag)) << 32) + number;
  }
  auto& own = transfer_of(rank_, send, peer, key);
  own.sequence.store(0);
  own.whole = std::hash<std::string>()(text);
  write(own.text, kText, text);
  own.sequence.store(key);
  const auto& other = transfer_of(peer, !send, rank_, key);
  if (other.sequence.load() != key || other.whole == own.whole) return "";
  const auto theirs = read(other.text, kText);
  if (other.sequence.load() != key) return "";
  return c10::str(name_of(rank_), send ? " sends " : " receives ", text, ", ", name_of(peer), send ? " receives " : " sends ", theirs);
}

void Board::leave(const std::string& reason) {
  if (rows_ == nullptr || rows_[rank_].left.load()) return;
  write(rows_[rank_].reason, kReason, reason);
  rows_[rank_].left.store(true);
}

int Board::also_uses(int device) {
  if (rows_ == nullptr) return -1;
  rows_[rank_].device.store(device + 1);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && rows_[rank].device.load() == device + 1) return rank;
  }
  return -1;
}

// "has ended", "has left the group: ..." or "".
std::string Board::state_of(int rank) const {
  const auto& row = rows_[rank];
  if (row.left.load()) return "has left the group: " + read(row.reason, kReason);
  const auto pid = row.pid.load();
  return pid != 0 && has_ended(pid) ? c10::str("(process ", pid, ") has ended") : std::string();
}

std::string Board::lost(uint64_t sequence, int peer) const {
  for (int rank = 0; rows_ != nullptr && rank < size_; ++rank) {
    if (rank == rank_ || (peer >= 0 ? rank != peer : rows_[rank].finished.load() >= sequence)) continue;
    const auto state = state_of(rank);
    if (!state.empty()) return name_of(rank) + " " + state;
  }
  return "";
}

bool Board::has_lost_one() const {
  for (int rank = 0; rows_ != nullptr && rank < size_; ++rank) {
    if (rank != rank_ && !state_of(rank).empty()) return true;
  }
  return false;
}

std::string Board::others(uint64_t sequence) const {
  std::string found;
  for (int rank = 0; rows_ != nullptr && rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto at = rows_[rank].sequence.load();
    const auto name = (found.empty() ? " Rank " : "; rank ") + std::to_string(rank);
    const auto& slot = rows_[rank].slots[at % kSlots];
    const auto doing = at == 0 ? std::string() : "collective " + std::to_string(at) + ", " + read(slot.text, kText);
    const auto state = state_of(rank);
    if (!state.empty()) {
      found += name + " " + state + (at == 0 || rows_[rank].left.load() ? "" : ", its last call was " + doing);
    } else if (rows_[rank].pid.load() != 0 && at == 0) {
      found += name + " has called nothing yet";
    } else if (at != 0 && (at != sequence || slot.whole != rows_[rank_].slots[at % kSlots].whole)) {
      found += name + " is at " + doing;
    }
  }
  return found.empty() ? found : found + ".";
}

}  // namespace softnpu
