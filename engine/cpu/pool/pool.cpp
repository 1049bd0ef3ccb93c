// Pooling on the CPU: per axis, tables of where windows begin and which taps lie inside; then the
// kernels of level/, over lines or images in parallel.
#include "engine/cpu/pool/pool.h"

#include <algorithm>
#include <memory>

#include "engine/base/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/nn/pool.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

DType computed_in(DType t) {
  if (t == DType::Float32 || t == DType::Float64) return t;
  return is_floating(t) ? DType::Float32 : DType::Int64;
}
int type_of(DType t) {
  return t == DType::Float32 ? 0 : t == DType::Float64 ? 1 : t == DType::BFloat16 ? 3 : 2;
}

// A pool, and the tables of its axes that it points to.
struct Description {
  Pool pool{};
  std::unique_ptr<Scratch> tables;
  int64_t* count[3];
};

// One axis before its windows are placed.
struct AxisSizes {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
  bool adaptive = false;
  bool idle() const { return in == 1 && out == 1 && kernel == 1 && pad == 0 && !adaptive; }
  // Whether windows cover the axis, each its own part.
  bool tiled() const {
    return !adaptive && pad == 0 && in > 0 && out * stride == in &&
           (kernel - 1) * dilation < stride;
  }
};

// The axes of a pool, as lines as long as there are: what is idle behind stands in front, and lines that
// windows cover are joined, as they lie in memory, up to some hundred results. Returns how many idle
// ones there were.
int settle(AxisSizes (&axis)[3], int64_t* images) {
  constexpr int64_t kLongLine = 512;
  int moved = 0;
  for (; moved < 2 && axis[2].idle(); ++moved)
    axis[2] = axis[1], axis[1] = axis[0], axis[0] = AxisSizes();
  AxisSizes& line = axis[2];
  if (!axis[0].idle() || !axis[1].idle() || !line.tiled()) return moved;
  int64_t together = std::clamp<int64_t>(kLongLine / line.out, 1, std::max<int64_t>(1, *images));
  while (*images % together != 0) --together;
  *images /= together, line.in *= together, line.out *= together;
  return moved;
}

