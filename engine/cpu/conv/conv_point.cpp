// Convolutions of a single tap as products of matrices, image by image or all at once.
#include "engine/cpu/conv/conv_point.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

int64_t pixels(const Window& w) { return w.in[0] * w.in[1] * w.in[2]; }

template <class T>
void add_part(int64_t n, const void* from, void* to) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] += static_cast<const T*>(from)[i];
}

}  // namespace

bool single_tap(const Convolution& c) {
  const Window& w = c.window;
  for (int d = 0; d < 3; ++d)
    if (w.kernel[d] != 1 || w.stride[d] != 1 || w.pad[d] != 0 || w.in[d] != w.out[d]) return false;
  return true;
}

bool pixels_of(const Tensor& x, Pixels* p) {
  int64_t step = 0, count = 1;  // of pixels seen so far, from the last dimension on
  for (int d = x.rank() - 1; d >= 2; --d) {
    if (x.size(d) == 1) continue;
    if (count == 1) step = x.stride(d);
    if (x.stride(d) != step * count) return false;
    count *= x.size(d);
  }
  *p = {x.data(), x.stride(0), step, x.stride(1)};
  if (count == 1) p->pixel = p->channel == 1 ? x.size(1) : 1;
  if (x.size(0) == 1) p->image = p->pixel * count;
  return true;
}

void match_images(Convolution* c, int64_t images, int64_t plane, Pixels* p) {
  Window& w = c->window;
  const int64_t planes = w.images / std::max<int64_t>(1, images);
  if (planes <= 1) return;
  if (images == 1 || p->image == p->pixel * plane * planes)
    p->image = p->pixel * plane;
  else
    w.images = images, w.in[0] = w.out[0] = planes;
}

bool single_tap_product_pays(const Convolution& c, const Pixels& from) {
  const Window& w = c.window;
  const int64_t in = w.channels / c.groups, out = c.out_channels / c.groups;
  if (from.image == from.pixel * pixels(w) && from.channel == 1) return c.groups == 1;
  // A product costs something by itself, and packs its weight again for every image.
  constexpr int64_t kFewPixels = 64, kLittleWork = 20000;
  if (dtype_size(c.dtype) == 2 && from.pixel != 1 && from.channel != 1) return false;
  if (w.images > 1 && pixels(w) < kFewPixels) return false;
  if (c.groups == 1) return in * out > 1;
  return in > 1 && out > 1 && pixels(w) * in * out >= kLittleWork;
}

void single_tap_product(const Convolution& c, bool back, const Pixels& from, const void* w,
                        int64_t w_out, int64_t w_in, const void* bias, void* to) {
  const Window& win = c.window;
  const int size = dtype_size(c.dtype);
  const int64_t in = win.channels / c.groups, out = c.out_channels / c.groups;
  constexpr int64_t kFarBytes = 1 << 20;  // of a result that no near cache holds
  int64_t images = win.images, rows = pixels(win);
  if (from.image == from.pixel * rows) rows *= images, images = 1;
  const int64_t columns = back ? win.channels : c.out_channels;
  const auto run = [&](int64_t begin, int64_t end, bool alone) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t g = 0; g < c.groups; ++g) {
        Product p{};
        p.dtype = c.dtype;
        p.m = rows, p.n = back ? in : out, p.k = back ? out : in;
        p.a =
            static_cast<const char*>(from.data) + (n * from.image + g * p.k * from.channel) * size;
        p.a_row = from.pixel, p.a_col = from.channel;
        p.b = static_cast<const char*>(w) + g * out * w_out * size;
        p.b_row = back ? w_out : w_in, p.b_col = back ? w_in : w_out;
        p.c = static_cast<char*>(to) + (n * rows * columns + g * p.n) * size;
        p.c_row = columns;
        p.bias = bias ? static_cast<const char*>(bias) + g * p.n * size : nullptr;
        p.alone = alone;
        p.far = rows * columns * size >= kFarBytes;
        gemm(p);
      }
  };
  // Many images are shared out; a few, or large ones, have their rows shared out.
  constexpr int64_t kLarge = int64_t{1} << 26, kChunk = int64_t{1} << 18;  // multiply-adds
  const int64_t work = std::max<int64_t>(1, rows * in * c.out_channels);
  if (images < 2 * get_num_threads() || work > kLarge) return run(0, images, false);
  parallel_for(images, std::max<int64_t>(1, kChunk / work),
               [&](int64_t begin, int64_t end) { run(begin, end, true); });
}

bool single_tap_weight_pays(const Convolution& c, const Pixels& x) {
  constexpr int64_t kFewOutputs = 8, kManyPixels = 64;
  return c.groups == 1 && single_tap(c) && x.pixel == 1 && x.channel > 1 &&
         c.out_channels <= kFewOutputs && pixels(c.window) >= kManyPixels &&
         (c.dtype == DType::Float32 || c.dtype == DType::Float64);
}

void single_tap_weight(const Convolution& c, const void* y, const Pixels& x, void* w) {
  const int size = dtype_size(c.dtype);
  const int64_t plane = pixels(c.window), numel = c.out_channels * c.window.channels;
  const Scratch one(static_cast<size_t>(numel * size));
  std::memset(w, 0, static_cast<size_t>(numel * size));
  for (int64_t n = 0; n < c.window.images; ++n) {
    Product p{};
    p.dtype = c.dtype;
    p.m = c.out_channels, p.n = c.window.channels, p.k = plane;
    p.a = static_cast<const char*>(y) + n * c.out_channels * plane * size;
    p.a_row = plane, p.a_col = 1;
    p.b = static_cast<const char*>(x.data) + n * x.image * size;
    p.b_row = 1, p.b_col = x.channel;
    p.c = one.data(), p.c_row = p.n;
    gemm(p);
    c.dtype == DType::Float32 ? add_part<float>(numel, one.data(), w)
                              : add_part<double>(numel, one.data(), w);
  }
}

}  // namespace tycho::cpu
