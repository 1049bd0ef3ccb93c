// Convolutions without cuDNN: windows of the images become rows of a matrix, some hundred megabytes at a
// time, and cuBLASLt multiplies them. Integers and groups of few channels are summed by own kernels.
#include <algorithm>

#include "engine/cuda/blas.h"
#include "engine/cuda/conv.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/nn/conv.h"

namespace tycho::cuda {

int64_t most_conv_windows = 256 << 20;

namespace {

constexpr int64_t kFewChannels = 32;                // in x out of a group: too little for a product
constexpr int64_t kMostThreads = int64_t{1} << 17;  // that a weight's sums are split over

int64_t at_least_one(int64_t n) { return std::max<int64_t>(1, n); }

// x [images, pixels, groups, in], w [groups, out, taps, in], y [images, positions, groups, out].
class Products {
 public:
  Products(const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& y)
      : s_(s), x_(x), w_(w), y_(y), device_(x.device()), type_(x.dtype()) {
    for (const ConvAxis& a : s.axis) {
      taps_ *= a.kernel, positions_ *= a.out, pixels_ *= a.in;
      // A kernel of one tap at every pixel: images are their own windows.
      plain_ = plain_ && a.kernel == 1 && a.stride == 1 && a.front == 0 && a.in == a.out;
    }
    k_ = taps_ * s.in;
    rows_ = s.images * positions_;
    lanes_ = type_ == DType::Float64 ? DType::Float64
             : is_floating(type_)    ? DType::Float32
                                     : DType::Int64;
    bytes_of_row_ = s.groups * k_ * dtype_size(lanes_);
  }

  void run(ConvKind kind) const {
    const bool direct = !is_floating(type_) || s_.in * s_.out <= kFewChannels;
    switch (kind) {
      case ConvKind::Forward:
        return direct ? run_direct("forward", y_) : forward();
      case ConvKind::Input:
        // Windows that are added up are there for all of an image.
        return direct || (!plain_ && positions_ * bytes_of_row_ > 16 * most_conv_windows)
                   ? run_direct("input", x_)
                   : input();
      case ConvKind::Weight:
        return direct ? weight_direct() : weight();
    }
  }

 private:
  ConvCall call() const {
    return {s_, x_.data<void>(), w_.data<void>(), y_.data<void>(), nullptr, number_of(type_), 0, 1};
  }
  void launch_over(const char* kernel, int64_t n, const ConvCall& c) const {
    launch(device_, {"conv", kernel}, grid_for(device_, n), {256}, 0, c);
  }
  const char* in_lanes(const char* const (&names)[3]) const {
    return names[lanes_ == DType::Float32 ? 0 : lanes_ == DType::Float64 ? 1 : 2];
  }
  void run_direct(std::string_view what, const Tensor& made) const {
    static constexpr const char* kForward[] = {"conv_forward_f32", "conv_forward_f64",
                                               "conv_forward_i64"};
    static constexpr const char* kInput[] = {"conv_input_f32", "conv_input_f64", "conv_input_i64"};
    launch_over(what == "forward" ? in_lanes(kForward) : in_lanes(kInput), made.numel(), call());
  }

  char* at(const Tensor& t, int64_t element) const {
    return t.data<char>() + element * dtype_size(type_);
  }
  int64_t rows_at_once() const {
    return plain_ ? rows_ : std::clamp<int64_t>(most_conv_windows / bytes_of_row_, 1, rows_);
  }
  // Rows [first, first + count) of the windows as a stack of matrices [count, taps x in].
  Matrix windows(int64_t first, int64_t count, void* memory) const {
    if (plain_) return {at(x_, first * s_.groups * s_.in), false, s_.groups * s_.in, s_.in};
    ConvCall c = call();
    c.made = memory;
    c.first = first, c.count = count;
    const int size = dtype_size(type_);
    launch_over(size == 2   ? "conv_windows_16"
                : size == 4 ? "conv_windows_32"
                            : "conv_windows_64",
                s_.groups * count * k_, c);
    return {memory, false, k_, count * k_};
  }
  size_t windows_bytes(int64_t count) const {
    return plain_ ? 0 : static_cast<size_t>(s_.groups * count * k_ * dtype_size(type_));
  }
  Multiplication product(int64_t m, int64_t n, int64_t k) const {
    Multiplication p{};
    p.type = type_;
    p.precision =
        convolution_settings.allow_tf32 ? MatmulPrecision::High : MatmulPrecision::Highest;
    p.batch = s_.groups;
    p.m = m, p.n = n, p.k = k;
    return p;
  }
  // Rows of y from `first` on, as a side of a product.
  Matrix results(int64_t first, bool by_columns) const {
    return {at(y_, first * s_.groups * s_.out), by_columns, s_.groups * s_.out, s_.out};
  }

