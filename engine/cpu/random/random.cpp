// Random numbers element by element (see random.h). All of them work through a tile at a time:
// outputs of the generator, numbers made of them, and a store that rounds to the dtype.
#include "engine/cpu/random/random.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/check.h"
#include "engine/base/gamma.h"
#include "engine/base/interrupt.h"
#include "engine/base/poisson.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/random/counted.h"
#include "engine/ops/elementwise/elementwise.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kTile = 2048;  // a multiple of 16

template <class F>
void each_tile(int64_t n, F f) {
  for (int64_t i = 0; i < n; i += kTile) {
    check_interrupt();
    f(i, n - i < kTile ? n - i : kTile);
  }
}

// Address of element i of y.
char* at(void* y, DType dtype, int64_t i) { return static_cast<char*>(y) + i * dtype_size(dtype); }

void put(void* y, DType dtype, int64_t i, const float* x, int64_t n) {
  level_of::random_put_f32(static_cast<void*>(at(y, dtype, i)), x, n, static_cast<int>(dtype));
}
void put(void* y, DType dtype, int64_t i, const double* x, int64_t n) {
  level_of::random_put_f64(static_cast<void*>(at(y, dtype, i)), x, n, static_cast<int>(dtype));
}

void draw_f(Generator& g, float* y, int64_t n) {  // n <= kTile
  uint32_t u[kTile];
  g.fill32(u, n);
  level_of::random_unit_f32(static_cast<const uint32_t*>(u), y, n);
}
void draw_d(Generator& g, double* y, int64_t n) {
  uint32_t u[2 * kTile];
  g.fill32(u, 2 * n);
  level_of::random_unit_f64(static_cast<const uint32_t*>(u), y, n);
}
void draw(Generator& g, float* y, int64_t n) { draw_f(g, y, n); }
void draw(Generator& g, double* y, int64_t n) { draw_d(g, y, n); }

void scale(float* x, int64_t n, double from, double to) {
  level_of::random_scale_f32(x, n, static_cast<float>(from), static_cast<float>(to));
}
void scale(double* x, int64_t n, double from, double to) {
  level_of::random_scale_f64(x, n, from, to);
}
void less(float* x, const float* limit, int64_t n) { level_of::random_less_f32(x, limit, n); }
void less(double* x, const double* limit, int64_t n) { level_of::random_less_f64(x, limit, n); }
void box_muller(float* x, int64_t n, double mean, double deviation) {
  level_of::random_box_muller_f32(x, n, static_cast<float>(mean), static_cast<float>(deviation));
}
void box_muller(double* x, int64_t n, double mean, double deviation) {
  level_of::random_box_muller_f64(x, n, mean, deviation);
}

// Where to compute numbers of type T: in y itself when they need no rounding, else in the tile.
template <class T>
T* place(void* y, DType dtype, int64_t i, T* tile) {
  return dtype == (sizeof(T) == 4 ? DType::Float32 : DType::Float64) ? static_cast<T*>(y) + i
                                                                     : tile;
}

template <class T>
void uniform(Generator& g, void* y, DType dtype, int64_t n, double from, double to) {
  const bool unit = from == 0 && to == 1;
  T tile[kTile];
  each_tile(n, [&](int64_t i, int64_t m) {
    T* const x = place(y, dtype, i, tile);
    draw(g, x, m);
    if (!unit) scale(x, m, from, to);
    if (x == tile) put(y, dtype, i, x, m);
  });
}

template <class T>
void normal_blocks(Generator& g, void* y, DType dtype, int64_t n, double mean, double deviation) {
  T tile[kTile];
  const int64_t whole = n / 16 * 16;
  each_tile(whole, [&](int64_t i, int64_t m) {
    T* const x = place(y, dtype, i, tile);
    draw(g, x, m);
    box_muller(x, m, mean, deviation);
    if (x == tile) put(y, dtype, i, x, m);
  });
  if (n == whole) return;
  if (dtype_size(dtype) > 2) draw(g, tile, n - whole);
  draw(g, tile, 16);
  box_muller(tile, 16, mean, deviation);
  put(y, dtype, n - 16, tile, 16);
}

// A function of one number on lanes, whose last bit may differ from the C library's.
void apply_row(Row row, double* x, int64_t n) {
  void* const places[] = {x, x};
  level_of::row_f64(static_cast<int>(row))(places, n, 0, kOnce);
}

// Elements made one by one from the generator.
template <class F>
void one_by_one(void* y, DType dtype, int64_t n, F f) {
  each_tile(n, [&](int64_t i, int64_t m) {
    double x[kTile];
    for (int64_t k = 0; k < m; ++k) x[k] = f();
    put(y, dtype, i, x, m);
  });
}

}  // namespace

