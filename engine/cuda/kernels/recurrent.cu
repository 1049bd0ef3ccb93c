// Steps of recurrent layers: all gates of a unit in one thread, forward and backward.
#include "engine/cuda/kernels/recurrent.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;
using tycho::Recurrence;

namespace {

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline double tanh_of(double x) { return tanh(x); }

// 1 / (1 + e^-x): where e^-x is infinite, 0.
template <class T>
__device__ inline T gate(T x) {
  return 1 / (1 + exp_of(-x));
}
// The gradients before a gate and a tanh that have the value y.
template <class T>
__device__ inline T gate_grad(T g, T y) {
  return g * y * (1 - y);
}
template <class T>
__device__ inline T tanh_grad(T g, T y) {
  return g * (1 - y * y);
}

template <class T>
__device__ inline void step(const RecurrentStep& s) {
  const auto in = [](const void* p) { return static_cast<const T*>(p); };
  const auto to = [](void* p) { return static_cast<T*>(p); };
  const int64_t n = s.n;
  for (int64_t i = first_element(); i < s.rows * n; i += all_threads()) {
    const int64_t row = i / n, j = i - row * n;
    T h;
    if (s.kind == Recurrence::Lstm) {
      const T* const sums = in(s.sums) + row * 4 * n + j;
      const T iv = gate(sums[0]), fv = gate(sums[n]), gv = tanh_of(sums[2 * n]),
              ov = gate(sums[3 * n]), c = fv * to(s.c)[i] + iv * gv;
      h = ov * tanh_of(c);
      to(s.c)[i] = c;
      if (s.saved) {
        to(s.cells)[i] = c;
        T* const kept = to(s.saved) + row * 4 * n + j;
        kept[0] = iv;
        kept[n] = fv;
        kept[2 * n] = gv;
        kept[3 * n] = ov;
      }
    } else if (s.kind == Recurrence::Gru) {
      const T *const x = in(s.x) + row * 3 * n + j, *const y = in(s.sums) + row * 3 * n + j;
      const T* const b = s.bias ? in(s.bias) + j : nullptr;
      const T r = gate(x[0] + (y[0] + (b ? b[0] : 0))), z = gate(x[n] + (y[n] + (b ? b[n] : 0))),
              u = y[2 * n] + (b ? b[2 * n] : 0), v = tanh_of(x[2 * n] + r * u);
      h = v + z * (to(s.h)[i] - v);
      if (s.saved) {
        T* const kept = to(s.saved) + row * 4 * n + j;
        kept[0] = r;
        kept[n] = z;
        kept[2 * n] = v;
        kept[3 * n] = u;
      }
    } else {
      const T x = in(s.sums)[i];
      h = s.kind == Recurrence::Tanh ? tanh_of(x) : x < 0 ? T(0) : x;
    }
    to(s.h)[i] = h;
    to(s.out)[i] = h;
  }
}

template <class T>
__device__ inline void back(const RecurrentGrad& s) {
  const auto in = [](const void* p) { return static_cast<const T*>(p); };
  const auto to = [](void* p) { return static_cast<T*>(p); };
  const int64_t n = s.n;
  for (int64_t i = first_element(); i < s.rows * n; i += all_threads()) {
    const int64_t row = i / n, j = i - row * n;
    const T d = to(s.dh)[i] + (s.g ? in(s.g)[i] : T(0));
    if (s.kind == Recurrence::Tanh || s.kind == Recurrence::Relu) {
      const T y = in(s.out)[i];
      to(s.dx)[i] = s.kind == Recurrence::Tanh ? tanh_grad(d, y) : y > 0 ? d : T(0);
      continue;
    }
    const T before = row < s.later ? in(s.before)[i] : in(s.first)[i];
    const T* const kept = in(s.saved) + row * 4 * n + j;
    if (s.kind == Recurrence::Lstm) {
      const T iv = kept[0], fv = kept[n], gv = kept[2 * n], ov = kept[3 * n];
      const T t = tanh_of(in(s.cells)[i]), e = to(s.dc)[i] + tanh_grad(d * ov, t);
      T* const dx = to(s.dx) + row * 4 * n + j;
      dx[0] = gate_grad(e * gv, iv);
      dx[n] = gate_grad(e * before, fv);
      dx[2 * n] = tanh_grad(e * iv, gv);
      dx[3 * n] = gate_grad(d * t, ov);
      to(s.dc)[i] = e * fv;
    } else {
      const T r = kept[0], z = kept[n], v = kept[2 * n], u = kept[3 * n];
      const T dv = tanh_grad(d * (1 - z), v), dz = gate_grad(d * (before - v), z),
              dr = gate_grad(dv * u, r);
      T *const dx = to(s.dx) + row * 3 * n + j, *const dhx = to(s.dhx) + row * 3 * n + j;
      dx[0] = dhx[0] = dr;
      dx[n] = dhx[n] = dz;
      dx[2 * n] = dv;
      dhx[2 * n] = dv * r;
      to(s.dh)[i] = d * z;
    }
  }
}

}  // namespace

extern "C" __global__ void recurrent_step_f32(RecurrentStep s) { step<float>(s); }
extern "C" __global__ void recurrent_step_f64(RecurrentStep s) { step<double>(s); }
extern "C" __global__ void recurrent_back_f32(RecurrentGrad s) { back<float>(s); }
extern "C" __global__ void recurrent_back_f64(RecurrentGrad s) { back<double>(s); }
TYCHO_KERNEL(recurrent_step_f32)
TYCHO_KERNEL(recurrent_step_f64)
TYCHO_KERNEL(recurrent_back_f32)
TYCHO_KERNEL(recurrent_back_f64)
