// grid_sample and its gradients (ops/nn/grid_sample.cpp says what it computes): some positions at a time, in all
// channels of an image.
#include "engine/cpu/nn/grid_sample.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "engine/base/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// Argument `first` holds the mode; padding_mode and align_corners follow.
GridSampler sampler(const Call& c, const Tensor& x, int first) {
  const std::string_view mode = c.string(first), padding = c.string(first + 1);
  GridSampler s;
  s.mode = mode == "nearest"   ? GridSampler::Nearest
           : mode == "bicubic" ? GridSampler::Cubic
                               : GridSampler::Linear;
  s.padding = padding == "border"       ? GridSampler::Border
              : padding == "reflection" ? GridSampler::Reflection
                                        : GridSampler::Zeros;
  s.corners = c.flag(first + 2);
  s.dims = x.rank() - 2;
  for (int d = 0; d < s.dims; ++d) s.size[d] = x.size(d + 2);
  return s;
}

struct Counts {
  int64_t images, channels, places, points, blocks;
  Counts(const Tensor& x, const Tensor& grid)
      : images(x.size(0)), channels(x.size(1)), places(1), points(1) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d), points *= grid.size(d - 1);
    blocks = (points + kGridPoints - 1) / kGridPoints;
  }
  // Positions of a block of an image.
  int in_block(int64_t block) const {
    return static_cast<int>(std::min<int64_t>(kGridPoints, points - block * kGridPoints));
  }
  int64_t grain(const GridSampler& s) const {
    return std::max<int64_t>(1, 16384 / (kGridPoints * (channels + 1) * s.taps()));
  }
};

#define GRID_LOOP(name)                  \
  template <class T, class... A>         \
  void name(const A&... a) {             \
    if constexpr (sizeof(T) == 4)        \
      level_of::grid_##name##_f32(a...); \
    else                                 \
      level_of::grid_##name##_f64(a...); \
  }
GRID_LOOP(read)
GRID_LOOP(spread)
GRID_LOOP(slope)
GRID_LOOP(turn)

// How many channels are read as one: several where so many places are read that turning the image costs less.
template <class T>
int width_for(const GridSampler& s, const Counts& n) {
  if (n.channels == 1 || n.channels * s.taps() < 12 || n.points * s.taps() < n.places) return 0;
  return n.channels <= 4 ? 4 : static_cast<int>(64 / sizeof(T));
}

// An image as rows of `width` channels, groups of channels one behind the other, each with a row of zeros; or as it is.
template <class T>
struct Image {
  Image(const Tensor& x, const Counts& n, int width)
      : groups(width ? (n.channels + width - 1) / width : 1),
        group(width ? (n.places + 1) * width : n.channels * n.places),
        rows(width ? new Scratch(static_cast<size_t>(n.images * groups * group) * sizeof(T))
                   : nullptr),
        data(x.data<T>()) {
    if (!rows) return;
    T* const to = reinterpret_cast<T*>(rows->data());
    parallel_for(n.images * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t c = r % groups * width, here = std::min<int64_t>(width, n.channels - c);
        T* const out = to + r * group;
        std::fill(here < width ? out : out + n.places * width, out + group, T(0));
        turn<T>(data + (r / groups * n.channels + c) * n.places, here, n.places, n.places, out,
                int64_t{width});
      }
    });
    data = to;
  }
  const T* of(int64_t image) const { return data + image * groups * group; }
  int64_t groups, group;
  std::unique_ptr<Scratch> rows;
  const T* data;
};

template <class T>
void read_all(const GridSampler& s, const Tensor& x, const Tensor& grid, const Tensor& y) {
  const Counts n(x, grid);
  const int width = width_for<T>(s, n);
  const Image<T> image(x, n, width);
  parallel_for(n.images * n.blocks, n.grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t i = b / n.blocks, first = b % n.blocks * kGridPoints;
      read<T>(&s, grid.data<T>() + (i * n.points + first) * s.dims, n.in_block(b % n.blocks),
              image.of(i), n.channels, y.data<T>() + i * n.channels * n.points + first, n.points,
              width);
    }
  });
}

