// copy: values from one tensor into another, whatever their layouts and types. Dimensions are
// walked in the order of the destination's memory; when the source's unit stride is then not the
// innermost, planes are transposed in tiles.
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/elementwise/run.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kTile = 1024, kGrain = 32768;

// Which lanes hold what both types make of every value: int32 for integers where it is enough,
// float64 only where it is needed.
Lanes lanes_between(DType from, DType to) {
  if (!is_floating(from)) {
    if (is_floating(to) && to != DType::Float64 && dtype_size(from) <= 2) return Lanes::F32;
    if (dtype_size(from) <= 4) return Lanes::I32;
    return !is_floating(to) && to != DType::Bool ? Lanes::I32 : Lanes::I64;
  }
  if (from == DType::Float64) return Lanes::F64;
  return to == DType::Float64 || (!is_floating(to) && dtype_size(to) == 8) ? Lanes::F64
                                                                           : Lanes::F32;
}

// Elements of one type as another's; tiles between them only where neither is the lanes' own.
struct Conversion {
  Lanes lanes;
  DType from, to;
  Conversion(DType f, DType t) : lanes(lanes_between(f, t)), from(f), to(t) {}
  void run(char* y, int64_t ys, const char* x, int64_t xs, int64_t n) const {
    const int lane = static_cast<int>(lanes), f = static_cast<int>(from), t = static_cast<int>(to);
    if (lane_type_of(lanes) == from && xs == 1) return level_of::store_tile(lane, t, y, x, ys, n);
    if (lane_type_of(lanes) == to && ys == 1) return level_of::load_tile(lane, f, y, x, xs, n);
    alignas(64) char tile[kTile * 8];
    level_of::load_tile(lane, f, tile, x, xs, n);
    level_of::store_tile(lane, t, y, tile, ys, n);
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

// The dimension in which the source is contiguous, when it is another than the innermost one and
// both are long enough for tiles.
int transposed_dim(const Walk& w) {
  const int last = w.rank - 1;
  if (w.stride[0][last] != 1 || w.size[last] < 4) return -1;
  for (int d = 0; d < last; ++d)
    if (w.stride[1][d] == 1 && w.size[d] >= 4) return d;
  return -1;
}

void copy_transposed(const Walk& w, int dim, char* to, const char* from, int size) {
  const int last = w.rank - 1;
  const int64_t rows = w.size[dim], cols = w.size[last], ts = w.stride[0][dim],
                fs = w.stride[1][last];
  const bool stream = w.numel * size >= kStreamBytes;
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
  // Blocks of a plane, small enough for a cache with both sides.
  const int64_t br = std::min<int64_t>(rows, size >= 4 ? 64 : 256 / size),
                bc = std::min<int64_t>(cols, 256);
  const int64_t nr = (rows + br - 1) / br, nc = (cols + bc - 1) / bc;
  const int64_t blocks = nr * nc;
  parallel_for(
      outer.numel * blocks, std::max<int64_t>(1, kGrain / (br * bc)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          int64_t plane = i / blocks, t = 0, f = 0;
          for (int d = outer.rank - 1; d >= 0; --d) {
            const int64_t x = plane % outer.size[d];
            plane /= outer.size[d];
            t += x * outer.stride[0][d];
            f += x * outer.stride[1][d];
          }
          const int64_t r = i % blocks / nc * br, c = i % nc * bc;
          level_of::transpose_plane(size, to + (t + r * ts + c) * size, ts,
                                    from + (f + c * fs + r) * size, fs, std::min(br, rows - r),
                                    std::min(bc, cols - c), stream);
        }
      },
      Interrupts::Hold);
}

// Both sides of one type.
void copy_same(const Walk& w, char* to, const char* from, int size) {
  const int last = w.rank - 1;
  const int64_t s0 = w.stride[0][last], s1 = w.stride[1][last];
  const bool stream = w.numel * size >= kStreamBytes;
  if (const int dim = transposed_dim(w); dim >= 0 && s1 != 1)
    return copy_transposed(w, dim, to, from, size);
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
      w.numel, kGrain,
      [&](int64_t begin, int64_t end) {
        each_run(w, begin, end, [&](const int64_t* offset, int64_t n) {
          char* t = to + offset[0] * size;
          const char* f = from + offset[1] * size;
          if (s0 == 1 && s1 == 1) {
            if (stream && n * size >= 4096)
              level_of::copy_stream(t, f, n * size);
            else
              std::memmove(t, f, static_cast<size_t>(n * size));
          } else if (s0 == 1 && s1 == 0) {
            level_of::fill_run(size, t, f, n, stream);
          } else {
            level_of::copy_strided(size, t, s0, f, s1, n);
          }
        });
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
    return copy_same(walk, dst, src, size);
  }
  if (!is_floating(to.dtype()) && !is_floating(from.dtype()) && size == from_size &&
      to.dtype() != DType::Bool)  // the same bits
    return copy_same(copy_walk(to.get(), from.get()), dst, src, size);
  if (from.numel() == 1 && to.numel() > 1) {  // converted once
    const Tensor one = empty(Sizes(), to.dtype());
    copy(one, alias(from, Sizes(), Sizes(), from->offset));
    return copy(to, one);
  }
  const Walk walk = copy_walk(to.get(), from.get());
  const Conversion conversion(from.dtype(), to.dtype());
  const int last = walk.rank - 1;
  const int64_t s0 = walk.stride[0][last], s1 = walk.stride[1][last];
  const bool bytes_to_truths = to.dtype() == DType::Bool && from_size == 1;
  if (wants_boxes(walk))
    return each_box(walk, [&](const BoxPart* part, const int64_t* offset) {
      alignas(64) char raw[2][kBox * 8];
      char* t = dst + offset[0] * size;
      const char* f = src + offset[1] * from_size;
      const int64_t m = part[0].numel();
      if (!part[1].dense()) part[1].gather(from_size, raw[0], f);
      conversion.run(part[0].dense() ? t : raw[1], 1, part[1].dense() ? f : raw[0], 1, m);
      if (!part[0].dense()) part[0].scatter(size, t, raw[1]);
    });
  parallel_for(
      walk.numel, kGrain,
      [&](int64_t begin, int64_t end) {
        each_run(walk, begin, end, [&](const int64_t* offset, int64_t run) {
          char* d = dst + offset[0] * size;
          const char* s = src + offset[1] * from_size;
          if (bytes_to_truths && s0 == 1 && s1 == 1) return level_of::truths(d, s, run);
          for (int64_t i = 0; i < run; i += kTile) {
            const int64_t m = std::min(kTile, run - i);
            conversion.run(d + i * s0 * size, s0, s + i * s1 * from_size, s1, m);
          }
        });
      },
      Interrupts::Hold);
}

}  // namespace tycho::cpu