void random_uniform(RandomStream stream, void* y, DType dtype, int64_t n, double from, double to) {
  check_uniform(dtype, from, to);
  if (stream.philox)
    counted::uniform(*stream.philox, y, dtype, n, from, to);
  else if (dtype == DType::Float64)
    uniform<double>(*stream.mersenne, y, dtype, n, from, to);
  else
    uniform<float>(*stream.mersenne, y, dtype, n, from, to);
  if (dtype_size(dtype) != 2) return;
  // The shorter formats round to `to` often. -0 counts as 0.
  const float bounds[2] = {static_cast<float>(from), static_cast<float>(to)};
  uint16_t low_high[2];
  put(low_high, dtype, 0, bounds, 2);
  const auto plus = [](uint16_t v) -> uint16_t { return v == 0x8000 ? 0 : v; };
  level_of::random_replace_16(static_cast<uint16_t*>(y), n, plus(low_high[1]), low_high[0]);
}

void random_normal(RandomStream stream, void* y, DType dtype, int64_t n, double mean,
                   double deviation, bool in_blocks) {
  check_normal(dtype, deviation);
  if (stream.philox) return counted::normal(*stream.philox, y, dtype, n, mean, deviation);
  Generator& g = *stream.mersenne;
  if (n < 16 || !in_blocks) {
    one_by_one(y, dtype, n, [&] { return std::fma(g.next_normal(), deviation, mean); });
  } else if (dtype == DType::Float64) {
    normal_blocks<double>(g, y, dtype, n, mean, deviation);
  } else {
    normal_blocks<float>(g, y, dtype, n, mean, deviation);
  }
}

void random_bernoulli(RandomStream stream, void* y, DType dtype, int64_t n, double p) {
  check_probability(p);
  if (stream.philox) return counted::bernoulli(*stream.philox, y, dtype, n, p);
  Generator& g = *stream.mersenne;
  // D has 53 bits: D < p is the same as D * 2^53 < ceil(p * 2^53).
  const uint64_t limit = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  const bool bytes = dtype_size(dtype) == 1;
  each_tile(n, [&](int64_t i, int64_t m) {
    uint32_t u[2 * kTile];
    uint8_t b[kTile];
    g.fill32(u, 2 * m);
    uint8_t* const out = bytes ? reinterpret_cast<uint8_t*>(at(y, dtype, i)) : b;
    level_of::random_below(static_cast<const uint32_t*>(u), out, m, limit);
    if (bytes) return;
    float x[kTile];
    level_of::random_get_f32(static_cast<float*>(x), static_cast<const void*>(b), m,
                             static_cast<int>(DType::UInt8));
    put(y, dtype, i, x, m);
  });
}

namespace {

template <class T>
void bernoulli_each(RandomStream stream, void* y, DType dtype, int64_t n, const void* p,
                    DType p_dtype) {
  const auto get = [&](T* x, int64_t i, int64_t m) {
    const void* from = static_cast<const char*>(p) + i * dtype_size(p_dtype);
    if constexpr (sizeof(T) == 4)
      level_of::random_get_f32(x, from, m, static_cast<int>(p_dtype));
    else
      level_of::random_get_f64(x, from, m, static_cast<int>(p_dtype));
  };
  T limit[kTile], x[kTile];
  each_tile(n, [&](int64_t i, int64_t m) {
    get(limit, i, m);
    for (int64_t k = 0; k < m; ++k)
      TYCHO_CHECK(Kind::Value, limit[k] >= 0 && limit[k] <= 1,
                  "bernoulli needs probabilities in [0, 1], element %lld is %g",
                  static_cast<long long>(i + k + 1), static_cast<double>(limit[k]));
  });
  if (stream.philox) return counted::bernoulli(*stream.philox, y, dtype, n, p, p_dtype);
  Generator& g = *stream.mersenne;
  each_tile(n, [&](int64_t i, int64_t m) {
    get(limit, i, m);
    draw(g, x, m);
    less(x, limit, m);
    put(y, dtype, i, x, m);
  });
}

}  // namespace

void random_bernoulli(RandomStream stream, void* y, DType dtype, int64_t n, const void* p,
                      DType p_dtype) {
  check_floating("bernoulli with a tensor of probabilities", p_dtype);
  if (p_dtype == DType::Float64)
    bernoulli_each<double>(stream, y, dtype, n, p, p_dtype);
  else
    bernoulli_each<float>(stream, y, dtype, n, p, p_dtype);
}

void random_exponential(RandomStream stream, void* y, DType dtype, int64_t n, double lambda) {
  check_exponential(dtype, lambda);
  if (stream.philox) return counted::exponential(*stream.philox, y, dtype, n, lambda);
  Generator& g = *stream.mersenne;
  const double factor = -1 / lambda;
  each_tile(n, [&](int64_t i, int64_t m) {
    double x[kTile];
    draw_d(g, x, m);
    level_of::random_exponential_f64(static_cast<double*>(x), m, factor);
    put(y, dtype, i, x, m);
  });
}

