// Cutting bytes into frames.
#include "engine/dist/wire.h"

#include <sys/socket.h>

namespace tycho::dist {

ssize_t Inbox::read_from(int fd) {
  char room[16384];
  const ssize_t n = recv(fd, room, sizeof room, MSG_DONTWAIT);
  if (n > 0) {
    if (begin_ > 0 && begin_ == data_.size()) data_.clear(), begin_ = 0;
    data_.append(room, static_cast<size_t>(n));
  }
  return n;
}

std::optional<Frame> Inbox::next() {
  const std::string_view rest = std::string_view(data_).substr(begin_);
  if (rest.size() < 4) {
    // What is left is less than a frame's head: move it to the front, so that the buffer is small.
    data_.erase(0, begin_);
    begin_ = 0;
    return std::nullopt;
  }
  uint32_t n;
  std::memcpy(&n, rest.data(), 4);
  if (n < 1 || n > most) throw BadFrame{};
  if (rest.size() - 4 < n) {
    data_.erase(0, begin_);
    begin_ = 0;
    return std::nullopt;
  }
  begin_ += 4 + n;
  return Frame{static_cast<Msg>(rest[4]), rest.substr(5, n - 1)};
}

}  // namespace tycho::dist
