// What the ways of max pooling share: lanes of any type in memory, a window's taps, which of two wins.
#pragma once
#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/pool/level/pool.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Lanes of what lies in memory as S, or their first n elements.
template <class S>
TYCHO_INLINE Lane<In<S>> take_n(const S* p, int n) {
  if constexpr (sizeof(S) == 2)
    return n == Lane<float>::size ? get(p) : get_some(p, n, S(0));
  else
    return load_n(p, n);
}
template <class S>
TYCHO_INLINE void give_n(S* p, Lane<In<S>> x, int n) {
  if constexpr (sizeof(S) == 2)
    n == Lane<float>::size ? put(x, p) : put_some(x, p, n);
  else
    store_n(p, x, n);
}

// A window's taps as offsets from its corner, in pixels, where they are few.
struct Taps {
  static constexpr int64_t kMost = 64;
  int64_t count, offset[kMost];
  bool few;
  explicit Taps(const Pool& p) {
    const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
    count = az.kernel * ay.kernel * ax.kernel;
    few = count <= kMost;
    for (int64_t t = 0; few && t < count; ++t) {
      const int64_t tx = t % ax.kernel, rest = t / ax.kernel;
      const int64_t ty = rest % ay.kernel, tz = rest / ay.kernel;
      offset[t] = (tz * az.dilation * ay.in + ty * ay.dilation) * ax.in + tx * ax.dilation;
    }
  }
  // Calls f(pixel, tap) for the taps of a window inside the image, in scan order.
  template <class F>
  TYCHO_INLINE void each(const Pool& p, const Place& o, F&& f) const {
    const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
    if (few && whole(az, o.z) && whole(ay, o.y) && whole(ax, o.x)) {
      const int64_t corner = (az.start[o.z] * ay.in + ay.start[o.y]) * ax.in + ax.start[o.x];
      for (int64_t t = 0; t < count; ++t) f(corner + offset[t], t);
    } else {
      each_tap(p, o, f);
    }
  }

 private:
  TYCHO_INLINE static bool whole(const PoolAxis& a, int64_t o) {
    return a.first[o] == 0 && a.last[o] == a.kernel;
  }
};

// All channels of one result pixel, the first of which is y[out].
template <class S, bool taps_wanted>
TYCHO_INLINE void channels_of(const Pool& p, const Taps& window, const Place& o, const S* image,
                              S* y, TapNumbers taps, int64_t out) {
  using T = In<S>;
  using L = Lane<T>;
  each_lane<T>(p.channels, [&](int64_t c, int m) {
    const S* from = image + c;
    L best(0), at(0);
    bool begun = false;
    window.each(p, o, [&](int64_t pixel, int64_t tap) {
      const L v = take_n(from + pixel * p.channels, m);
      if (!begun) {
        best = v;
        at = L(static_cast<T>(tap));
        begun = true;
        return;
      }
      const auto wins = (v > best) | (v != v);
      best = select(wins, v, best);
      if (taps_wanted) at = select(wins, L(static_cast<T>(tap)), at);
    });
    give_n(y + out + c, best, m);
    if (taps_wanted) store_taps(taps, out + c, at, m);
  });
}

// Whether (v, tap) comes before (best, at): of equal maxima the earlier tap, of several nan the later.
template <class V>
TYCHO_INLINE auto comes_first(V v, V tap, V best, V at) {
  const auto nan = v != v, old_nan = best != best;
  return (nan & (~old_nan | (tap > at))) | (~old_nan & ((v > best) | ((v == best) & (tap < at))));
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
