// Average pooling: lanes over channels, or along the lines of planes.
#include "engine/cpu/pool/level/pool.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE Lane<T> quotient(Lane<T> a, Lane<T> b) {
  if constexpr (Lane<T>::integral) {  // divisors are never 0
    T x[Lane<T>::size], y[Lane<T>::size];
    a.store(x);
    b.store(y);
    for (int i = 0; i < Lane<T>::size; ++i) x[i] = y[i] == -1 ? T(0) - x[i] : x[i] / y[i];
    return Lane<T>::load(x);
  } else {
    return a / b;
  }
}

// Single numbers; integers wrap.
template <class T>
TYCHO_INLINE T plus(T a, T b) {
  if constexpr (Lane<T>::integral)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

// The sum of n neighbours, in the parts of a lane.
template <class T>
TYCHO_INLINE Lane<T> sum_of(const T* p, int64_t n) {
  using L = Lane<T>;
  L sum[2] = {L(0), L(0)};
  int64_t i = 0;
  for (; i + 2 * L::size <= n; i += 2 * L::size) {
    sum[0] += L::load(p + i);
    sum[1] += L::load(p + i + L::size);
  }
  each_lane<T>(n - i, [&](int64_t j, int m) { sum[0] += load_n(p + i + j, m); });
  return sum[0] + sum[1];
}

template <class T>
void lines_of_channels(const Pool& p, const T* x, T* y, int64_t begin, int64_t end) {
  using L = Lane<T>;
  const int64_t width = p.axis[2].out, image = pixels_of(p) * p.channels;
  each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t z, int64_t row) {
    for (int64_t ox = 0; ox < width; ++ox) {
      const Place o{z, row, ox};
      const L by(divisor_of<T>(p, o));
      each_lane<T>(p.channels, [&](int64_t c, int m) {
        const T* from = x + n * image + c;
        L sum(0);
        each_tap(p, o,
                 [&](int64_t pixel, int64_t) { sum += load_n(from + pixel * p.channels, m); });
        store_n(y + (line * width + ox) * p.channels + c, quotient(sum, by), m);
      });
    }
  });
}

constexpr int64_t kFewTaps = 24;

