// Shapes: text, element counts, strides, broadcasting.
#include "engine/tensor/sizes.h"

namespace tycho {

std::string to_string(const Sizes& s) {
  std::string text = "[";
  for (int i = 0; i < s.n; ++i) text += (i ? ", " : "") + std::to_string(s[i]);
  return text + "]";
}

int64_t product(const Sizes& s) {
  int64_t n = 1;
  bool zero = false, overflow = false;
  for (int64_t x : s) {
    zero = zero || x == 0;
    overflow = overflow || __builtin_mul_overflow(n, x, &n);
  }
  if (zero) return 0;
  TYCHO_CHECK(Kind::Shape, !overflow && n < (int64_t{1} << 58), "a tensor of shape %s is too large",
              to_string(s).c_str());
  return n;
}

Sizes row_major(const Sizes& shape) {
  Sizes stride;
  stride.n = shape.n;
  int64_t step = 1;
  for (int i = shape.n - 1; i >= 0; --i) {
    stride.v[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
  return stride;
}

Sizes broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.n >= b.n ? a : b;
  const Sizes& shorter = a.n >= b.n ? b : a;
  Sizes out = longer;
  const int lead = longer.n - shorter.n;
  for (int i = 0; i < shorter.n; ++i) {
    const int64_t x = longer[lead + i], y = shorter[i];
    if (x == y || y == 1) continue;
    if (x != 1)
      fail(Kind::Broadcast,
           format("shapes %s and %s do not broadcast: dimension %d is %lld against %lld",
                  to_string(a).c_str(), to_string(b).c_str(), lead + i + 1,
                  static_cast<long long>(&longer == &a ? x : y),
                  static_cast<long long>(&longer == &a ? y : x)));
    out[lead + i] = y;
  }
  return out;
}

}  // namespace tycho
