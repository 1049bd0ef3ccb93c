// Numbers as text; see the header.
#include "bindings/show/show_numbers.h"

namespace tycho::lua {

int significant() { return print_options.precision < 0 ? 3 : std::max(1, print_options.precision); }

std::string float_text(double x, const Format& f) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "+inf" : "-inf";
  char room[700];
  if (f.kind == Format::Exponent && x != 0)
    std::snprintf(room, sizeof room, "%.*e", f.decimals, x);
  else
    std::snprintf(room, sizeof room, "%.*f", f.kind == Format::Fixed ? f.decimals : 0, x);
  return room;
}

int spare_zeros(const std::string& s) {
  const size_t point = s.find('.');
  if (point == s.npos) return 0;
  const size_t end = std::min(s.find('e'), s.size());
  int n = 0;
  while (s[end - 1 - n] == '0') ++n;
  return n;
}
std::string without_zeros(std::string s, int n) {
  const size_t end = std::min(s.find('e'), s.size());
  if (n == 0) return s;
  const size_t from = end - n - (s[end - n - 1] == '.');
  return s.erase(from, end - from);
}

std::string number_text(double x, int digits, bool fraction) {
  Chooser c;
  c.see(x);
  const std::string s = float_text(x, c.choose(digits, !fraction));
  return without_zeros(s, spare_zeros(s));
}

std::string count_text(int64_t n) {
  std::string s = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(s.size()) - 3; at > (n < 0); at -= 3)
    s.insert(s.begin() + at, ',');
  return s;
}

std::string bytes_text(int64_t n) {
  char room[32];
  const double x = static_cast<double>(n);
  if (n < 1000000)
    std::snprintf(room, sizeof room, "%.0f kB", x / 1e3);
  else if (n < 1000000000)
    std::snprintf(room, sizeof room, "%.1f MB", x / 1e6);
  else
    std::snprintf(room, sizeof room, "%.2f GB", x / 1e9);
  return room;
}

}  // namespace tycho::lua