// The gradient of the image: where positions read one place, they are added in their order, so that every run
// gives the same bits.
template <class T>
void spread_all(const GridSampler& s, const Tensor& g, const Tensor& grid, const Tensor& dx) {
  const Counts n(dx, grid);
  const int width = width_for<T>(s, n);
  const int64_t each = width ? width : 16;  // channels that one thread takes
  const int64_t groups = (n.channels + each - 1) / each;
  parallel_for(n.images * groups, 1, [&](int64_t begin, int64_t end) {
    const Scratch scratch(static_cast<size_t>((n.places + 1) * width) * sizeof(T));
    T* const rows = reinterpret_cast<T*>(scratch.data());
    for (int64_t r = begin; r < end; ++r) {
      const int64_t i = r / groups, c = r % groups * each;
      const int64_t channels = std::min(each, n.channels - c), plane = i * n.channels + c;
      T* const out = dx.data<T>() + plane * n.places;
      T* const to = width ? rows : out;
      std::fill_n(to, width ? (n.places + 1) * width : channels * n.places, T(0));
      for (int64_t b = 0; b < n.blocks; ++b)
        spread<T>(&s, grid.data<T>() + (i * n.points + b * kGridPoints) * s.dims, n.in_block(b),
                  g.data<T>() + plane * n.points + b * kGridPoints, channels, to, n.points, width);
      if (width) turn<T>(rows, n.places, channels, int64_t{width}, out, n.places);
    }
  });
}

// The gradient of the grid.
template <class T>
void slope_all(const GridSampler& s, const Tensor& g, const Tensor& x, const Tensor& grid,
               const Tensor& dgrid) {
  const Counts n(x, grid);
  const int width = width_for<T>(s, n);
  const Image<T> image(x, n, width);
  parallel_for(n.images * n.blocks, n.grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t i = b / n.blocks, first = b % n.blocks * kGridPoints;
      const int64_t at = (i * n.points + first) * s.dims;
      slope<T>(&s, grid.data<T>() + at, n.in_block(b % n.blocks), image.of(i),
               g.data<T>() + i * n.channels * n.points + first, n.channels, n.points,
               dgrid.data<T>() + at, width);
    }
  });
}

DType computed_in(DType t) { return t == DType::Float64 ? t : DType::Float32; }
Tensor prepared(const Tensor& t) {
  const DType type = computed_in(t.dtype());
  if (t.dtype() == type && t.contiguous()) return t;
  const Tensor to = empty(t.shape(), type);
  copy_raw(to, t);
  return to;
}
// Calls fill(result) with a result in the type that is computed in.
template <class F>
void fill(const Tensor& out, F&& fill) {
  if (out.numel() == 0) return;
  const DType type = computed_in(out.dtype());
  const Tensor result = out.dtype() == type ? out : empty(out.shape(), type);
  fill(result);
  if (result.get() != out.get()) copy_raw(out, result);
}

void grid_sample_forward(Call& c) {
  const Tensor x = prepared(c.tensor(0)), grid = prepared(c.tensor(1));
  const GridSampler s = sampler(c, x, 2);
  fill(c.out[0], [&](const Tensor& y) {
    y.dtype() == DType::Float64 ? read_all<double>(s, x, grid, y) : read_all<float>(s, x, grid, y);
  });
}

void grid_sample_backward(Call& c) {
  const Tensor g = prepared(c.tensor(0)), x = prepared(c.tensor(1)), grid = prepared(c.tensor(2));
  const GridSampler s = sampler(c, x, 3);
  const bool wide = x.dtype() == DType::Float64;
  fill(c.out[0], [&](const Tensor& dx) {
    wide ? spread_all<double>(s, g, grid, dx) : spread_all<float>(s, g, grid, dx);
  });
  fill(c.out[1], [&](const Tensor& dgrid) {
    if (s.mode == GridSampler::Nearest) {  // a small step changes nothing
      std::memset(dgrid.data(), 0, static_cast<size_t>(dgrid.numel() * dtype_size(dgrid.dtype())));
      return;
    }
    wide ? slope_all<double>(s, g, x, grid, dgrid) : slope_all<float>(s, g, x, grid, dgrid);
  });
}

BIND_KERNEL(Cpu, "grid_sample_forward", grid_sample_forward);
BIND_KERNEL(Cpu, "grid_sample_backward", grid_sample_backward);

}  // namespace
}  // namespace tycho::cpu