// x: the input's shape, y: the result's. `at` is the argument that holds the kernel.
void describe(Description& d, const Call& c, int at, const Sizes& x, const Sizes& y, bool planes,
              bool dilated) {
  const Sizes kernel = c.ints(at), stride = c.ints(at + 1), padding = c.ints(at + 2);
  const Sizes dilation = dilated ? c.ints(at + 3) : Sizes();
  Pool& p = d.pool;
  p.images = planes ? x[0] * x[1] : x[0];
  p.channels = planes ? 1 : x[1];
  p.apart = true;
  const int spatial = x.n - 2;
  AxisSizes axis[3];
  for (int s = 0; s < spatial; ++s) {
    AxisSizes& a = axis[s + 3 - spatial];
    a.in = x[s + 2], a.out = y[s + 2];
    if (dilation.n) a.dilation = dilation[s];
    const bool even = kernel.n == 0 && a.in % a.out == 0;  // windows as of any pooling
    a.adaptive = kernel.n == 0 && !even;
    a.stride = even ? a.in / a.out : a.adaptive ? 0 : stride[s];
    a.kernel = even ? a.stride : a.adaptive ? 0 : kernel[s];
    a.pad = kernel.n ? padding[s] : 0;
  }
  const int moved = settle(axis, &p.images);
  int64_t taps = 1, outputs = 0;
  for (const AxisSizes& a : axis) outputs += a.out;
  d.tables = std::make_unique<Scratch>(static_cast<size_t>(4 * outputs) * sizeof(int64_t));
  int64_t* table = reinterpret_cast<int64_t*>(d.tables->data());
  for (int k = 0; k < 3; ++k) {
    const AxisSizes& sizes = axis[k];
    const bool adaptive = sizes.adaptive;
    const int64_t pad = sizes.pad;
    PoolAxis& a = p.axis[k];
    a.in = sizes.in, a.out = sizes.out, a.kernel = sizes.kernel;
    a.stride = sizes.stride, a.dilation = sizes.dilation;
    int64_t *const start = table, *const first = start + a.out, *const last = first + a.out,
                   *const count = last + a.out;
    table += 4 * a.out;
    // Windows [whole, whole_end) lie inside of the image with all of their taps.
    int64_t whole = 0, whole_end = 0;
    if (!adaptive) {
      const int64_t room = a.in + pad - (a.kernel - 1) * a.dilation;
      whole = std::min(a.out, (pad + a.stride - 1) / a.stride);
      whole_end = std::clamp((room + a.stride - 1) / a.stride, whole, a.out);
      for (int64_t o = whole; o < whole_end; ++o)
        start[o] = o * a.stride - pad, first[o] = 0, last[o] = count[o] = a.kernel;
    }
    for (int64_t o = 0; o < a.out; ++o) {
      if (o == whole && whole < whole_end) o = whole_end;
      if (o == a.out) break;
      int64_t from, taps_here;
      if (adaptive) {
        from = o * a.in / a.out;
        taps_here = ((o + 1) * a.in + a.out - 1) / a.out - from;
        a.kernel = std::max(a.kernel, taps_here);
        if (o > 0 && start[o - 1] + last[o - 1] > from) p.apart = false;
      } else {
        from = o * a.stride - pad;
        taps_here = a.kernel;
      }
      start[o] = from;
      first[o] = 0;
      last[o] = taps_here;
      count[o] = std::max<int64_t>(1, std::min(from + taps_here, a.in + pad) - from);
      if (from >= 0 && from + (taps_here - 1) * a.dilation < a.in) continue;
      // The taps inside: start + t * dilation in [0, in).
      if (from < 0) first[o] = (-from + a.dilation - 1) / a.dilation;
      last[o] = std::max(
          first[o],
          std::min(taps_here, a.in > from ? (a.in - from + a.dilation - 1) / a.dilation : 0));
      TYCHO_CHECK(Kind::Shape, !dilated || first[o] < last[o],
                  "max pooling: window %lld along spatial dimension %d holds padding only",
                  static_cast<long long>(o + 1), k - moved + spatial - 2);
    }
    if (!adaptive && (a.kernel - 1) * a.dilation + 1 > a.stride) p.apart = false;
    a.start = start;
    a.first = first;
    a.last = last;
    a.count = d.count[k] = count;
    taps *= a.kernel;
  }
  p.wide = taps > 256;
}

void count_inside_only(Description& d) {
  for (int k = 0; k < 3; ++k) {
    const PoolAxis& a = d.pool.axis[k];
    for (int64_t o = 0; o < a.out; ++o)
      d.count[k][o] = std::max<int64_t>(1, a.last[o] - a.first[o]);
  }
}

// Whether an input is taken plane by plane, or with its channels side by side.
bool by_planes(const Tensor& x) { return x.contiguous() || !is_channels_last(x); }

// In one of the two layouts, and in a type that kernels compute in.
Tensor prepared(const Tensor& t, DType type, bool planes) {
  if (t.dtype() == type && (planes ? t.contiguous() : is_channels_last(t))) return t;
  Tensor to = planes ? empty(t.shape(), type, t.device())
                     : empty_channels_last(t.shape(), type, t.device());
  copy_raw(to, t);
  return to;
}
Tensor result_for(const Tensor& out, DType type) {
  return out.dtype() == type ? out : empty_pooled(out, out.shape(), type);
}

