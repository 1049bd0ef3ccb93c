// The file is read once, from its end, and its lines stay as they are until somebody wants one.
#include "shell/line/history.h"

#include <emmintrin.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tycho::line {
namespace {

constexpr size_t kMostEntries = 10'000;
constexpr off_t kMostBytes = 32 << 20;

// Units of one or two bytes, so that what begins the text begins the escaped text as well.
std::string escaped(std::string_view s, bool field = false) {
  std::string out;
  out.reserve(s.size());
  for (char c : s) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\0')
      out += "\\0";
    else if (c == '\t' && field)
      out += "\\t";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out;
}

std::string unescaped(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i];
      continue;
    }
    const char c = s[++i];
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c == '0' ? '\0' : c;
  }
  return out;
}

// The fields of a line. A line that is no record is all text.
struct Fields {
  std::string_view key, directory;
  size_t text = 0;
  bool torn = false;
};

bool number(std::string_view s, size_t* at, int64_t* value) {
  const size_t from = *at;
  *value = 0;
  for (; *at < s.size() && s[*at] >= '0' && s[*at] <= '9' && *at - from < 18; ++*at)
    *value = *value * 10 + (s[*at] - '0');
  return *at > from;
}

bool expect(std::string_view s, size_t* at, char c) {
  if (*at >= s.size() || s[*at] != c) return false;
  ++*at;
  return true;
}

Fields fields_of(std::string_view s) {
  Fields f;
  size_t at = 1;
  int64_t time, process, length;
  if (s.empty() || s[0] != '@') return f;
  if (!number(s, &at, &time) || !expect(s, &at, '.') || !number(s, &at, &process)) {
    f.torn = at >= s.size();
    return f;
  }
  f.key = s.substr(1, at - 1);
  if (!expect(s, &at, ' ') || !number(s, &at, &length) || !expect(s, &at, '\t')) {
    f.torn = at >= s.size();
    return f;
  }
  const size_t tab = s.find('\t', at);
  f.torn = tab == s.npos || static_cast<int64_t>(s.size() - tab - 1) < length;
  if (f.torn) return f;
  f.directory = s.substr(at, tab - at);
  f.text = tab + 1;
  return f;
}

// Whether `part` is inside. Blocks whose bytes fit neither the first nor the last of it are gone
// over sixteen at a time: a search looks through megabytes between two keys.
bool holds(std::string_view s, std::string_view part) {
  if (part.empty()) return true;
  if (s.size() < part.size()) return false;
  const __m128i first = _mm_set1_epi8(part.front()), last = _mm_set1_epi8(part.back());
  const size_t behind = part.size() - 1;
  size_t i = 0;
  for (; i + behind + 16 <= s.size(); i += 16) {
    const auto load = [&s](size_t at) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(s.data() + at));
    };
    const __m128i both =
        _mm_and_si128(_mm_cmpeq_epi8(load(i), first), _mm_cmpeq_epi8(load(i + behind), last));
    for (int mask = _mm_movemask_epi8(both); mask != 0; mask &= mask - 1) {
      const size_t at = i + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask)));
      if (std::memcmp(s.data() + at, part.data(), part.size()) == 0) return true;
    }
  }
  return s.find(part, i) != s.npos;
}

bool is_failure(std::string_view s) {
  size_t at = 1;
  int64_t n;
  return s.size() > 1 && s[0] == '!' && number(s, &at, &n) && expect(s, &at, '.') &&
         number(s, &at, &n) && at == s.size();
}

}  // namespace

History::History(std::string file) : file_(std::move(file)) {}

std::string History::default_file() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  std::string directory = state && *state == '/' ? state
                          : home && *home        ? std::string(home) + "/.local/state"
                                                 : "";
  if (directory.empty()) return {};
  directory += "/tycho";
  for (size_t i = 1; i <= directory.size(); ++i)
    if (i == directory.size() || directory[i] == '/') mkdir(directory.substr(0, i).c_str(), 0700);
  return directory + "/history";
}

void History::load() {
  if (loaded_) return;
  loaded_ = true;
  if (file_.empty()) return;
  const int fd = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status = {};
  std::string_view rest;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    if (status.st_mode & 077) (void)!fchmod(fd, 0600);  // for its owner's eyes only
    const off_t from = std::max<off_t>(0, status.st_size - kMostBytes);
    const auto size = static_cast<size_t>(status.st_size - from);
    tail_.reset(new char[size]);  // not cleared: it is read over at once
    size_t have = 0;
    while (have < size) {
      const ssize_t n = pread(fd, &tail_[have], size - have, from + static_cast<off_t>(have));
      if (n <= 0) break;
      have += static_cast<size_t>(n);
    }
    rest = std::string_view(tail_.get(), have);
    // A cut at its beginning falls into a record.
    if (from > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  }
  close(fd);
  torn_ = !rest.empty() && rest.back() != '\n';
  while (!rest.empty() && items_.size() < kMostEntries) {
    if (rest.back() == '\n') rest.remove_suffix(1);
    const void* newline = memrchr(rest.data(), '\n', rest.size());
    const size_t begin =
        newline ? static_cast<size_t>(static_cast<const char*>(newline) - rest.data()) + 1 : 0;
    const std::string_view line = rest.substr(begin);
    rest = rest.substr(0, begin);
    if (line.empty()) continue;
    if (is_failure(line)) {
      failures_.push_back(line.substr(1));
      continue;
    }
    const Fields f = fields_of(line);
    if (!f.torn && f.text < line.size()) items_.push_back({line, static_cast<uint32_t>(f.text)});
  }
  std::reverse(items_.begin(), items_.end());
}