  void forward() const {
    const int64_t each = rows_at_once();
    const Scratch memory(device_, windows_bytes(each));
    for (int64_t first = 0; first < rows_; first += each) {
      const int64_t count = std::min(each, rows_ - first);
      Multiplication p = product(count, s_.out, k_);
      p.a = windows(first, count, memory.as());
      p.b = {w_.data<void>(), true, k_, s_.out * k_};
      p.out = at(y_, first * s_.groups * s_.out);
      p.out_ld = s_.groups * s_.out, p.out_step = s_.out;
      multiply(device_, p);
    }
  }

  // Contributions of 16-bit numbers are added up in float32.
  void input() const {
    const int64_t each =
        plain_ ? s_.images
               : std::clamp<int64_t>(most_conv_windows / at_least_one(positions_ * bytes_of_row_),
                                     1, s_.images);
    const Scratch memory(device_,
                         plain_ ? 0 : static_cast<size_t>(each * positions_ * bytes_of_row_));
    for (int64_t first = 0; first < s_.images; first += each) {
      const int64_t images = std::min(each, s_.images - first), rows = images * positions_;
      Multiplication p = product(rows, k_, s_.out);
      p.a = results(first * positions_, false);
      p.b = {w_.data<void>(), false, k_, s_.out * k_};
      ConvCall c = call();
      c.x = at(x_, first * pixels_ * s_.groups * s_.in);
      c.shape.images = images;
      if (plain_) {
        p.out = c.x;
        p.out_ld = s_.groups * s_.in, p.out_step = s_.in;
        multiply(device_, p);
        continue;
      }
      p.out = c.made = memory.as();
      p.out_float32 = dtype_size(type_) == 2;
      multiply(device_, p);
      launch_over(lanes_ == DType::Float64 ? "conv_fold_f64" : "conv_fold_f32",
                  images * pixels_ * s_.groups * s_.in, c);
    }
  }

  // Sums of 16-bit numbers are kept in float32 and rounded once.
  void weight() const {
    const int64_t n = w_.numel();
    const Tensor sums = lanes_ == type_ ? w_ : empty({n}, lanes_, device_);
    const int64_t each = rows_at_once();
    const Scratch memory(device_, windows_bytes(each));
    for (int64_t first = 0; first < rows_; first += each) {
      const int64_t count = std::min(each, rows_ - first);
      Multiplication p = product(s_.out, k_, count);
      p.a = results(first, true);
      p.b = windows(first, count, memory.as());
      p.out = sums.data<void>();
      p.out_float32 = lanes_ != type_;
      p.add = first > 0;
      multiply(device_, p);
    }
    if (lanes_ != type_) copy_raw(alias(w_, {n}, {1}, w_->offset), sums);
  }

  void weight_direct() const {
    const int64_t n = w_.numel(), channels = s_.groups * s_.out;
    const int64_t parts = std::clamp<int64_t>(rows_ / 32, 1, at_least_one(kMostThreads / n));
    const Tensor sums = empty({parts, n}, lanes_, device_);
    ConvCall c = call();
    c.made = sums.data<void>();
    c.count = parts;
    static constexpr const char* kKernels[] = {"conv_weight_f32", "conv_weight_f64",
                                               "conv_weight_i64"};
    launch_over(in_lanes(kKernels), parts * n, c);
    const Tensor all = packed(op<"sum">(sums, Sizes{0}));  // [taps, in, channels]
    copy_raw(alias(w_, {channels, taps_, s_.in}, {k_, s_.in, 1}, w_->offset),
             alias(all, {channels, taps_, s_.in}, {1, s_.in * channels, channels}, all->offset));
  }

  const ConvShape& s_;
  const Tensor &x_, &w_, &y_;
  Device device_;
  DType type_, lanes_;
  int64_t taps_ = 1, positions_ = 1, pixels_ = 1, k_ = 0, rows_ = 0, bytes_of_row_ = 0;
  bool plain_ = true;
};

}  // namespace

void convolve_by_products(ConvKind kind, const ConvShape& s, const Tensor& x, const Tensor& w,
                          const Tensor& y) {
  Products(s, x, w, y).run(kind);
}

}  // namespace tycho::cuda