// Four lines of what is computed in, for max_pool_lines.
size_t line_room(const Pool& p, DType type) {
  const int64_t line = p.axis[2].in * (p.channels <= kFewChannels ? p.channels : 1);
  const int64_t lines = p.channels == 1 ? 2 * lines_at_once(p) : 4;
  return static_cast<size_t>(std::max<int64_t>(lines, 4) * (line + kPoolRoom) *
                             std::max(4, dtype_size(type)));
}
int64_t lines(const Pool& p) { return p.images * p.axis[0].out * p.axis[1].out; }
int64_t line_work(const Pool& p) {
  constexpr int64_t kLine = 128;  // what a line costs besides its taps, in taps
  return kLine +
         p.axis[2].out * p.channels * p.axis[0].kernel * p.axis[1].kernel * p.axis[2].kernel;
}
int64_t image_work(const Pool& p) {
  return std::max<int64_t>(1, line_work(p) * p.axis[0].out * p.axis[1].out);
}
constexpr int64_t kWork = 1 << 16;  // taps looked at per chunk
int64_t grain(int64_t work) { return std::max<int64_t>(1, kWork / work); }

}  // namespace

void max_pool(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool planes = by_planes(c.tensor(0));
  Description d;
  describe(d, c, 3, c.tensor(0).shape(), out.shape(), planes, true);
  const bool direct = out.dtype() == DType::BFloat16 && d.pool.channels > 1;
  const DType type = direct ? DType::BFloat16 : computed_in(out.dtype());
  const Tensor x = prepared(c.tensor(0), type, planes);
  const Tensor y = result_for(out, type);
  void* taps = c.flag(2) ? static_cast<void*>(c.out[1].data()) : nullptr;
  if (taps) d.pool.wide = c.out[1].dtype() == DType::Int32;
  parallel_for(lines(d.pool), grain(line_work(d.pool)), [&](int64_t begin, int64_t end) {
    const Scratch scratch(line_room(d.pool, type));
    level_of::max_pool_lines(type_of(type), static_cast<const Pool*>(&d.pool),
                             static_cast<const void*>(x.data()), static_cast<void*>(y.data()), taps,
                             begin, end, static_cast<void*>(scratch.data()));
  });
  if (out.dtype() != type) copy_raw(out, y);
}

void max_pool_scatter(Call& c) {
  const Tensor &taps = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  const bool planes = by_planes(out);
  Description d;
  describe(d, c, 3, out.shape(), taps.shape(), planes, true);
  d.pool.wide = taps.dtype() == DType::Int32;
  const Pool& p = d.pool;
  const bool direct = out.dtype() == DType::BFloat16 && p.apart && p.channels >= kScatterChannels &&
                      p.axis[0].kernel * p.axis[1].kernel * p.axis[2].kernel <= kScatterTaps;
  const DType type = direct ? DType::BFloat16 : computed_in(out.dtype());
  const Tensor g = prepared(c.tensor(0), type, planes);
  const Tensor t = prepared(taps, taps.dtype(), planes), x = result_for(out, type);
  parallel_for(d.pool.images, grain(image_work(d.pool)), [&](int64_t begin, int64_t end) {
    level_of::max_pool_scatter(
        type_of(type), static_cast<const Pool*>(&d.pool), static_cast<const void*>(g.data()),
        static_cast<const void*>(t.data()), static_cast<void*>(x.data()), begin, end);
  });
  if (out.dtype() != type) copy_raw(out, x);
}

void max_pool_gather(Call& c) {
  const Tensor &taps = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  const bool planes = by_planes(out);
  const DType type = computed_in(out.dtype());
  const Tensor x = prepared(c.tensor(0), type, planes);
  const Tensor t = prepared(taps, taps.dtype(), planes), y = result_for(out, type);
  Description d;
  describe(d, c, 2, x.shape(), taps.shape(), planes, true);
  d.pool.wide = taps.dtype() == DType::Int32;
  parallel_for(d.pool.images, grain(image_work(d.pool)), [&](int64_t begin, int64_t end) {
    level_of::max_pool_gather(
        type_of(type), static_cast<const Pool*>(&d.pool), static_cast<const void*>(x.data()),
        static_cast<const void*>(t.data()), static_cast<void*>(y.data()), begin, end);
  });
  if (out.dtype() != type) copy_raw(out, y);
}

