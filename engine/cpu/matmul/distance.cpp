// distances, pair_distances and their gradients on the CPU: panels of rows to threads.
#include "engine/cpu/matmul/distance.h"

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kWork = 1 << 16;  // terms per chunk: some 10 us

// Row-major float or double lanes; other types are computed in float.
DType lanes_of(const Tensor& t) {
  return t.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
}
Tensor as_lanes(const Tensor& t, DType type) {
  if (t.dtype() == type) return t;
  const Tensor to = empty(t.shape(), type, t.device());
  copy_raw(to, t);
  return to;
}
// Runs f on a result of that type.
template <class F>
void into(const Tensor& result, DType type, F&& f) {
  const Tensor out = result.dtype() == type ? result : empty(result.shape(), type, result.device());
  f(out);
  if (out.get() != result.get()) copy_raw(result, out);
}

// Distances of [.., n, m] as a stack of matrices, in place where the batch has one dimension.
struct Matrices {
  Tensor t;
  int64_t step = 0;
  DistancePlace place;
  explicit Matrices(const Tensor& x) : t(x.rank() > 3 ? packed(x) : x) {
    if (t.rank() < 2) return;
    if (t.rank() > 2) step = t.rank() > 3 ? t.size(-2) * t.size(-1) : t.stride(0);
    place.row = t.stride(-2);
    place.col = t.stride(-1);
  }
  char* at(int64_t batch) const { return t.data() + batch * step * dtype_size(t.dtype()); }
};

// The rows of a against those of b; both lie row after row.
struct Rows {
  bool wide;
  double p;
  int64_t n, m, d;
  const char *a, *b;
  char* out;
  DistancePlace place;

  // Chunks: some rows of a, a panel of b.
  int64_t panels() const { return (m + kDistanceCols - 1) / kDistanceCols; }
  int64_t rows() const {
    return std::clamp<int64_t>(kWork / (kDistanceCols * std::max<int64_t>(d, 1)), 32, 1024);
  }
  int64_t chunks() const { return panels() * ((n + rows() - 1) / rows()); }
  void chunk(int64_t index) const {
    const int64_t size = wide ? 8 : 4, i0 = index / panels() * rows(),
                  j0 = index % panels() * kDistanceCols;
    const int64_t cols = std::min<int64_t>(kDistanceCols, m - j0);
    if (place.pairs && i0 >= j0 + cols - 1) return;
    const Scratch panel(kDistanceCols * std::max<int64_t>(d, 1) * size);
    level_of::distance_panel(wide, p, i0, std::min(rows(), n - i0), j0, cols, d,
                             static_cast<const void*>(a + i0 * d * size),
                             static_cast<const void*>(b + j0 * d * size),
                             static_cast<void*>(panel.data()), static_cast<void*>(out), place);
  }
};

void fill_distances(const Tensor& a, const Tensor& b, double p, const Tensor& out) {
  if (out.numel() == 0) return;
  Rows r{.wide = a.dtype() == DType::Float64,
         .p = p,
         .n = a.size(-2),
         .m = b.size(-2),
         .d = a.size(-1),
         .a = a.data(),
         .b = b.data(),
         .out = out.data(),
         .place = {b.size(-2), 1, 0}};
  const int64_t size = dtype_size(out.dtype()), each = r.n * r.m;
  // Lanes are rows of b: the longer of the two where b is short.
  if (r.m < 16 && r.m < r.n) {
    r.place = {1, r.m, 0};
    std::swap(r.n, r.m);
    std::swap(r.a, r.b);
  }
  const int64_t chunks = r.chunks();
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      Rows one = r;
      const int64_t batch = i / chunks;
      one.a += batch * r.n * r.d * size;
      one.b += batch * r.m * r.d * size;
      one.out += batch * each * size;
      one.chunk(i % chunks);
    }
  };
  const int64_t work =
      std::max<int64_t>(1, std::min(r.rows(), r.n) * std::min<int64_t>(r.m, kDistanceCols) *
                               std::max<int64_t>(r.d, 1));
  parallel_for(chunks * (out.numel() / each), std::max<int64_t>(1, kWork / work), run);
}

