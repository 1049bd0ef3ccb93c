// Random integers, permutations and categories (see random.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/cpu/random/counted.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kIntegerTile = 2048;

void put(void* y, DType dtype, int64_t i, const int64_t* x, int64_t n) {
  void* const to = static_cast<char*>(y) + i * dtype_size(dtype);
  level_of::random_put_i64(to, x, n, static_cast<int>(dtype));
}

// Small remainders, several at a time; `low` + u % count.
void narrow_integers(Generator& g, void* y, DType dtype, int64_t n, int64_t low, uint32_t count) {
  for (int64_t i = 0; i < n; i += kIntegerTile) {
    check_interrupt();
    const int64_t m = std::min(kIntegerTile, n - i);
    uint32_t u[kIntegerTile];
    int64_t x[kIntegerTile];
    g.fill32(u, m);
    level_of::random_remainder(static_cast<const uint32_t*>(u), static_cast<int64_t*>(x), m, count,
                               low);
    put(y, dtype, i, x, m);
  }
}

void wide_integers(Generator& g, void* y, DType dtype, int64_t n, int64_t low, uint64_t count) {
  const bool power = (count & (count - 1)) == 0;  // 2^64, written 0, is one too
  for (int64_t i = 0; i < n; i += kIntegerTile) {
    check_interrupt();
    const int64_t m = std::min(kIntegerTile, n - i);
    uint32_t u[2 * kIntegerTile];
    int64_t x[kIntegerTile];
    g.fill32(u, 2 * m);
    for (int64_t k = 0; k < m; ++k) {
      const uint64_t w = static_cast<uint64_t>(u[2 * k]) << 32 | u[2 * k + 1];
      x[k] =
          static_cast<int64_t>(static_cast<uint64_t>(low) + (power ? w & (count - 1) : w % count));
    }
    put(y, dtype, i, x, m);
  }
}

}  // namespace

void random_integers(RandomStream stream, void* y, DType dtype, int64_t n, IntegerRange range) {
  if (stream.philox) return counted::integers(*stream.philox, y, dtype, n, range);
  Generator& g = *stream.mersenne;
  if (range.count != 0 && range.count < uint64_t{1} << 28)
    narrow_integers(g, y, dtype, n, range.low, static_cast<uint32_t>(range.count));
  else
    wide_integers(g, y, dtype, n, range.low, range.count);
}

void random_integers(RandomStream stream, void* y, DType dtype, int64_t n) {
  const IntegerRange range = integer_range(dtype);
  if (stream.philox) return counted::integers(*stream.philox, y, dtype, n, range);
  Generator& g = *stream.mersenne;
  if (dtype == DType::Int64 || dtype == DType::Float64)
    wide_integers(g, y, dtype, n, range.low, range.count);
  else
    narrow_integers(g, y, dtype, n, range.low, static_cast<uint32_t>(range.count));
}

