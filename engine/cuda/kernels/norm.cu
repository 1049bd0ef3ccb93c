// layer_norm and rms_norm of rows, and what batch norm and group norm do to every element once the
// statistics are there.
#include "engine/cuda/kernels/along_fold.cuh"
#include "engine/cuda/kernels/norm.cuh"

using namespace tycho::cuda;

namespace {

template <class T>
__device__ inline T weight_at(const void* p, int dtype, int64_t i, T otherwise) {
  return p ? load<T>(p, dtype, i) : otherwise;
}

template <class T>
__device__ inline void leave_statistics(const Along& a, const RowThread& t, T mean, T rstd) {
  if (!t.is_first() || t.k >= a.rows) return;
  static_cast<T*>(a.mean)[t.k] = mean;
  static_cast<T*>(a.rstd)[t.k] = rstd;
}

// Rows that threads hold: the mean first, then the squares of what is left.
template <class T>
__device__ inline void row_norm_of_held(const Along& a, const RowThread& t) {
  TYCHO_SHARED(double, tile, 256);
  HeldOfRow<T> row(t, a.in, a.in_dtype, T(0));
  const auto add = [](double p, double q) { return p + q; };
  const double n = static_cast<double>(a.n);
  double mean = 0;
  if (a.centred) {
    // From the row's first element, so that a common shift costs no digits.
    const T origin = t.n ? load<T>(a.in, a.in_dtype, t.at(0)) : T(0);
    T sum = 0;
    row.each(t, [&](int64_t, T& x) {
      x -= origin;
      sum += x;
    });
    const double off = over_row(t, tile, static_cast<double>(sum), add) / n;
    mean = static_cast<double>(origin) + off;
    const T shift = static_cast<T>(off);
    row.each(t, [&](int64_t, T& x) { x -= shift; });
  }
  T squares = 0;
  row.each(t, [&](int64_t, T& x) { squares += x * x; });
  const double all = over_row(t, tile, static_cast<double>(squares), add);
  const T rstd = static_cast<T>(1 / sqrt(all / n + a.eps));
  leave_statistics(a, t, static_cast<T>(mean), rstd);
  row.each(t, [&](int64_t i, T& x) {
    const T w = weight_at<T>(a.weight, a.weight_dtype, i, T(1));
    const T b = weight_at<T>(a.bias, a.bias_dtype, i, T(0));
    store<T>(a.out, a.out_dtype, t.at(i), x * rstd * w + b);
  });
}

template <class T>
__device__ inline void row_norm(const Along& a) {
  const RowThread t(a);
  if (may_be_held(t, a)) return row_norm_of_held<T>(a, t);
  TYCHO_SHARED(Moment, tile, 256);
  MomentFolder folder;
  double squares = 0;
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const double x = static_cast<double>(load<T>(a.in, a.in_dtype, t.at(i)));
    if (a.centred)
      folder.take(x);
    else
      squares += x * x;
  }
  Moment m = a.centred ? folder.result() : Moment{0, 0, squares};
  m = over_row(t, tile, m, [&](Moment p, Moment q) {
    return a.centred ? meet(p, q) : Moment{0, 0, p.squares + q.squares};
  });
  const T mean = static_cast<T>(m.mean);
  const T rstd = static_cast<T>(1 / sqrt(m.squares / static_cast<double>(a.n) + a.eps));
  leave_statistics(a, t, mean, rstd);
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T w = weight_at<T>(a.weight, a.weight_dtype, i, T(1));
    const T b = weight_at<T>(a.bias, a.bias_dtype, i, T(0));
    store<T>(a.out, a.out_dtype, t.at(i),
             (load<T>(a.in, a.in_dtype, t.at(i)) - mean) * rstd * w + b);
  }
}

// The gradient of the input.
template <class T>
__device__ inline void row_norm_backward(const Along& a) {
  TYCHO_SHARED(Pair<T>, tile, 256);
  const RowThread t(a);
  const bool there = t.k < a.rows;
  const T mean = there ? static_cast<const T*>(a.mean)[t.k] : T(0);
  const T rstd = there ? static_cast<const T*>(a.rstd)[t.k] : T(0);
  Pair<T> s{T(0), T(0)};
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T g =
        load<T>(a.grad, a.grad_dtype, t.at(i)) * weight_at<T>(a.weight, a.weight_dtype, i, T(1));
    s.a += g;
    s.b += g * ((load<T>(a.in, a.in_dtype, t.at(i)) - mean) * rstd);
  }
  s = over_row(t, tile, s, [](Pair<T> p, Pair<T> q) { return Pair<T>{p.a + q.a, p.b + q.b}; });
  const T n = static_cast<T>(a.n), shift = a.centred ? s.a / n : T(0), slope = s.b / n;
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T g =
        load<T>(a.grad, a.grad_dtype, t.at(i)) * weight_at<T>(a.weight, a.weight_dtype, i, T(1));
    const T unit = (load<T>(a.in, a.in_dtype, t.at(i)) - mean) * rstd;
    store<T>(a.out, a.out_dtype, t.at(i), rstd * (g - shift - unit * slope));
  }
}