void random_geometric(RandomStream stream, void* y, DType dtype, int64_t n, double p) {
  check_geometric(dtype, p);
  if (stream.philox) return counted::geometric(*stream.philox, y, dtype, n, p);
  Generator& g = *stream.mersenne;
  const double failure = std::log1p(-p);
  // Logarithms on lanes decide all but those next to a whole number.
  constexpr double kClose = 0x1p-46, kMost = 0x1p52;
  each_tile(n, [&](int64_t i, int64_t m) {
    double x[kTile], logs[kTile];
    draw_d(g, x, m);
    std::copy_n(x, m, logs);
    apply_row(Row::log, logs, m);
    for (int64_t k = 0; k < m; ++k) {
      const double q = logs[k] / failure;
      const double below = q < kMost ? static_cast<double>(static_cast<int64_t>(q)) : q;
      const double apart = q - below, close = q * kClose;
      x[k] = apart > close && 1 - apart > close ? below + 1 : std::ceil(std::log(x[k]) / failure);
    }
    put(y, dtype, i, x, m);
  });
}

void random_cauchy(RandomStream stream, void* y, DType dtype, int64_t n, double median,
                   double sigma) {
  check_cauchy(dtype, sigma);
  if (stream.philox) return counted::cauchy(*stream.philox, y, dtype, n, median, sigma);
  Generator& g = *stream.mersenne;
  constexpr double e = std::numeric_limits<double>::epsilon();
  each_tile(n, [&](int64_t i, int64_t m) {
    double x[kTile];
    draw_d(g, x, m);
    for (int64_t k = 0; k < m; ++k) x[k] = M_PI * (std::clamp(x[k], e, 1 - e) - 0.5);
    apply_row(Row::tan, x, m);
    for (int64_t k = 0; k < m; ++k) x[k] = median + sigma * x[k];
    put(y, dtype, i, x, m);
  });
}

void random_log_normal(RandomStream stream, void* y, DType dtype, int64_t n, double mean,
                       double deviation) {
  check_log_normal(dtype, deviation);
  if (stream.philox) return counted::log_normal(*stream.philox, y, dtype, n, mean, deviation);
  Generator& g = *stream.mersenne;
  each_tile(n, [&](int64_t i, int64_t m) {
    double x[kTile];
    for (int64_t k = 0; k < m; ++k) x[k] = std::fma(g.next_normal(), deviation, mean);
    apply_row(Row::exp, x, m);
    put(y, dtype, i, x, m);
  });
}

namespace {

// Numbers of which each is drawn with parameters of its own, and takes as many of the stream's as it
// needs. `check(element, parameters)` raises where nothing may be drawn with them.
template <int Parameters, class Check, class Draw>
void draw_each(RandomStream stream, void* y, DType dtype, int64_t n,
               const void* const (&parameters)[Parameters], Check check, Draw draw) {
  double p[Parameters][kTile];
  const auto get = [&](int64_t i, int64_t m) {
    for (int k = 0; k < Parameters; ++k) {
      const void* from = static_cast<const char*>(parameters[k]) + i * dtype_size(dtype);
      level_of::random_get_f64(static_cast<double*>(p[k]), from, m, static_cast<int>(dtype));
    }
  };
  const auto of = [&](int64_t k) {
    std::array<double, Parameters> out;
    for (int j = 0; j < Parameters; ++j) out[static_cast<size_t>(j)] = p[j][k];
    return out;
  };
  each_tile(n, [&](int64_t i, int64_t m) {
    get(i, m);
    for (int64_t k = 0; k < m; ++k) check(i + k, of(k));
  });
  const uint64_t first = stream.philox ? stream.philox->take(n) : 0;
  each_tile(n, [&](int64_t i, int64_t m) {
    get(i, m);
    for (int64_t k = 0; k < m; ++k) {
      if (stream.philox) {
        PhiloxReader reader(stream.philox->initial_seed(), first + static_cast<uint64_t>(i + k));
        p[0][k] = draw(reader, of(k));
      } else {
        p[0][k] = draw(*stream.mersenne, of(k));
      }
    }
    put(y, dtype, i, p[0], m);
  });
}
using OneParameter = std::array<double, 1>;
using TwoParameters = std::array<double, 2>;

}  // namespace

void random_poisson(RandomStream stream, void* y, const void* rate, DType dtype, int64_t n) {
  check_floating("poisson", dtype);
  draw_each(
      stream, y, dtype, n, {rate},
      [](int64_t i, OneParameter p) { check_rate("poisson", i, p[0]); },
      [](auto& source, OneParameter p) { return draw_poisson(source, p[0]); });
}

void random_gamma(RandomStream stream, void* y, const void* shape, DType dtype, int64_t n) {
  check_floating("_standard_gamma", dtype);
  const double least = least_normal(dtype);
  draw_each(
      stream, y, dtype, n, {shape},
      [](int64_t i, OneParameter p) { check_rate("_standard_gamma", i, p[0]); },
      [&](auto& source, OneParameter p) { return std::fmax(least, draw_gamma(source, p[0])); });
}

void random_binomial(RandomStream stream, void* y, const void* count, const void* p, DType dtype,
                     int64_t n) {
  check_floating("binomial", dtype);
  draw_each(
      stream, y, dtype, n, {count, p}, [](int64_t, TwoParameters) {},
      [](auto& source, TwoParameters t) { return draw_binomial(source, t[0], t[1]); });
}

}  // namespace tycho::cpu