void fill_pair_distances(const Tensor& a, double p, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t n = a.size(0);
  const Rows r{.wide = a.dtype() == DType::Float64,
               .p = p,
               .n = n,
               .m = n,
               .d = a.size(1),
               .a = a.data(),
               .b = a.data(),
               .out = out.data(),
               .place = {0, 0, n}};
  parallel_for(r.chunks(), 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) r.chunk(i);
  });
}

// The gradient of a's rows in blocks of lanes, for each matrix of a stack.
void gradient(const Tensor& a, const Tensor& b, double p, const Tensor& g, const Tensor& y,
              const Tensor& out) {
  if (out.numel() == 0) return;
  const bool wide = a.dtype() == DType::Float64, pairs = g.rank() == 1;
  const int64_t size = dtype_size(a.dtype()), n = a.size(-2), m = b.size(-2), d = a.size(-1);
  if (m == 0) {
    std::fill_n(out.data(), out.numel() * size, 0);
    return;
  }
  const Matrices gs(g), ys(y);
  DistancePlace g_at = gs.place, y_at = ys.place;
  if (pairs) g_at.pairs = y_at.pairs = n;
  const int rows = level_of::distance_grad_rows(wide);
  const int64_t blocks = (n + rows - 1) / rows;
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch room((2 * m + d) * rows * size);
    for (int64_t i = from; i < to; ++i) {
      const int64_t batch = i / blocks, i0 = i % blocks * rows;
      level_of::distance_grad_block(wide, p, i0, std::min<int64_t>(rows, n - i0), m, d,
                                    static_cast<const void*>(a.data() + batch * n * d * size),
                                    static_cast<const void*>(b.data() + batch * m * d * size),
                                    static_cast<const void*>(gs.at(batch)), g_at,
                                    static_cast<const void*>(ys.at(batch)), y_at,
                                    static_cast<void*>(room.data()),
                                    static_cast<void*>(out.data() + batch * n * d * size));
    }
  };
  parallel_for(blocks * (out.numel() / (n * d)), std::max<int64_t>(1, kWork / (rows * m * d)), run);
}

void distances(Call& c) {
  const DType type = lanes_of(c.out[0]);
  const Tensor a = packed(as_lanes(c.tensor(0), type)), b = packed(as_lanes(c.tensor(1), type));
  into(c.out[0], type, [&](const Tensor& out) { fill_distances(a, b, c.number(2), out); });
}

void pair_distances(Call& c) {
  const DType type = lanes_of(c.out[0]);
  const Tensor a = packed(as_lanes(c.tensor(0), type));
  into(c.out[0], type, [&](const Tensor& out) { fill_pair_distances(a, c.number(1), out); });
}

void distances_backward(Call& c) {
  const DType type = lanes_of(c.out[0]);
  const Tensor a = packed(as_lanes(c.tensor(1), type)), b = packed(as_lanes(c.tensor(2), type));
  const Tensor g = as_lanes(c.tensor(0), type), y = as_lanes(c.tensor(4), type);
  into(c.out[0], type, [&](const Tensor& out) { gradient(a, b, c.number(3), g, y, out); });
}

void pair_distances_backward(Call& c) {
  const DType type = lanes_of(c.out[0]);
  const Tensor a = packed(as_lanes(c.tensor(1), type));
  const Tensor g = packed(as_lanes(c.tensor(0), type)), y = packed(as_lanes(c.tensor(3), type));
  into(c.out[0], type, [&](const Tensor& out) { gradient(a, a, c.number(2), g, y, out); });
}

BIND_KERNEL(Cpu, "distances", distances);
BIND_KERNEL(Cpu, "pair_distances", pair_distances);
BIND_KERNEL(Cpu, "distances_backward", distances_backward);
BIND_KERNEL(Cpu, "pair_distances_backward", pair_distances_backward);

}  // namespace
}  // namespace tycho::cpu