__device__ inline int64_t first_of_grid() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t size_of_grid() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// From the moments of every group: its mean and 1 / deviation, and every channel's factors.
template <class T>
__device__ inline void channel_factors(const ChannelFactors& c) {
  for (int64_t k = first_of_grid(); k < c.rows; k += size_of_grid()) {
    const int64_t group = k / c.inside, channel = k % c.channels;
    const T mean = static_cast<T>(c.moment_mean[group]);
    const T rstd = static_cast<T>(1 / sqrt(c.moment_var[group] + c.eps));
    if (k % c.inside == 0) {
      static_cast<T*>(c.mean)[group] = mean;
      static_cast<T*>(c.rstd)[group] = rstd;
    }
    static_cast<T*>(c.at)[k] = mean;
    static_cast<T*>(c.factor)[k] = weight_at<T>(c.weight, c.weight_dtype, channel, T(1)) * rstd;
    static_cast<T*>(c.shift)[k] = weight_at<T>(c.bias, c.bias_dtype, channel, T(0));
    for (int j = 0; j < 2; ++j) {
      if (!c.running[j]) continue;
      const double now = j == 0 ? c.moment_mean[group] : c.moment_var[group] * c.unbiased;
      const double before = load<double>(c.running[j], c.running_dtype[j], k);
      store<double>(c.running[j], c.running_dtype[j], k,
                    (1 - c.momentum) * before + c.momentum * now);
    }
  }
}

// From the sums of the gradient and of its products with the normalised input, per channel: the
// factors of the input's gradient.
template <class T>
__device__ inline void channel_slopes(const ChannelFactors& c) {
  for (int64_t k = first_of_grid(); k < c.rows; k += size_of_grid()) {
    const int64_t group = k / c.inside;
    const double mean = static_cast<double>(static_cast<const T*>(c.mean)[group]);
    const double rstd = static_cast<double>(static_cast<const T*>(c.rstd)[group]);
    double sum = 0, dot = 0;
    for (int64_t j = group * c.inside; c.training && j < (group + 1) * c.inside; ++j) {
      const double w = weight_at<double>(c.weight, c.weight_dtype, j % c.channels, 1.0);
      sum += w * c.sum[j];
      dot += w * c.dot[j];
    }
    static_cast<T*>(c.at)[k] = static_cast<T>(mean);
    static_cast<T*>(c.factor)[k] =
        static_cast<T>(weight_at<double>(c.weight, c.weight_dtype, k % c.channels, 1.0) * rstd);
    static_cast<T*>(c.slope)[k] = static_cast<T>(-rstd * rstd * dot / c.count);
    static_cast<T*>(c.shift)[k] = static_cast<T>(-rstd * sum / c.count);
  }
}

// Forward: (x - mean) factor + shift. Backward: factor g + slope (x - mean) + shift.
template <class T>
__device__ inline void channel_apply(const ChannelApply& c) {
  for (int64_t i = first_of_grid(); i < c.numel; i += size_of_grid()) {
    const int64_t k = i / c.inner % c.rows;
    const T x = load<T>(c.in, c.in_dtype, i) - static_cast<const T*>(c.at)[k];
    const T factor = static_cast<const T*>(c.factor)[k], shift = static_cast<const T*>(c.shift)[k];
    const T y = c.grad ? load<T>(c.grad, c.grad_dtype, i) * factor +
                             x * static_cast<const T*>(c.slope)[k] + shift
                       : x * factor + shift;
    store<T>(c.out, c.out_dtype, i, y);
  }
}

}  // namespace

#define KERNELS(name, Argument)                                          \
  extern "C" __global__ void name##_f32(Argument a) { name<float>(a); }  \
  extern "C" __global__ void name##_f64(Argument a) { name<double>(a); } \
  TYCHO_KERNEL(name##_f32)                                               \
  TYCHO_KERNEL(name##_f64)
KERNELS(row_norm, Along)
KERNELS(row_norm_backward, Along)
KERNELS(channel_factors, ChannelFactors)
KERNELS(channel_slopes, ChannelFactors)
KERNELS(channel_apply, ChannelApply)
