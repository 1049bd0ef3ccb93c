// Max pooling of a few channels that lie side by side: lanes run along lines, over pixels and channels.
#pragma once
#include "engine/cpu/pool/level/max_pool.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE bool few_channels(const Pool& p) {
  return p.channels <= kFewChannels && 2 * p.channels <= Lane<T>::size;
}

template <class T>
TYCHO_INLINE int at_most(int64_t left) {
  return left < Lane<T>::size ? static_cast<int>(left) : Lane<T>::size;
}

// Moves groups of `count` elements from `from_step` to `to_step` apart, in whole lanes: what is written
// behind a group is overwritten by the next one, or lies in the room behind the last.
template <class T>
TYCHO_INLINE void move_groups(const T* from, int64_t from_step, T* to, int64_t to_step,
                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) Lane<T>::load(from + i * from_step).store(to + i * to_step);
}

// Of a few channels, which would leave most of a lane empty: maxima over rows and then over columns, lanes
// along the line for every place that a window could begin at; of those, the ones where one does.
template <class S, bool taps_wanted>
void lines_of_few_channels(const Pool& p, const S* x, S* y, TapNumbers taps, int64_t begin,
                           int64_t end, In<S>* scratch) {
  using T = In<S>;
  using L = Lane<T>;
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t channels = p.channels, length = ax.in * channels, image = pixels_of(p) * channels;
  const int64_t room = length + kPoolRoom;
  T *const best = scratch, *const at = best + room, *const all = at + room,
           *const all_at = all + room;
  const Taps window(p);
  const Inside inside(ax);
  const int64_t reach = (ax.kernel - 1) * ax.dilation * channels;
  each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t oz, int64_t oy) {
    bool begun = false;
    for (int64_t tz = az.first[oz]; tz < az.last[oz]; ++tz)
      for (int64_t ty = ay.first[oy]; ty < ay.last[oy]; ++ty) {
        const S* const row =
            x + n * image +
            ((az.start[oz] + tz * az.dilation) * ay.in + ay.start[oy] + ty * ay.dilation) * length;
        const L tap(static_cast<T>((tz * ay.kernel + ty) * ax.kernel));
        each_lane<T>(length, [&](int64_t i, int m) {
          const L v = take_n(row + i, m), b = begun ? L::load(best + i) : v;
          const auto wins = (v > b) | (v != v);
          select(wins, v, b).store(best + i);
          if (taps_wanted) (begun ? select(wins, tap, L::load(at + i)) : tap).store(at + i);
        });
        begun = true;
      }
    for (int64_t i = 0; i < length - reach; i += L::size) {
      L b = L::load(best + i), a = taps_wanted ? L::load(at + i) : L(0);
      for (int64_t t = 1; t < ax.kernel; ++t) {
        const int64_t from = i + t * ax.dilation * channels;
        const L v = L::load(best + from);
        const L tap = taps_wanted ? L::load(at + from) + L(static_cast<T>(t)) : a;
        const auto wins = taps_wanted ? comes_first(v, tap, b, a) : (v > b) | (v != v);
        b = select(wins, v, b);
        if (taps_wanted) a = select(wins, tap, a);
      }
      b.store(all + i);
      if (taps_wanted) a.store(all_at + i);
    }
    const int64_t out = line * ax.out * channels;
    if (const int64_t count = inside.end - inside.begin; count > 0) {
      const int64_t first = ax.start[inside.begin] * channels;
      const int64_t to = out + inside.begin * channels;
      move_groups(all + first, ax.stride * channels, best, channels, count);
      if (taps_wanted) move_groups(all_at + first, ax.stride * channels, at, channels, count);
      each_lane<T>(count * channels, [&](int64_t i, int m) {
        give_n(y + to + i, L::load(best + i), m);
        if (taps_wanted) store_taps(taps, to + i, L::load(at + i), m);
      });
    }
    for (int64_t ox = 0; ox < ax.out; ++ox) {
      if (ox == inside.begin && inside.begin < inside.end) ox = inside.end;
      if (ox == ax.out) break;
      const Place o{oz, oy, ox};
      channels_of<S, taps_wanted>(p, window, o, x + n * image, y, taps, out + ox * channels);
    }
  });
}

// Of few channels, where every pixel lies in one window: whole lanes again, each pixel after the one before. Nothing is
// read that was just written.
template <class S>
void spread_few_channels(const Pool& p, const S* g, TapNumbers taps, S* x, int64_t begin,
                         int64_t end) {
  using T = In<S>;
  using L = Lane<T>;
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t channels = p.channels, length = ax.in * channels, image = pixels_of(p) * channels;
  const int64_t first = begin * az.out * ay.out, last = end * az.out * ay.out,
                results = ax.out * channels;
  each_line(p, first, last, [&](int64_t line, int64_t n, int64_t oz, int64_t oy) {
    for (int64_t tz = 0; tz < az.kernel; ++tz)
      for (int64_t ty = 0; ty < ay.kernel; ++ty) {
        const int64_t row = n * image + ((az.start[oz] + tz) * ay.in + ay.start[oy] + ty) * length;
        // Rows of one slice follow each other; behind it lies one that has begun already.
        const int64_t limit = az.kernel == 1 ? end * image : row + length;
        const int64_t number = (tz * ay.kernel + ty) * ax.kernel;
        for (int64_t ox = 0; ox < ax.out; ++ox) {
          const int64_t from = line * results + ox * channels, to = row + ox * ax.kernel * channels;
          const int here = at_most<T>(last * results - from);
          const L v = take_n(g + from, here), at = load_taps<T>(taps, from, here);
          for (int64_t t = 0; t < ax.kernel; ++t) {
            const int64_t place = to + t * channels;
            give_n(x + place, select(at == L(static_cast<T>(number + t)), v, L(0)),
                   at_most<T>(limit - place));
          }
        }
      }
  });
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
