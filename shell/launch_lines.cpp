// Cutting what ranks print into lines.
#include "shell/launch_lines.h"

#include <unistd.h>

#include <cerrno>

namespace tycho::shell {
namespace {

std::string shown;  // the bar below the lines

void write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) data.remove_prefix(static_cast<size_t>(n));
  }
}

constexpr char kClear[] = "\r\33[K";
constexpr size_t kLongest = size_t{1} << 20;  // of a line that does not end

// What stands on the line after its last return to its beginning.
std::string_view last_writing(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t at = line.rfind('\r');
  return at == std::string_view::npos ? line : line.substr(at + 1);
}

}  // namespace

void Lines::clear_bar() {
  if (!shown.empty()) write_all(STDOUT_FILENO, kClear);
  shown.clear();
}

void Lines::print(std::string_view line) {
  line = last_writing(line);
  while (line.starts_with("\33[K")) line.remove_prefix(3);
  const std::string text = prefix_ + std::string(line) + "\n";
  if (!shown.empty()) write_all(STDOUT_FILENO, kClear);
  write_all(to_, text);
  if (!shown.empty()) write_all(STDOUT_FILENO, shown);
}

void Lines::add(std::string_view data) {
  rest_ += data;
  size_t begin = 0;
  for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (bar_) clear_bar();
    print(std::string_view(rest_).substr(begin, end - begin));
  }
  rest_.erase(0, begin);
  if (bar_ && rest_.starts_with('\r')) {
    shown = "\r" + prefix_ + std::string(last_writing(rest_)) + "\33[K";
    write_all(STDOUT_FILENO, shown);
    // Only what was written last is needed for the next change.
    rest_ = "\r" + std::string(last_writing(rest_));
  }
  if (rest_.size() > kLongest) end();
}

void Lines::end() {
  if (bar_ && !shown.empty()) {
    write_all(STDOUT_FILENO, "\n");  // the bar's last state stays
    shown.clear();
  } else if (!rest_.empty()) {
    print(rest_);
  }
  rest_.clear();
}

}  // namespace tycho::shell