// One write for the whole record: what several shells append does not mix.
void History::append(const std::string& line) {
  if (file_.empty()) return;
  const std::string whole = (torn_ ? "\n" : "") + line + "\n";
  const int fd = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const ssize_t n = fd < 0 ? -1 : write(fd, whole.data(), whole.size());
  trouble_ = n < 0 ? file_ + ": " + std::strerror(errno) : "";
  if (n >= 0) torn_ = static_cast<size_t>(n) < whole.size();
  if (fd >= 0) close(fd);
}

size_t History::add(const std::string& text, bool keep) {
  load();
  if (text.empty()) return npos;
  timeval now = {};
  gettimeofday(&now, nullptr);
  char room[4096];
  const char* directory = getcwd(room, sizeof room);
  const std::string body = escaped(text);
  std::string line = "@" + std::to_string(int64_t{now.tv_sec} * 1'000'000 + now.tv_usec) + "." +
                     std::to_string(getpid()) + " " + std::to_string(body.size()) + "\t" +
                     escaped(directory ? directory : "", true) + "\t" + body;
  if (keep) append(line);
  const auto at = static_cast<uint32_t>(line.size() - body.size());
  own_.push_back(std::make_unique<std::string>(std::move(line)));
  items_.push_back({*own_.back(), at, keep});
  return items_.size() - 1;
}

void History::forget(size_t from) {
  if (from >= items_.size()) return;
  const auto begin = items_.begin() + static_cast<ptrdiff_t>(from);
  items_.erase(std::remove_if(begin, items_.end(), [](const Item& i) { return !i.kept; }),
               items_.end());
}

void History::failed(size_t position) {
  if (position >= items_.size()) return;
  const Fields f = fields_of(items_[position].line);
  if (f.key.empty() || !items_[position].kept) return;
  failures_.push_back(f.key);
  append("!" + std::string(f.key));
}

size_t History::size() {
  load();
  return items_.size();
}

std::string History::text(size_t position) {
  load();
  if (position >= items_.size()) return {};
  return unescaped(items_[position].line.substr(items_[position].text));
}

Record History::record(size_t position) {
  Record r;
  r.text = text(position);
  if (position >= items_.size()) return r;
  const Fields f = fields_of(items_[position].line);
  if (f.key.empty()) return r;
  size_t at = 0;
  number(f.key, &at, &r.time);
  r.directory = unescaped(f.directory);
  r.ok = std::find(failures_.begin(), failures_.end(), f.key) == failures_.end();
  return r;
}

bool History::has_prefix(const Item& item, std::string_view part) const {
  return item.line.substr(item.text).starts_with(part);
}

bool History::contains(const Item& item, std::string_view part, std::string_view plain) const {
  const std::string_view body = item.line.substr(item.text);
  if (!holds(body, part)) return false;
  // The second half of an escape may have been taken for a letter.
  if (memchr(body.data(), '\\', body.size()) == nullptr) return true;
  return unescaped(body).find(plain) != std::string::npos;
}

size_t History::find_prefix(std::string_view part, size_t before) {
  load();
  const std::string wanted = escaped(part);
  for (size_t i = std::min(before, items_.size()); i-- > 0;)
    if (has_prefix(items_[i], wanted)) return i;
  return npos;
}

size_t History::find_prefix_forward(std::string_view part, size_t from) {
  load();
  const std::string wanted = escaped(part);
  for (size_t i = from; i < items_.size(); ++i)
    if (has_prefix(items_[i], wanted)) return i;
  return npos;
}

size_t History::find(std::string_view part, size_t before) {
  load();
  const std::string wanted = escaped(part);
  for (size_t i = std::min(before, items_.size()); i-- > 0;)
    if (contains(items_[i], wanted, part)) return i;
  return npos;
}

size_t History::find_forward(std::string_view part, size_t from) {
  load();
  const std::string wanted = escaped(part);
  for (size_t i = from; i < items_.size(); ++i)
    if (contains(items_[i], wanted, part)) return i;
  return npos;
}

std::vector<Record> History::search(std::string_view part, size_t most) {
  std::vector<Record> out;
  for (size_t i = size(); out.size() < most && (i = find(part, i)) != npos;)
    out.push_back(record(i));
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace tycho::line
