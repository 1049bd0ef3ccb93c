// Random numbers from counters (see counted.h): blocks of four words, made in any order.
#include "engine/cpu/random/counted.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/parallel.h"

namespace tycho::cpu::counted {
namespace {

constexpr int64_t kTile = 2048, kGrain = 8192;

void put(void* y, DType dtype, int64_t i, const float* x, int64_t n) {
  level_of::random_put_f32(static_cast<void*>(static_cast<char*>(y) + i * dtype_size(dtype)), x, n,
                           static_cast<int>(dtype));
}
void put(void* y, DType dtype, int64_t i, const double* x, int64_t n) {
  level_of::random_put_f64(static_cast<void*>(static_cast<char*>(y) + i * dtype_size(dtype)), x, n,
                           static_cast<int>(dtype));
}
void put(void* y, DType dtype, int64_t i, const int64_t* x, int64_t n) {
  level_of::random_put_i64(static_cast<void*>(static_cast<char*>(y) + i * dtype_size(dtype)), x, n,
                           static_cast<int>(dtype));
}

// make(block, i, out) gives elements i to i + per - 1 of n, of which y takes those that exist.
template <class T, int64_t per, class F>
void by_blocks(PhiloxStream& g, void* y, DType dtype, int64_t n, F make) {
  const int64_t blocks = (n + per - 1) / per;
  const uint64_t key = g.initial_seed(), first = g.take(blocks);
  parallel_for(blocks, kGrain / per, [&](int64_t begin, int64_t end) {
    T tile[kTile];
    for (int64_t b = begin; b < end; b += kTile / per) {
      const int64_t m = std::min(kTile / per, end - b);
      for (int64_t k = 0; k < m; ++k)
        make(philox(key, first + static_cast<uint64_t>(b + k)), (b + k) * per, tile + k * per);
      put(y, dtype, b * per, tile, std::min(m * per, n - b * per));
    }
  });
}

// Elements that need one number in (0, 1] each: f(u), in float32 or float64.
template <class T, class F>
void from_open(PhiloxStream& g, void* y, DType dtype, int64_t n, F f) {
  constexpr int64_t per = 16 / sizeof(T);
  by_blocks<T, per>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, T* out) {
    for (int e = 0; e < per; ++e) out[e] = f(open_of(b, e, T{}));
  });
}

template <class T>
void uniform(PhiloxStream& g, void* y, DType dtype, int64_t n, T from, T to) {
  constexpr int64_t per = 16 / sizeof(T);
  const T width = to - from;
  by_blocks<T, per>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, T* out) {
    for (int e = 0; e < per; ++e) {
      const T x = std::fma(unit_of(b, e, T{}), width, from);
      out[e] = x >= to ? from : x;
    }
  });
}

// f(z) of a standard normal number z.
template <class T, class F>
void from_normal(PhiloxStream& g, void* y, DType dtype, int64_t n, F f) {
  constexpr int64_t per = 16 / sizeof(T);
  by_blocks<T, per>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, T* out) {
    for (int e = 0; e < per; e += 2) {
      const T r = std::sqrt(-2 * std::log(open_of(b, e, T{})));
      const T t = static_cast<T>(2 * M_PI) * unit_of(b, e + 1, T{});
      out[e] = f(r * std::cos(t));
      out[e + 1] = f(r * std::sin(t));
    }
  });
}

// -log(u) for u in (0, 1], above 0: a u that rounded to 1 stands for what lies half a step below.
template <class T>
T minus_log(T u) {
  constexpr T e = std::numeric_limits<T>::epsilon() / 2;
  return u >= 1 - e ? e / 2 : -std::log(u);
}

// Calls f with the type to compute in.
template <class F>
void in_lanes(DType dtype, F f) {
  dtype == DType::Float64 ? f(double{}) : f(float{});
}

}  // namespace

void uniform(PhiloxStream& g, void* y, DType dtype, int64_t n, double from, double to) {
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    uniform<T>(g, y, dtype, n, static_cast<T>(from), static_cast<T>(to));
  });
}

void normal(PhiloxStream& g, void* y, DType dtype, int64_t n, double mean, double deviation) {
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    const T m = static_cast<T>(mean), d = static_cast<T>(deviation);
    from_normal<T>(g, y, dtype, n, [&](T z) { return std::fma(z, d, m); });
  });
}

