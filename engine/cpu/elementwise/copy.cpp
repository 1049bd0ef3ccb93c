// copy: values from one tensor into another, whatever their layouts and types. Dimensions are
// walked in the order of the destination's memory; when the source's unit stride is then not the
// innermost, planes are transposed in tiles.
#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/copy_order.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/elementwise/run.h"

namespace tycho::cpu {
namespace {

// A tile is so short that the processor reads the next one while this one is written: with four times as
// many elements, stepped sources from memory took twice as long.
constexpr int64_t kTile = 256, kGrain = 32768;

// Which lanes hold what both types make of every value: the result's own for integers, float64 only
// where it is needed.
Lanes lanes_between(DType from, DType to) {
  if (!is_floating(from)) {
    for (const Lanes lanes : {Lanes::U8, Lanes::I8, Lanes::I16, Lanes::I32, Lanes::I64})
      if (lane_type_of(lanes) == to) return lanes;
    if (is_floating(to) && to != DType::Float64 && dtype_size(from) <= 2) return Lanes::F32;
    if (dtype_size(from) <= 4) return Lanes::I32;
    return Lanes::I64;
  }
  if (to == DType::Int64) return Lanes::I64;
  return from == DType::Float64 || to == DType::Float64 ? Lanes::F64 : Lanes::F32;
}

// Elements of one type as another's; tiles between them only where neither is the lanes' own.
struct Conversion {
  Lanes lanes;
  DType from, to;
  Conversion(DType f, DType t) : lanes(lanes_between(f, t)), from(f), to(t) {}
  // Is a run converted in one pass, and many in one call?
  bool takes_rows(int64_t ys, int64_t xs) const {
    const DType lane = lane_type_of(lanes);
    return ys == 1 && xs == 1 && (to == DType::Bool || lane == from || lane == to);
  }
  // The last two dimensions of a walk.
  void run(const Walk& w, char* y, const char* x, int64_t rows, int64_t n) const {
    const int64_t *ys = w.stride[0] + w.rank - 1, *xs = w.stride[1] + w.rank - 1;
    const int64_t yr = w.rank > 1 ? ys[-1] : 0, xr = w.rank > 1 ? xs[-1] : 0,
                  y_step = yr * dtype_size(to), x_step = xr * dtype_size(from);
    const int lane = static_cast<int>(lanes), f = static_cast<int>(from), t = static_cast<int>(to);
    if (!takes_rows(*ys, *xs))
      for (int64_t r = 0; r < rows; ++r) run(y + r * y_step, *ys, x + r * x_step, *xs, n);
    else if (to == DType::Bool)
      level_of::truths(dtype_size(from), is_floating(from), y, yr, x, xr, rows, n);
    else if (lane_type_of(lanes) == from)
      level_of::store_rows(lane, t, y, y_step, x, x_step, rows, n);
    else
      level_of::load_rows(lane, f, y, y_step, x, x_step, rows, n);
  }
  void run(char* y, int64_t ys, const char* x, int64_t xs, int64_t n) const {
    if (to == DType::Bool && ys == 1 && xs == 1)
      return level_of::truths(dtype_size(from), is_floating(from), y, 0, x, 0, 1, n);
    const int lane = static_cast<int>(lanes), f = static_cast<int>(from), t = static_cast<int>(to);
    if (lane_type_of(lanes) == from && xs == 1) return level_of::store_tile(lane, t, y, x, ys, n);
    if (lane_type_of(lanes) == to && ys == 1) return level_of::load_tile(lane, f, y, x, xs, n);
    alignas(64) char tile[kTile * 8];
    const int64_t to_step = ys * dtype_size(to), from_step = xs * dtype_size(from);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t m = std::min(kTile, n - i);
      level_of::load_tile(lane, f, tile, x + i * from_step, xs, m);
      level_of::store_tile(lane, t, y + i * to_step, tile, ys, m);
    }
  }
};

// As make_walk, with the dimensions in the order of the destination's strides.
Walk copy_walk(const Impl* to, const Impl* from) {
  const Impl* both[] = {to, from};
  Walk w = make_walk(both, 2);
  order_by_first(w);
  return w;
}

// A copy ends once it has begun: what is half copied is neither the old nor the new. One value for
// all elements is worth no such care.
Interrupts interrupts_of(const Walk& w) {
  for (int d = 0; d < w.rank; ++d)
    if (w.stride[1][d] != 0 && w.size[d] != 1) return Interrupts::Hold;
  return Interrupts::Poll;
}

// Boxes of two tensors, one after the other: f(whether the plans are new, plans, offsets).
template <class F>
void each_box(const Walk& w, F f) {
  const Boxes boxes(w);
  parallel_for(
      boxes.count, std::max<int64_t>(1, kGrain / boxes.numel),
      [&](int64_t begin, int64_t end) {
        BoxPart part[2];
        int64_t offset[kWalkers], size[kMaxDims];
        bool planned = false;
        for (int64_t i = begin; i < end; ++i) {
          const bool whole = boxes.at(i, offset, size);
          if (!(whole && planned))
            for (int k = 0; k < 2; ++k) part[k].plan(w, k, size);
          planned = whole;
          f(part, offset);
        }
      },
      interrupts_of(w));
}

// Planes of two dimensions, the innermost one and one that stands for rows, in blocks.
struct Planes {
  int dim;             // of the rows, or -1: there is only the innermost
  bool across;         // the source lies together along the rows
  int64_t rows, cols;  // of a whole block
};
// Are they turned in tiles?
bool turns(const Walk& w, const Planes& p) {
  return p.across && w.size[p.dim] >= 4 && w.inner() > 4;
}

// False when planes would be too small to be worth a call each.
bool planes_of(const Walk& w, int size, Planes& p) {
  const int last = w.rank - 1;
  const int64_t step = w.stride[1][last];
  p.dim = last - 1;
  p.across = false;
  if (w.stride[0][last] == 1 && step != 1 && step != 0 && step != -1)
    for (int d = 0; d < last && !p.across; ++d)
      if (w.stride[1][d] == 1) p.dim = d, p.across = true;
  const int64_t rows = p.dim < 0 ? 1 : w.size[p.dim], cols = w.size[last];
  if (turns(w, p)) {
    // Long pieces are read, as memory likes it; what is written are lines. Tiles of less than four bytes
    // write a part of a line each, so there are fewer of them until it is whole.
    const bool lines = size >= 4;
    p.rows = std::min<int64_t>(rows, (lines ? 2048 : 256) / size);
    p.cols = std::min<int64_t>(cols, lines ? 128 / size : 256);
  } else {
    constexpr int64_t kBlock = 4096;
    const bool braid = p.across && rows <= 4;
    p.cols = std::min<int64_t>(cols, braid ? kBlock / rows : kBlock);
    p.rows = std::min<int64_t>(rows, std::max<int64_t>(kBlock / p.cols, braid ? rows : 1));
  }
  return p.rows * p.cols >= 64;
}

// Blocks of two tensors' planes: f(offsets, rows, columns).
template <class F>
void each_block(const Walk& w, const Planes& p, F f) {
  const int last = w.rank - 1, dim = p.dim;
  const int64_t rows = dim < 0 ? 1 : w.size[dim], cols = w.size[last];
  Walk outer = w;  // the other dimensions
  outer.rank = 0;
  outer.numel = 1;
  for (int d = 0; d < last; ++d) {
    if (d == dim) continue;
    outer.size[outer.rank] = w.size[d];
    outer.stride[0][outer.rank] = w.stride[0][d];
    outer.stride[1][outer.rank++] = w.stride[1][d];
    outer.numel *= w.size[d];
  }
  const int64_t nr = (rows + p.rows - 1) / p.rows, nc = (cols + p.cols - 1) / p.cols;
  const int64_t blocks = nr * nc;
  parallel_for(
      outer.numel * blocks, std::max<int64_t>(1, kGrain / (p.rows * p.cols)),
      [&](int64_t begin, int64_t end) {
        int64_t plane = -1, base[2];
        for (int64_t i = begin; i < end; ++i) {
          if (i / blocks != plane) {
            plane = i / blocks, base[0] = base[1] = 0;
            int64_t rest = plane;
            for (int d = outer.rank - 1; d >= 0; --d) {
              const int64_t x = rest % outer.size[d];
              rest /= outer.size[d];
              for (int k = 0; k < 2; ++k) base[k] += x * outer.stride[k][d];
            }
          }
          const int64_t r = i % blocks / nc * p.rows, c = i % nc * p.cols;
          int64_t offset[2];
          for (int k = 0; k < 2; ++k)
            offset[k] = base[k] + (dim < 0 ? 0 : r * w.stride[k][dim]) + c * w.stride[k][last];
          f(offset, std::min(p.rows, rows - r), std::min(p.cols, cols - c));
        }
      },
      interrupts_of(w));
}

void copy_planes(const Walk& w, const Planes& p, char* to, const char* from, int size) {
  const int last = w.rank - 1, dim = p.dim;
  const int64_t tr = dim < 0 ? 0 : w.stride[0][dim], tc = w.stride[0][last],
                fr = dim < 0 ? 0 : w.stride[1][dim], fc = w.stride[1][last];
  const bool tiles = turns(w, p), stream = tiles && w.numel * size >= kStreamBytes;
  each_block(w, p, [&](const int64_t* offset, int64_t m, int64_t n) {
    char* t = to + offset[0] * size;
    const char* f = from + offset[1] * size;
    if (!tiles) return level_of::copy_plane(size, t, tr, tc, f, fr, fc, m, n);
    level_of::transpose_plane(size, t, tr, f, fc, m, n, stream);
    if (stream) end_stream();
  });
}

// Planes that are turned before their elements are converted, so that both happen in whole vectors.
// Rows are cache lines of the source.
void convert_planes(const Walk& w, Planes p, char* to, const char* from,
                    const Conversion& conversion) {
  constexpr int64_t kLines = 128, kCols = 128, kFew = 64, kElements = 4096;
  const int size = dtype_size(conversion.to), from_size = dtype_size(conversion.from);
  const int64_t tr = w.stride[0][p.dim], fc = w.stride[1][w.rank - 1];
  p.rows = std::min(w.size[p.dim], kLines / from_size);
  p.cols = std::min(w.inner(), kCols);
  const bool few =
      p.cols < kFew;  // then all rows are converted at once, and copied to their places
  if (few) p.rows = std::min(p.rows, kElements / p.cols);
  each_block(w, p, [&](const int64_t* offset, int64_t m, int64_t n) {
    alignas(64) char turned[kLines * kCols];
    level_of::transpose_plane(from_size, turned, n, from + offset[1] * from_size, fc, m, n, false);
    if (few) {
      alignas(64) char converted[kElements * 8];
      conversion.run(converted, 1, turned, 1, m * n);
      return level_of::copy_plane(size, to + offset[0] * size, tr, 1, converted, n, 1, m, n);
    }
    for (int64_t r = 0; r < m; ++r)
      conversion.run(to + (offset[0] + r * tr) * size, 1, turned + r * n * from_size, 1, n);
  });
}

bool is_zero(const char* value, int size) {
  return std::all_of(value, value + size, [](char c) { return c == 0; });
}

// Both sides of one type.
void copy_same(const Walk& w, char* to, const char* from, int size) {
  const int last = w.rank - 1;
  const int64_t s0 = w.stride[0][last], s1 = w.stride[1][last];
  const bool stream = w.numel * size >= kStreamBytes;
  const bool runs = s0 == 1 && (s1 == 1 || s1 == 0) && w.inner() * size >= 4096;
  if (Planes p; !runs && planes_of(w, size, p)) return copy_planes(w, p, to, from, size);
  if (wants_boxes(w))
    return each_box(w, [&](const BoxPart* part, const int64_t* offset) {
      alignas(64) char raw[kBox * 8];
      char* t = to + offset[0] * size;
      const char* f = from + offset[1] * size;
      if (part[0].dense()) return part[1].gather(size, t, f);
      if (part[1].dense()) return part[0].scatter(size, t, f);
      part[1].gather(size, raw, f);
      part[0].scatter(size, t, raw);
    });
  parallel_for(
      w.numel, even_grain(w.numel, kGrain),
      [&](int64_t begin, int64_t end) {
        each_run(w, begin, end, [&](const int64_t* offset, int64_t n) {
          char* t = to + offset[0] * size;
          const char* f = from + offset[1] * size;
          if (s0 == 1 && s1 == 1) {
            if (stream && n * size >= 4096)
              level_of::copy_stream(t, f, n * size);
            else
              level_of::copy_bytes(t, f, n * size);
          } else if (s0 == 1 && s1 == 0) {
            level_of::fill_run(size, t, f, n, stream && (fills_pass_quickly() || is_zero(f, size)));
          } else {
            level_of::copy_strided(size, t, s0, f, s1, n);
          }
        });
        if (stream) end_stream();
      },
      interrupts_of(w));
}

}  // namespace

