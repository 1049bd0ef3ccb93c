// Short rows as columns: the kernels are batch norm's for channels that lie inside.
#include "engine/cpu/nn/norm_short.h"

#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/nn/norm_level.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kChunk = 16;           // tiles worth a task
constexpr int64_t kTileRows = kBox / 2;  // at most

// Calls f(first row, how many, how they lie) for every tile of [begin, end).
template <class F>
void each_tile(int64_t rows, int64_t n, int64_t most, int64_t begin, int64_t end, F f) {
  Walk w;
  w.rank = 2;
  w.count = 1;
  w.stride[0][0] = 1;
  w.stride[0][1] = n;
  w.size[0] = n;
  BoxPart part;
  int64_t planned = 0;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t count = std::min(most, rows - k * most);
    w.size[1] = count;
    if (count != planned) part.plan(w, 0, w.size);
    planned = count;
    f(k, k * most, count, part);
  }
}

template <class T>
void gather(const BoxPart& part, T* tile, const T* from) {
  part.gather(sizeof(T), reinterpret_cast<char*>(tile), reinterpret_cast<const char*>(from));
}
template <class T>
void scatter(const BoxPart& part, T* to, const T* tile) {
  part.scatter(sizeof(T), reinterpret_cast<char*>(to), reinterpret_cast<const char*>(tile));
}

}  // namespace

template <class T>
void ShortRows<T>::forward(const T* x, T* y, const T* b, T* mean, T* rstd, double eps) const {
  const int64_t most = std::min(kTileRows, kBox / n), tiles = (rows + most - 1) / most;
  const auto run = [&](int64_t begin, int64_t end) {
    alignas(64) T tile[kBox], apart[kTileRows], squares[kTileRows], zero[kTileRows] = {};
    each_tile(
        rows, n, most, begin, end, [&](int64_t, int64_t first, int64_t count, const BoxPart& part) {
          T *const m = mean + first, *const r = rstd + first;
          gather(part, tile, x + first * n);
          if (centred)
            NORM_LEVEL(T, norm_column_moments, tile, n, count, m, apart, squares);
          else
            NORM_LEVEL(T, norm_column_sums, tile, tile, n, count, static_cast<const T*>(zero),
                       apart, squares);
          for (int64_t i = 0; i < count; ++i) {
            const double off = centred ? static_cast<double>(apart[i]) / static_cast<double>(n) : 0;
            m[i] = centred ? static_cast<T>(static_cast<double>(m[i]) + off) : T(0);
            const double m2 = static_cast<double>(squares[i]) - off * off * static_cast<double>(n);
            r[i] = static_cast<T>(1 / std::sqrt(m2 / static_cast<double>(n) + eps));
          }
          NORM_LEVEL(T, norm_column_apply, tile, tile, n, count, static_cast<const T*>(m),
                     static_cast<const T*>(r), static_cast<const T*>(zero));
          for (int64_t j = 0; (w || b) && j < n; ++j)
            NORM_LEVEL(T, norm_apply, tile + j * count, tile + j * count, count, T(0),
                       w ? w[j] : T(1), b ? b[j] : T(0));
          scatter(part, y + first * n, tile);
        });
  };
  parallel_for(tiles, kChunk, run);
}

template <class T>
void ShortRows<T>::backward(const T* g, const T* x, T* y, const T* mean, const T* rstd,
                            std::vector<double>& sum) const {
  const int64_t most = std::min(kTileRows, kBox / n), tiles = (rows + most - 1) / most;
  std::vector<double> parts(static_cast<size_t>(tiles * 2 * n));
  const auto run = [&](int64_t begin, int64_t end) {
    alignas(64) T gt[kBox], xt[kBox], yt[kBox], s[kTileRows], d[kTileRows], zero[kTileRows] = {};
    each_tile(
        rows, n, most, begin, end,
        [&](int64_t k, int64_t first, int64_t count, const BoxPart& part) {
          const T *const m = mean + first, *const r = rstd + first;
          gather(part, gt, g + first * n);
          gather(part, xt, x + first * n);
          NORM_LEVEL(T, norm_column_apply, xt, yt, n, count, m, r, static_cast<const T*>(zero));
          double* const dw = parts.data() + k * 2 * n;
          for (int64_t j = 0; j < n; ++j)
            NORM_LEVEL(T, norm_sums, gt + j * count, yt + j * count, count, T(0), dw + n + j,
                       dw + j);
          for (int64_t j = 0; w && j < n; ++j)
            NORM_LEVEL(T, norm_apply, gt + j * count, gt + j * count, count, T(0), w[j], T(0));
          NORM_LEVEL(T, norm_column_sums, gt, xt, n, count, m, s, d);
          for (int64_t i = 0; i < count; ++i) {
            const double scale = static_cast<double>(r[i]), of = static_cast<double>(n);
            d[i] = static_cast<T>(-static_cast<double>(d[i]) * scale * scale * scale / of);
            s[i] = centred ? static_cast<T>(-static_cast<double>(s[i]) * scale / of) : T(0);
          }
          NORM_LEVEL(T, norm_column_grad, gt, xt, yt, n, count, m, r, static_cast<const T*>(d),
                     static_cast<const T*>(s));
          if (centred && n == 1)
            std::fill_n(yt, count, T(0));  // a number less its mean is always 0
          scatter(part, y + first * n, yt);
        });
  };
  parallel_for(tiles, kChunk, run);
  for (int64_t k = 0; k < tiles; ++k)
    for (int64_t j = 0; j < 2 * n; ++j) sum[j] += parts[k * 2 * n + j];
}

template struct ShortRows<float>;
template struct ShortRows<double>;

}  // namespace tycho::cpu