void integers(PhiloxStream& g, void* y, DType dtype, int64_t n, IntegerRange range) {
  const auto from = [&](uint64_t k) {
    return static_cast<int64_t>(static_cast<uint64_t>(range.low) + k);
  };
  if (range.count != 0 && range.count < uint64_t{1} << 28)
    return by_blocks<int64_t, 4>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, int64_t* out) {
      for (int e = 0; e < 4; ++e) out[e] = from(b.word[e] * range.count >> 32);
    });
  by_blocks<int64_t, 2>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, int64_t* out) {
    for (int e = 0; e < 2; ++e) {
      const uint64_t u = uint64_t{b.word[2 * e]} << 32 | b.word[2 * e + 1];
      __extension__ using Wide = unsigned __int128;
      out[e] = from(range.count == 0 ? u : static_cast<uint64_t>(Wide{u} * range.count >> 64));
    }
  });
}

void permutation(PhiloxStream& g, int64_t* y, int64_t n, int64_t first) {
  std::vector<std::pair<int64_t, int64_t>> keys(static_cast<size_t>(n));
  std::vector<int64_t> key(static_cast<size_t>(n));
  integers(g, key.data(), DType::Int64, n, {0, 0});
  for (int64_t i = 0; i < n; ++i)
    keys[static_cast<size_t>(i)] = {key[static_cast<size_t>(i)], first + i};
  std::sort(keys.begin(), keys.end());
  for (int64_t i = 0; i < n; ++i) y[i] = keys[static_cast<size_t>(i)].second;
}

void bernoulli(PhiloxStream& g, void* y, DType dtype, int64_t n, double p) {
  const auto limit = static_cast<uint64_t>(std::ceil(std::ldexp(p, 32)));
  by_blocks<float, 4>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t, float* out) {
    for (int e = 0; e < 4; ++e) out[e] = b.word[e] < limit;
  });
}

void bernoulli(PhiloxStream& g, void* y, DType dtype, int64_t n, const void* p, DType p_dtype) {
  by_blocks<float, 4>(g, y, dtype, n, [&](const PhiloxBlock& b, int64_t i, float* out) {
    double chance[4] = {};
    const void* from = static_cast<const char*>(p) + i * dtype_size(p_dtype);
    level_of::random_get_f64(static_cast<double*>(chance), from, std::min<int64_t>(4, n - i),
                             static_cast<int>(p_dtype));
    for (int e = 0; e < 4; ++e) out[e] = b.word[e] < std::ldexp(chance[e], 32);
  });
}

void exponential(PhiloxStream& g, void* y, DType dtype, int64_t n, double lambda) {
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    const T factor = static_cast<T>(1 / lambda);
    from_open<T>(g, y, dtype, n, [&](T u) { return minus_log(u) * factor; });
  });
}

void geometric(PhiloxStream& g, void* y, DType dtype, int64_t n, double p) {
  const double failure = std::log1p(-p);
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    const T factor = static_cast<T>(-1 / failure);
    from_open<T>(g, y, dtype, n,
                 [&](T u) { return std::max(T{1}, std::ceil(minus_log(u) * factor)); });
  });
}

void cauchy(PhiloxStream& g, void* y, DType dtype, int64_t n, double median, double sigma) {
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    constexpr T e = std::numeric_limits<T>::epsilon();
    const T m = static_cast<T>(median), s = static_cast<T>(sigma), pi = static_cast<T>(M_PI);
    from_open<T>(g, y, dtype, n,
                 [&](T u) { return m + s * std::tan(pi * (std::clamp(u, e, 1 - e) - T{0.5})); });
  });
}

void log_normal(PhiloxStream& g, void* y, DType dtype, int64_t n, double mean, double deviation) {
  in_lanes(dtype, [&](auto t) {
    using T = decltype(t);
    const T m = static_cast<T>(mean), d = static_cast<T>(deviation);
    from_normal<T>(g, y, dtype, n, [&](T z) { return std::exp(std::fma(z, d, m)); });
  });
}

}  // namespace tycho::cpu::counted
