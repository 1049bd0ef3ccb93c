// The kernels of tril and triu.
#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/run.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// Rows that the diagonal crosses are taken some at a time: the columns that any of them keeps are
// copied together, then what a single row does not keep becomes 0. The others are kept or cleared as
// they are.
constexpr int64_t kRows = 32, kBlock = 8192, kLong = 32768;

struct Triangle {
  bool lower;
  int64_t rows, cols, diagonal, size;
  // The columns that a row keeps.
  int64_t begin(int64_t r) const { return lower ? 0 : std::clamp<int64_t>(r + diagonal, 0, cols); }
  int64_t end(int64_t r) const {
    return lower ? std::clamp<int64_t>(r + diagonal + 1, 0, cols) : cols;
  }
  void clear(char* row, int64_t from, int64_t to) const {
    std::memset(row + from * size, 0, static_cast<size_t>((to - from) * size));
  }
  void copy(char* to, const char* from, int64_t sr, int64_t sc, int64_t n, int64_t width) const {
    const int bytes = static_cast<int>(size);
    if (sc == 1 && sr == cols && width == cols)
      return level_of::copy_plane(bytes, to, 0, 1, from, 0, 1, 1, n * cols);
    level_of::copy_plane(bytes, to, cols, 1, from, sr, sc, n, width);
  }
  // Rows [first, last) of a matrix that lies at steps sr and sc, into one that lies row by row.
  void take(char* to, const char* from, int64_t sr, int64_t sc, int64_t first, int64_t last) const {
    const auto whole = [&](int64_t r, int64_t n, bool kept) {
      if (kept)
        copy(to + r * cols * size, from + r * sr * size, sr, sc, n, cols);
      else
        clear(to + r * cols * size, 0, n * cols);
    };
    const int64_t above = std::clamp(-diagonal, first, last),
                  below = std::clamp(cols - diagonal, above, last);
    if (first < above) whole(first, above - first, !lower);
    for (int64_t r = above, n; r < below; r += n) {
      n = std::min(kRows, below - r);
      const int64_t a = begin(r), b = end(r + n - 1);
      char* row = to + r * cols * size;
      copy(row + a * size, from + (r * sr + a * sc) * size, sr, sc, n, b - a);
      for (int64_t k = r; k < r + n; ++k, row += cols * size) {
        clear(row, 0, begin(k));
        clear(row, end(k), cols);
      }
    }
    if (below < last) whole(below, last - below, lower);
  }
};

// Of matrices with few elements: all are copied, then each place that is to be 0 is cleared in all.
template <class T>
void clear_places(const Triangle& t, char* out, int64_t begin, int64_t end) {
  const int64_t numel = t.rows * t.cols;
  T* const p = reinterpret_cast<T*>(out) + begin * numel;
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t c = 0; c < t.cols; ++c)
      if (c < t.begin(r) || c >= t.end(r))
        for (int64_t m = 0; m < end - begin; ++m) p[m * numel + r * t.cols + c] = 0;
}
void small_triangles(const Triangle& t, const Tensor& out, const Tensor& x) {
  constexpr int64_t kAtOnce = 8192;  // elements, so that they are cleared in the first cache
  const int64_t numel = t.rows * t.cols;
  copy(out, x);
  parallel_for(
      x.numel() / numel, std::max<int64_t>(1, 32768 / numel), [&](int64_t begin, int64_t end) {
        const int64_t step = kAtOnce / numel;
        for (int64_t i = begin; i < end; i += step)
          (t.size == 8   ? clear_places<uint64_t>
           : t.size == 4 ? clear_places<uint32_t>
           : t.size == 2 ? clear_places<uint16_t>
                         : clear_places<uint8_t>)(t, out.data(), i, std::min(end, i + step));
      });
}

void triangle(Call& c, bool lower) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (x.numel() == 0) return;
  const int64_t rows = x.size(-2), cols = x.size(-1);
  const Triangle t{lower, rows, cols, std::clamp<int64_t>(c.integer(1), -rows, cols),
                   dtype_size(x.dtype())};
  constexpr int64_t kFew = 64;
  if (rows * cols <= kFew) return small_triangles(t, out, x);
  // The matrices of both, one after the other.
  const int64_t sr = x.stride(-2), sc = x.stride(-1), matrices = x.numel() / (rows * cols);
  // Long rows that lie together are as good alone, and there is something for all threads.
  const int64_t most = sc == 1 ? std::clamp<int64_t>(kLong / cols, 1, kRows) : kRows,
                step = std::max(most, kBlock / cols), parts = (rows + step - 1) / step;
  const auto place = [&](int64_t m) {
    int64_t at = 0;
    for (int d = x.rank() - 3; d >= 0; --d) {
      at += m % x.size(d) * x.stride(d);
      m /= x.size(d);
    }
    return at * t.size;
  };
  parallel_for(matrices * parts, std::max<int64_t>(1, 32768 / (std::min(step, rows) * cols)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t m = i / parts, first = i % parts * step;
                   t.take(out.data() + m * rows * cols * t.size, x.data() + place(m), sr, sc, first,
                          std::min(rows, first + step));
                 }
               });
}

}  // namespace

void tril(Call& c) { triangle(c, true); }
void triu(Call& c) { triangle(c, false); }

BIND_KERNEL(Cpu, "tril", tril);
BIND_KERNEL(Cpu, "triu", triu);

}  // namespace tycho::cpu