template <class T>
void lines_of_planes(const Pool& p, const T* x, T* y, int64_t begin, int64_t end, T* scratch) {
  using L = Lane<T>;
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t plane = pixels_of(p);
  const Inside inside(ax);
  // Wide windows that hardly overlap and do not fill lanes are summed by themselves.
  int64_t seen = 0;
  for (int64_t o = 0; o < ax.out; ++o) seen += ax.last[o] - ax.first[o];
  const bool apart =
      (inside.begin >= inside.end ? seen >= L::size * ax.out : ax.stride > L::size) &&
      seen <= 2 * ax.in;
  // Single short lines are read where they lie: lanes would be mostly empty.
  const bool few = !L::integral && ax.kernel <= L::size && ax.out * ax.kernel <= kFewTaps;
  const auto row_at = [&](int64_t n, int64_t oz, int64_t oy, int64_t tz, int64_t ty) {
    return x + n * plane + ((az.start[oz] + tz) * ay.in + ay.start[oy] + ty) * ax.in;
  };
  const auto write = [&](int64_t line, const Place& o, L sum) {
    y[line * ax.out + o.x] = quotient(L(total(sum)), L(divisor_of<T>(p, o))).v[0];
  };
  const auto single = [&](const T* row, int64_t line, const Place& o) {
    const T* const from = row + ax.start[o.x] + ax.first[o.x];
    const int64_t n = ax.last[o.x] - ax.first[o.x];
    if constexpr (!L::integral)
      if (n <= L::size) {  // lanes would be mostly empty
        T sum = n > 0 ? from[0] : T(0);
        for (int64_t i = 1; i < n; ++i) sum += from[i];
        y[line * ax.out + o.x] =
            sum /
            static_cast<T>(p.divisor ? p.divisor : az.count[o.z] * ay.count[o.y] * ax.count[o.x]);
        return;
      }
    write(line, o, sum_of(from, n));
  };
  if (few && az.kernel * ay.kernel == 1) {
    each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t oz, int64_t oy) {
      const T* const row = row_at(n, oz, oy, az.first[oz], ay.first[oy]);
      for (int64_t ox = 0; ox < ax.out; ++ox) single(row, line, {oz, oy, ox});
    });
    return;
  }
  if (apart) {
    each_line(p, begin, end, [&](int64_t line, int64_t n, int64_t oz, int64_t oy) {
      const int64_t rows = ay.last[oy] - ay.first[oy];
      for (int64_t ox = 0; ox < ax.out; ++ox) {
        const int64_t first = ax.start[ox] + ax.first[ox], width = ax.last[ox] - ax.first[ox];
        const bool joined = width == ax.in;  // its rows follow each other
        L sum(0);
        for (int64_t tz = az.first[oz]; tz < az.last[oz]; ++tz) {
          const T* row = row_at(n, oz, oy, tz, ay.first[oy]) + first;
          for (int64_t ty = joined ? rows - 1 : 0; ty < rows; ++ty, row += ax.in)
            sum += sum_of(row, joined ? rows * width : width);
        }
        write(line, {oz, oy, ox}, sum);
      }
    });
    return;
  }
  // Rows are added up for the windows of the line that lie inside.
  const auto add_up = [&](int64_t k, int64_t n, int64_t oz, int64_t oy) {
    T* const sums = scratch + k * (ax.in + kPoolRoom);
    each_lane<T>(ax.in, [&](int64_t i, int m) {
      L sum(0);
      for (int64_t tz = az.first[oz]; tz < az.last[oz]; ++tz) {
        const T* row = row_at(n, oz, oy, tz, ay.first[oy]) + i;
        for (int64_t ty = ay.first[oy]; ty < ay.last[oy]; ++ty, row += ax.in) sum += load_n(row, m);
      }
      sum.store(sums + i);
    });
  };
  each_line_twice(p, begin, end, add_up, [&](int64_t k, int64_t line, int64_t oz, int64_t oy) {
    const T* const sums = scratch + k * (ax.in + kPoolRoom);
    const auto lanes = [&](int64_t ox, int m) {
      const T* const from = sums + ax.start[ox];
      L s(0);
      for (int64_t t = 0; t < ax.kernel; ++t) s += spaced(from + t, ax.stride);
      store_n(y + line * ax.out + ox, quotient(s, L(divisor_of<T>(p, {oz, oy, ox}))), m);
    };
    each_result<T>(ax, inside, lanes, [&](int64_t ox) { single(sums, line, {oz, oy, ox}); });
  });
}

// to[i] += v[i] for i < n.
template <class T, class F>
TYCHO_INLINE void add_to(T* to, int64_t n, F&& v) {
  each_lane<T>(n, [&](int64_t i, int m) { store_n(to + i, load_n<T>(to + i, m) + v(i, m), m); });
}