// A gather from a plane that holds its own positions.
void pool_positions(Call& c) {
  const Tensor &taps = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  Sizes one{1, 1};
  for (int64_t s : c.ints(1)) one.push_back(s);
  Tensor places = empty(one, DType::Int64);
  for (int64_t i = 0; i < places.numel(); ++i) places.data<int64_t>()[i] = i + 1;
  const Tensor t = packed(taps);
  Tensor result = out.contiguous() ? out : empty(out.shape(), DType::Int64);
  Sizes y = taps.shape();  // of one plane
  y[0] = y[1] = 1;
  Description d;
  describe(d, c, 2, one, y, true, true);
  d.pool.wide = taps.dtype() == DType::Int32;
  const int64_t planes = taps.size(0) * taps.size(1),
                each = taps.numel() / std::max<int64_t>(1, planes);
  parallel_for(planes, grain(image_work(d.pool)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      level_of::max_pool_gather(
          2, static_cast<const Pool*>(&d.pool), static_cast<const void*>(places.data()),
          static_cast<const void*>(t.data() + i * each * dtype_size(t.dtype())),
          static_cast<void*>(result.data<int64_t>() + i * each), int64_t{0}, int64_t{1});
  });
  if (!out.contiguous()) copy_raw(out, result);
}

void avg_pool(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool planes = by_planes(c.tensor(0));
  const DType type = computed_in(out.dtype());
  const Tensor x = prepared(c.tensor(0), type, planes), y = result_for(out, type);
  Description d;
  describe(d, c, 4, x.shape(), out.shape(), planes, false);
  if (!c.flag(3)) count_inside_only(d);
  d.pool.divisor = c.integer(2);
  parallel_for(lines(d.pool), grain(line_work(d.pool)), [&](int64_t begin, int64_t end) {
    const Scratch scratch(static_cast<size_t>(lines_at_once(d.pool) *
                                              (d.pool.axis[2].in + kPoolRoom) * dtype_size(type)));
    level_of::avg_pool_lines(type_of(type), static_cast<const Pool*>(&d.pool),
                             static_cast<const void*>(x.data()), static_cast<void*>(y.data()),
                             begin, end, static_cast<void*>(scratch.data()));
  });
  if (out.dtype() != type) copy_raw(out, y);
}

void avg_pool_spread(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const bool planes = by_planes(out);
  const DType type = computed_in(out.dtype());
  const Tensor g = prepared(c.tensor(0), type, planes), x = result_for(out, type);
  Description d;
  describe(d, c, 4, out.shape(), g.shape(), planes, false);
  if (!c.flag(3)) count_inside_only(d);
  d.pool.divisor = c.integer(2);
  parallel_for(d.pool.images, grain(image_work(d.pool)), [&](int64_t begin, int64_t end) {
    const PoolAxis& line = d.pool.axis[2];
    const Scratch scratch(static_cast<size_t>((line.in + line.out) * dtype_size(type)));
    level_of::avg_pool_spread(type_of(type), static_cast<const Pool*>(&d.pool),
                              static_cast<const void*>(g.data()), static_cast<void*>(x.data()),
                              begin, end, static_cast<void*>(scratch.data()));
  });
  if (out.dtype() != type) copy_raw(out, x);
}

BIND_KERNEL(Cpu, "max_pool", max_pool);
BIND_KERNEL(Cpu, "max_pool_scatter", max_pool_scatter);
BIND_KERNEL(Cpu, "max_pool_gather", max_pool_gather);
BIND_KERNEL(Cpu, "pool_positions", pool_positions);
BIND_KERNEL(Cpu, "avg_pool", avg_pool);
BIND_KERNEL(Cpu, "avg_pool_spread", avg_pool_spread);

}  // namespace tycho::cpu
