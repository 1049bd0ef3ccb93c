// Reading files into tensors (see input.h).
#include "engine/io/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/io/crc32.h"

namespace tycho::io {
namespace {

constexpr size_t kSmall = size_t{1} << 20;     // the least that is worth a mapping
constexpr size_t kSumPiece = size_t{1} << 20;  // stays in the cache for its sum

size_t pieces_of(size_t bytes) { return (bytes + kSumPiece - 1) / kSumPiece; }

}  // namespace

Input::Input(const std::string& path, bool may_map) : path_(path) {
  struct stat s;
  const auto large = [&] { return S_ISREG(s.st_mode) && static_cast<size_t>(s.st_size) >= kSmall; };
  // A pipe must not be opened twice.
  if (may_map && ::stat(path.c_str(), &s) == 0 && large()) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd_ >= 0 && ::fstat(fd_, &s) == 0 && large())
      mapping_ = Mapping::make(fd_, static_cast<size_t>(s.st_size), path);
  }
  if (mapping_) {
    bytes_ = mapping_->bytes();
    return;
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  memory_ = read_file(path);
  bytes_ = memory_;
}

Input::~Input() {
  if (fd_ >= 0) ::close(fd_);
}

// Reading a mapped file in place would make a page table for all of it; the system copies it
// without.
void Input::copy_piece(std::string_view part, char* to) const {
  if (!mapping_) {
    std::memcpy(to, part.data(), part.size());
    return;
  }
  auto at = static_cast<off_t>(part.data() - bytes_.data());
  for (size_t left = part.size(); left > 0;) {
    const ssize_t n = ::pread(fd_, to, left, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Kind::Io, "cannot read " + path_ + ": " + std::strerror(errno));
    if (n == 0) fail(Kind::Io, path_ + " became shorter while it was read");
    to += n;
    at += n;
    left -= static_cast<size_t>(n);
  }
}

void Input::copy(std::string_view part, void* to) const {
  parallel_for(static_cast<int64_t>(pieces_of(part.size())), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      copy_piece(part.substr(i * kSumPiece, kSumPiece), static_cast<char*>(to) + i * kSumPiece);
  });
}

uint32_t Input::copy_summed(std::string_view part, void* to) const {
  std::vector<uint32_t> sums(pieces_of(part.size()));
  parallel_for(static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::string_view piece = part.substr(i * kSumPiece, kSumPiece);
      char* const place = static_cast<char*>(to) + i * kSumPiece;
      copy_piece(piece, place);
      sums[i] = crc32({place, piece.size()});
    }
  });
  uint32_t sum = 0;
  for (size_t i = 0; i < sums.size(); ++i)
    sum = crc32_joined(sum, sums[i], std::min(kSumPiece, part.size() - i * kSumPiece));
  return sum;
}

bool Input::can_view(std::string_view part, size_t align) const {
  return align > 0 && mapping_ && !part.empty() &&
         reinterpret_cast<uintptr_t>(part.data()) % align == 0;
}

Tensor Input::read(std::string_view part, size_t align) const {
  if (can_view(part, align)) return view(part);
  Tensor t = empty(Sizes{static_cast<int64_t>(part.size())}, DType::UInt8);
  copy(part, t.host());
  return t;
}

}  // namespace tycho::io
