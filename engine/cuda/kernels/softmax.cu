// softmax, log_softmax and their gradients along a dimension: the largest element and the sum of
// exponentials in one pass, the results in a second one.
#include "engine/cuda/kernels/along_fold.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }

// The sum of exp(x - top) over what was seen; nan where an element was nan or infinite.
template <class T>
struct Mass {
  T top, sum;
};
template <class T>
__device__ inline Mass<T> from_below(Mass<T> s, int by) {
  return {tycho::cuda::from_below(s.top, by), tycho::cuda::from_below(s.sum, by)};
}

// The same of rows that threads hold. What is not finite is in the sum.
template <class T>
__device__ inline void softmax_of_held(const Along& a, const RowThread& t) {
  TYCHO_SHARED(T, tile, 256);
  const T low = -static_cast<T>(__builtin_huge_val());
  HeldOfRow<T> row(t, a.in, a.in_dtype, low);
  T top = low, sum = 0;
  row.each(t, [&](int64_t, T& x) { top = x > top ? x : top; });
  top = over_row(t, tile, top, [](T p, T q) { return p > q ? p : q; });
  row.each(t, [&](int64_t, T& x) {
    x -= top;
    const T e = exp_of(x);
    sum += e;
    if (!a.log) x = e;
  });
  sum = over_row(t, tile, sum, [](T p, T q) { return p + q; });
  const T scale = T(1) / sum, shift = log_of(sum);
  row.each(t, [&](int64_t i, T& x) {
    store<T>(a.out, a.out_dtype, t.at(i), a.log ? x - shift : x * scale);
  });
}

template <class T>
__device__ inline void softmax(const Along& a) {
  const RowThread t(a);
  if (may_be_held(t, a)) return softmax_of_held<T>(a, t);
  TYCHO_SHARED(Mass<T>, tile, 256);
  const T low = -static_cast<T>(__builtin_huge_val());
  Mass<T> s{low, T(0)};
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T x = load<T>(a.in, a.in_dtype, t.at(i));
    if (x > s.top) {
      s.sum = s.sum * exp_of(s.top - x) + exp_of(x - x);
      s.top = x;
    } else if (x != low) {
      s.sum += exp_of(x - s.top);
    }
  }
  s = over_row(t, tile, s, [](Mass<T> p, Mass<T> q) {
    const T top = p.top > q.top ? p.top : q.top;
    const T left = p.sum == T(0) ? T(0) : p.sum * exp_of(p.top - top);
    return Mass<T>{top, left + (q.sum == T(0) ? T(0) : q.sum * exp_of(q.top - top))};
  });
  const T scale = T(1) / s.sum, shift = log_of(s.sum);
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T x = load<T>(a.in, a.in_dtype, t.at(i)) - s.top;
    store<T>(a.out, a.out_dtype, t.at(i), a.log ? x - shift : exp_of(x) * scale);
  }
}

// `in` is the forward result.
template <class T>
__device__ inline void softmax_backward(const Along& a) {
  TYCHO_SHARED(T, tile, 256);
  const RowThread t(a);
  T s = 0;
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T g = load<T>(a.grad, a.grad_dtype, t.at(i));
    s += a.log ? g : g * load<T>(a.in, a.in_dtype, t.at(i));
  }
  s = over_row(t, tile, s, [](T p, T q) { return p + q; });
  for (int64_t i = t.first; i < t.n; i += t.step) {
    const T g = load<T>(a.grad, a.grad_dtype, t.at(i)), y = load<T>(a.in, a.in_dtype, t.at(i));
    store<T>(a.out, a.out_dtype, t.at(i), a.log ? g - exp_of(y) * s : y * (g - s));
  }
}

}  // namespace

extern "C" __global__ void softmax_f32(Along a) { softmax<float>(a); }
extern "C" __global__ void softmax_f64(Along a) { softmax<double>(a); }
extern "C" __global__ void softmax_backward_f32(Along a) { softmax_backward<float>(a); }
extern "C" __global__ void softmax_backward_f64(Along a) { softmax_backward<double>(a); }
TYCHO_KERNEL(softmax_f32)
TYCHO_KERNEL(softmax_f64)
TYCHO_KERNEL(softmax_backward_f32)
TYCHO_KERNEL(softmax_backward_f64)