// Planes: what a line of windows gives its pixels along the last dimension is found once, in `scratch`, and goes to
// every row of those windows.
template <class T>
void spread_planes(const Pool& p, const T* g, T* x, int64_t begin, int64_t end, T* scratch) {
  using L = Lane<T>;
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t lines = az.out * ay.out, plane = pixels_of(p);
  // Planes whose pixels all lie in one window are written, others are added to.
  bool written = p.apart;
  for (const PoolAxis& a : p.axis) {
    int64_t inside = 0;
    for (int64_t o = 0; o < a.out; ++o) inside += a.last[o] - a.first[o];
    written = written && inside == a.in;
  }
  if (!written) memset(x + begin * plane, 0, (end - begin) * plane * sizeof(T));
  T* const values = scratch + ax.in;
  const Inside inside(ax);
  const auto one = [&](T* to, int64_t ox, T v) {
    to += ax.start[ox] + ax.first[ox];
    const int64_t n = ax.last[ox] - ax.first[ox];
    if (n > 8) return add_to(to, n, [&](int64_t, int) { return L(v); });
    for (int64_t i = 0; i < n; ++i) to[i] = plus(to[i], v);
  };
  each_line(p, begin * lines, end * lines, [&](int64_t line, int64_t n, int64_t oz, int64_t oy) {
    const T* const from = g + line * ax.out;
    if (inside.end > inside.begin) {
      const L by(divisor_of<T>(p, {oz, oy, inside.begin}));
      each_lane<T>(inside.end - inside.begin, [&](int64_t i, int m) {
        i += inside.begin;
        store_n(values + i, quotient(load_n(from + i, m), by), m);
      });
    }
    const auto outside = [&](int64_t ox) {
      return quotient(L(from[ox]), L(divisor_of<T>(p, {oz, oy, ox}))).v[0];
    };
    const auto row_at = [&](int64_t tz, int64_t ty) {
      return x + n * plane + ((az.start[oz] + tz) * ay.in + ay.start[oy] + ty) * ax.in;
    };
    const bool alone = az.last[oz] - az.first[oz] == 1 && ay.last[oy] - ay.first[oy] == 1;
    T* const to = alone ? row_at(az.first[oz], ay.first[oy]) : scratch;
    if (!alone || written) memset(to, 0, ax.in * sizeof(T));
    for (int64_t ox = 0; ox < ax.out; ++ox) {
      if (ox != inside.begin || inside.begin >= inside.end) {
        one(to, ox, outside(ox));
        continue;
      }
      ox = inside.end - 1;
      T* const first = to + ax.start[inside.begin];
      const T* const v = values + inside.begin;
      if (ax.stride == 1)
        for (int64_t t = 0; t < ax.kernel; ++t)
          add_to(first + t, inside.end - inside.begin,
                 [&](int64_t i, int m) { return load_n(v + i, m); });
      else
        for (int64_t i = inside.begin; i < inside.end; ++i) one(to, i, values[i]);
    }
    for (int64_t tz = az.first[oz]; !alone && tz < az.last[oz]; ++tz)
      for (int64_t ty = ay.first[oy]; ty < ay.last[oy]; ++ty) {
        T* const row = row_at(tz, ty);
        if (written)
          memcpy(row, scratch, ax.in * sizeof(T));
        else
          add_to(row, ax.in, [&](int64_t i, int m) { return load_n(scratch + i, m); });
      }
  });
}

template <class T>
void spread_channels(const Pool& p, const T* g, T* x, int64_t begin, int64_t end) {
  const int64_t lines = p.axis[0].out * p.axis[1].out, width = p.axis[2].out;
  const int64_t image = pixels_of(p) * p.channels;
  memset(x + begin * image, 0, (end - begin) * image * sizeof(T));
  each_line(p, begin * lines, end * lines, [&](int64_t line, int64_t n, int64_t z, int64_t row) {
    for (int64_t ox = 0; ox < width; ++ox) {
      const Place o{z, row, ox};
      const Lane<T> by(divisor_of<T>(p, o));
      const T* from = g + (line * width + ox) * p.channels;
      T* to = x + n * image;
      each_lane<T>(p.channels, [&](int64_t c, int m) {
        const Lane<T> v = quotient(load_n(from + c, m), by);
        each_tap(p, o, [&](int64_t pixel, int64_t) {
          T* place = to + pixel * p.channels + c;
          store_n(place, load_n<T>(place, m) + v, m);
        });
      });
    }
  });
}

template <class F>
TYCHO_INLINE void by_type(int type, F&& f) {
  type == 0 ? f(0.f) : type == 1 ? f(0.0) : f(int64_t{0});
}

}  // namespace

void avg_pool_lines(int type, const Pool* p, const void* x, void* y, int64_t begin, int64_t end,
                    void* scratch) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (p->channels > 1)
      lines_of_channels(*p, from, to, begin, end);
    else
      lines_of_planes(*p, from, to, begin, end, static_cast<T*>(scratch));
  });
}

void avg_pool_spread(int type, const Pool* p, const void* g, void* x, int64_t begin, int64_t end,
                     void* scratch) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(g);
    T* to = static_cast<T*>(x);
    if (p->channels > 1)
      spread_channels(*p, from, to, begin, end);
    else
      spread_planes(*p, from, to, begin, end, static_cast<T*>(scratch));
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