void random_permutation(RandomStream stream, int64_t* y, int64_t n, int64_t first) {
  if (n <= 0) return;
  if (stream.philox) return counted::permutation(*stream.philox, y, n, first);
  Generator& g = *stream.mersenne;
  if (n >= std::numeric_limits<uint32_t>::max() / 20) {
    for (int64_t i = 0; i < n; ++i) y[i] = first + i;
    for (int64_t i = 0; i < n - 1; ++i) {
      if (i % kIntegerTile == 0) check_interrupt();
      std::swap(y[i], y[i + static_cast<int64_t>(g.next64() % static_cast<uint64_t>(n - i))]);
    }
    return;
  }
  // Half as wide numbers miss the cache less: they are shuffled in the upper half of y and spread
  // out afterwards, from the front, which never overtakes what is still to be read.
  uint32_t* const v = reinterpret_cast<uint32_t*>(y) + n;
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<uint32_t>(i);
  for (int64_t i = 0; i < n - 1; i += kIntegerTile) {
    check_interrupt();
    const int64_t m = std::min(kIntegerTile, n - 1 - i);
    uint32_t z[kIntegerTile];
    g.fill32(z, m);
    constexpr int64_t ahead = 32;
    for (int64_t k = 0; k < m + ahead; ++k) {
      if (k < m) {
        z[k] = static_cast<uint32_t>(i + k) + z[k] % static_cast<uint32_t>(n - i - k);
        __builtin_prefetch(v + z[k], 1);
      }
      if (k >= ahead) std::swap(v[i + k - ahead], v[z[k - ahead]]);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    uint32_t a;
    std::memcpy(&a, v + i, sizeof a);
    const int64_t b = first + a;
    std::memcpy(y + i, &b, sizeof b);
  }
}

namespace {

template <class T>
void get(T* x, const void* p, DType dtype, int64_t n) {
  if constexpr (sizeof(T) == 4)
    level_of::random_get_f32(x, p, n, static_cast<int>(dtype));
  else
    level_of::random_get_f64(x, p, n, static_cast<int>(dtype));
}

// Weights are summed and divided in float (float64: in double), in order; of few draws, only the
// sums that are looked at are divided.
template <class T>
void draw_with_replacement(RandomStream stream, int64_t* y, T* sums, int64_t categories,
                           int64_t draws, int64_t first) {
  const T sum = sums[categories - 1];
  const bool few = draws < categories / 16;
  for (int64_t c = 0; c < categories && !few; ++c) sums[c] /= sum;
  const T by = few ? sum : T(1);
  std::vector<double> unit(draws);
  random_uniform(stream, unit.data(), DType::Float64, draws, 0, 1);
  // Binary searches side by side: each step of one waits for memory, and none guesses where it
  // goes.
  constexpr int64_t kTogether = 8;
  for (int64_t i = 0; i < draws; i += kTogether) {
    const T* at[kTogether];
    double d[kTogether];
    for (int64_t k = 0; k < kTogether; ++k) at[k] = sums, d[k] = unit[std::min(i + k, draws - 1)];
    const auto below = [&](const T* sum, int64_t k) {
      return static_cast<double>(*sum / by) < d[k];
    };
    for (int64_t n = categories; n > 1; n -= n / 2)
      for (int64_t k = 0; k < kTogether; ++k) at[k] += below(at[k] + n / 2 - 1, k) * (n / 2);
    for (int64_t k = 0; k < std::min(kTogether, draws - i); ++k)
      y[i + k] = first + std::min<int64_t>(at[k] - sums + below(at[k], k), categories - 1);
  }
}

// The draws are the largest weight / q for exponential q, which is a race: category c arrives after
// q / weight. Equal quotients (float16 and bfloat16 make many) are ordered as PyTorch's topk does.
template <class T>
void draw_without_replacement(RandomStream stream, int64_t* y, const T* weight, DType dtype,
                              void* scratch, std::vector<std::pair<T, int64_t>>& race,
                              int64_t categories, int64_t draws, int64_t first, const void* noise) {
  std::vector<T> q(categories);
  if (!noise) random_exponential(stream, scratch, dtype, categories, 1);
  get(q.data(), noise ? noise : scratch, dtype, categories);
  for (int64_t c = 0; c < categories; ++c) q[c] = weight[c] / q[c];
  if (dtype == DType::Float16 || dtype == DType::BFloat16) {
    if constexpr (sizeof(T) == 4)
      level_of::random_put_f32(scratch, static_cast<const float*>(q.data()), categories,
                               static_cast<int>(dtype));
    get(q.data(), scratch, dtype, categories);
  }
  if (draws == 1) {
    y[0] = first + (std::max_element(q.begin(), q.end()) - q.begin());
    return;
  }
  for (int64_t c = 0; c < categories; ++c) race[c] = {q[c], c};
  const auto before = [](const auto& a, const auto& b) { return a.first > b.first; };
  if (draws * 64 <= categories) {
    std::partial_sort(race.begin(), race.begin() + draws, race.end(), before);
  } else {
    std::nth_element(race.begin(), race.begin() + draws - 1, race.end(), before);
    std::sort(race.begin(), race.begin() + draws - 1, before);
  }
  for (int64_t i = 0; i < draws; ++i) y[i] = first + race[i].second;
}

template <class T>
void see_weights(const T* w, int64_t n, bool* wrong, bool* some) {
  if constexpr (sizeof(T) == 4)
    level_of::random_weights_f32(w, n, wrong, some);
  else
    level_of::random_weights_f64(w, n, wrong, some);
}

template <class T>
void multinomial(RandomStream stream, int64_t* y, const void* weights, DType dtype, int64_t rows,
                 int64_t categories, int64_t draws, bool replacement, int64_t first,
                 const void* noise) {
  constexpr int64_t kTogether = 4;  // rows summed side by side: each waits for its last sum
  const Scratch room(static_cast<size_t>(2 * kTogether * categories) * sizeof(T));
  T *const sums = reinterpret_cast<T*>(room.data()), *const copied = sums + kTogether * categories;
  const auto row_of = [&](const void* matrix, int64_t r) {
    return static_cast<const char*>(matrix) + r * categories * dtype_size(dtype);
  };
  // A row's weights, where they are of another type copied to place k.
  const auto row = [&](int64_t r, int64_t k = 0) {
    const char* const given = row_of(weights, r);
    if (dtype_size(dtype) == sizeof(T))
      return static_cast<const T*>(static_cast<const void*>(given));
    get(copied + k * categories, given, dtype, categories);
    return static_cast<const T*>(copied + k * categories);
  };
  for (int64_t r = 0; r < rows; ++r) {  // all are looked at before anything is drawn
    const T* const weight = row(r);
    bool wrong, some;
    see_weights(weight, categories, &wrong, &some);
    for (int64_t c = 0; c < categories && wrong; ++c)
      TYCHO_CHECK(Kind::Value, weight[c] >= 0 && std::isfinite(weight[c]),
                  "multinomial needs finite weights of 0 or more; row %lld has %g at position %lld",
                  static_cast<long long>(r + 1), static_cast<double>(weight[c]),
                  static_cast<long long>(c + 1));
    TYCHO_CHECK(Kind::Value, some, "multinomial needs a weight above 0; row %lld has none",
                static_cast<long long>(r + 1));
  }
  if (replacement && draws > 1) {
    for (int64_t r = 0; r < rows; r += kTogether) {
      const int64_t together = std::min(kTogether, rows - r);
      const T* weight[kTogether];
      for (int64_t k = 0; k < kTogether; ++k) weight[k] = row(r + std::min(k, together - 1), k);
      const auto add_up = [&](auto count) {
        T sum[count] = {};
        for (int64_t c = 0; c < categories; ++c)
          for (int64_t k = 0; k < count; ++k) sums[k * categories + c] = sum[k] += weight[k][c];
      };
      if (together == 1)
        add_up(std::integral_constant<int64_t, 1>());
      else
        add_up(std::integral_constant<int64_t, kTogether>());
      for (int64_t k = 0; k < together; ++k)
        draw_with_replacement(stream, y + (r + k) * draws, sums + k * categories, categories, draws,
                              first);
    }
    return;
  }
  std::vector<std::pair<T, int64_t>> race(categories);
  for (int64_t r = 0; r < rows; ++r)
    draw_without_replacement(stream, y + r * draws, row(r), dtype, sums, race, categories, draws,
                             first, noise ? row_of(noise, r) : nullptr);
}

}  // namespace

void random_multinomial(RandomStream stream, int64_t* y, const void* weights, DType dtype,
                        int64_t rows, int64_t categories, int64_t draws, bool replacement,
                        int64_t first, const void* noise) {
  TYCHO_CHECK(Kind::DType, is_floating(dtype), "multinomial needs floating-point weights, not %s",
              dtype_name(dtype));
  TYCHO_CHECK(Kind::Value, draws > 0, "multinomial needs 1 draw or more, not %lld",
              static_cast<long long>(draws));
  TYCHO_CHECK(Kind::Value, categories > 0, "multinomial has no category to draw from");
  TYCHO_CHECK(Kind::Value, replacement || draws <= categories,
              "multinomial cannot draw %lld of %lld categories without replacement",
              static_cast<long long>(draws), static_cast<long long>(categories));
  if (dtype == DType::Float64)
    multinomial<double>(stream, y, weights, dtype, rows, categories, draws, replacement, first,
                        noise);
  else
    multinomial<float>(stream, y, weights, dtype, rows, categories, draws, replacement, first,
                       noise);
}

}  // namespace tycho::cpu
