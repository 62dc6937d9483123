#include "hccl_board.h"

#include "errors.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace softnpu {

namespace {

// A process that nobody has waited for yet has ended too.
bool has_ended(int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const auto name_end = text.rfind(") ");
  return name_end != std::string::npos && (text[name_end + 2] == 'Z' || text[name_end + 2] == 'X');
}

}  // namespace

size_t Board::bytes(int size) { return sizeof(Row) * static_cast<size_t>(size); }

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
  rows_[rank].pid.store(getpid());
}

Board::~Board() {
  if (rows_ != nullptr) ::munmap(rows_, bytes(size_));
}

std::string Board::begin(uint64_t sequence, const std::string& what) {
  if (rows_ == nullptr) return "";
  auto& own = rows_[rank_].slots[sequence % kSlots];
  const auto length = std::min(what.size(), kText - 1);
  own.sequence.store(0);
  std::memcpy(own.text, what.data(), length);
  own.text[length] = '\0';
  own.sequence.store(sequence);
  rows_[rank_].sequence.store(sequence);
  for (int rank = 0; rank < size_; ++rank) {
    const auto& other = rows_[rank].slots[sequence % kSlots];
    if (rank == rank_ || other.sequence.load() != sequence || std::strncmp(other.text, own.text, kText) == 0) continue;
    std::string text(other.text, strnlen(other.text, kText));
    if (other.sequence.load() == sequence) return "rank " + std::to_string(rank) + " calls " + text;
  }
  return "";
}

std::string Board::others(uint64_t sequence) const {
  std::string found;
  for (int rank = 0; rows_ != nullptr && rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto at = rows_[rank].sequence.load();
    const auto pid = rows_[rank].pid.load();
    const auto name = std::string(found.empty() ? " Rank " : "; rank ") + std::to_string(rank);
    const auto& slot = rows_[rank].slots[at % kSlots];
    const auto call = std::string(slot.text, strnlen(slot.text, kText));
    const auto doing = at == 0 ? std::string() : "collective " + std::to_string(at) + ", " + call;
    if (pid != 0 && has_ended(pid)) {
      found += name + " (process " + std::to_string(pid) + ") has ended" + (at == 0 ? "" : ", its last call was " + doing);
    } else if (pid != 0 && at == 0) {
      found += name + " has called nothing yet";
    } else if (at != 0 && (at != sequence || std::strncmp(slot.text, rows_[rank_].slots[at % kSlots].text, kText) != 0)) {
      found += name + " is at " + doing;
    }
  }
  return found.empty() ? found : found + ".";
}

}  // namespace softnpu