void copy(const Tensor& to, const Tensor& from) {
  const int size = dtype_size(to.dtype()), from_size = dtype_size(from.dtype());
  char* dst = to.data();
  const char* src = from.data();
  if (to.dtype() == from.dtype()) {
    if (to.contiguous() && from.contiguous() && to.numel() == from.numel() &&
        to.numel() * size <= 4096) {
      if (dst != src) std::memmove(dst, src, static_cast<size_t>(to.numel() * size));
      return;
    }
    const Walk walk = copy_walk(to.get(), from.get());
    if (dst == src && walk.rank == 1 && walk.stride[0][0] == walk.stride[1][0]) return;
    if (crosses_steps(walk, size)) return copy_in_order(to, from);
    return copy_same(walk, dst, src, size);
  }
  if (!is_floating(to.dtype()) && !is_floating(from.dtype()) && size == from_size &&
      to.dtype() != DType::Bool)  // the same bits
    return copy_same(copy_walk(to.get(), from.get()), dst, src, size);
  // What repeats often is converted once: of two or four times the values, going through memory again costs more.
  constexpr int64_t kOften = 8;
  Sizes once = from.shape();
  for (int d = 0; d < once.n; ++d)
    if (from.stride(d) == 0) once[d] = std::min<int64_t>(once[d], 1);
  if (const int64_t values = product(once); values > 0 && kOften * values <= to.numel()) {
    const Tensor converted = empty(once, to.dtype());
    copy(converted, alias(from, once, from.strides(), from->offset));
    return copy(to, converted);
  }
  const Walk walk = copy_walk(to.get(), from.get());
  if (crosses_steps(walk, from_size)) return copy_in_order(to, from);
  const Conversion conversion(from.dtype(), to.dtype());
  const int last = walk.rank - 1;
  const int64_t s0 = walk.stride[0][last], s1 = walk.stride[1][last];
  if (Planes p; planes_of(walk, from_size, p) && turns(walk, p))
    return convert_planes(walk, p, dst, src, conversion);
  constexpr int64_t kRow = 64;  // from here on many are not worth being put side by side first
  if (wants_boxes(walk) && !(conversion.takes_rows(s0, s1) && walk.inner() >= kRow))
    return each_box(walk, [&](const BoxPart* part, const int64_t* offset) {
      alignas(64) char raw[2][kBox * 8];
      char* t = dst + offset[0] * size;
      const char* f = src + offset[1] * from_size;
      const int64_t m = part[0].numel();
      if (!part[1].dense()) part[1].gather(from_size, raw[0], f);
      const char* values = part[1].dense() ? f : raw[0];
      if (part[0].runs() && part[0].run() >= 64) {
        const int64_t run = part[0].run();
        for (int64_t i = 0; i < m; i += run)
          conversion.run(t + part[0].at(i) * size, 1, values + i * from_size, 1, run);
        return;
      }
      conversion.run(raw[1], 1, values, 1, m);
      part[0].scatter(size, t, raw[1]);
    });
  // What is no wider than it was goes past the caches, in pieces: memory is read and written in turns.
  if (walk.rank == 1 && s0 == 1 && s1 == 1 && size <= from_size &&
      passes_caches(walk.numel * size, 1, 1)) {
    constexpr int64_t kPiece = 2048;
    parallel_for(
        walk.numel, even_grain(walk.numel, kGrain),
        [&](int64_t begin, int64_t end) {
          alignas(64) char piece[kPiece];
          for (int64_t i = begin; i < end; i += kPiece / size) {
            const int64_t m = std::min(kPiece / size, end - i);
            conversion.run(piece, 1, src + i * from_size, 1, m);
            level_of::copy_stream(dst + i * size, piece, m * size);
          }
          end_stream();
        },
        Interrupts::Hold);
    return;
  }
  parallel_for(
      walk.numel, even_grain(walk.numel, kGrain),
      [&](int64_t begin, int64_t end) {
        each_plane(walk, begin, end, [&](const int64_t* offset, int64_t rows, int64_t run) {
          conversion.run(walk, dst + offset[0] * size, src + offset[1] * from_size, rows, run);
        });
      },
      Interrupts::Hold);
}

}  // namespace tycho::cpu
