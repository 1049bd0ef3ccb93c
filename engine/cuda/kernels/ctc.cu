// ctc_loss by the forward and backward recursions of Graves et al. (2006), in logarithms and double, as
// on the CPU: the states of a step are a block's threads, both recursions go on at once.
#include "engine/cuda/kernels/ctc.cuh"
#include "engine/cuda/kernels/elements.cuh"

using namespace tycho::cuda;

namespace {

constexpr double kNever = -static_cast<double>(__builtin_huge_val());

__device__ inline double log_add(double a, double b) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  return low == kNever ? high : high + log1p(exp(low - high));
}

struct Sequence {
  const Ctc& a;
  int64_t i, steps, states;
  const int64_t* labels;
  double *forward, *backward;
  int64_t* next;

  __device__ explicit Sequence(const Ctc& of)
      : a(of),
        i(blockIdx.x),
        steps(of.steps[i]),
        states(2 * (of.begin[i + 1] - of.begin[i]) + 1),
        labels(of.labels + of.begin[i]),
        forward(of.forward + i * of.all_steps * of.states),
        backward(of.backward + i * of.all_steps * of.states),
        next(of.next + i * of.states) {}
  __device__ int64_t label(int64_t s) const { return s & 1 ? labels[s / 2] : a.blank; }
  // A state may be reached from two before when its label differs from that one's and is no blank.
  __device__ bool jumps(int64_t s) const { return s >= 2 && (s & 1) && label(s) != label(s - 2); }
  __device__ int64_t at(int64_t t, int64_t c) const { return (t * a.n + i) * a.classes + c; }
  __device__ double p(int64_t t, int64_t c) const { return load<double>(a.x, a.dtype, at(t, c)); }

  // State s after step t of the forward recursion, and before step steps - 1 - t of the other.
  __device__ void go(int64_t t, int64_t s) const {
    const int64_t u = steps - 1 - t;
    double up = s <= 1 ? 0 : kNever, down = s >= states - 2 ? 0 : kNever;
    if (t > 0) {
      const double *f = forward + (t - 1) * states, *b = backward + (u + 1) * states;
      up = f[s];
      if (s >= 1) up = log_add(up, f[s - 1]);
      if (jumps(s)) up = log_add(up, f[s - 2]);
      down = b[s];
      if (s + 1 < states) down = log_add(down, b[s + 1]);
      if (s + 2 < states && jumps(s + 2)) down = log_add(down, b[s + 2]);
    }
    forward[t * states + s] = up + p(t, label(s));
    backward[u * states + s] = down + p(u, label(s));
  }
  __device__ double likelihood() const {
    if (steps == 0) return states == 1 ? 0 : kNever;
    const double* last = forward + (steps - 1) * states;
    return states == 1 ? last[0] : log_add(last[states - 1], last[states - 2]);
  }
  __device__ double slope(int64_t t, int64_t c, double both, double loss) const {
    return exp(p(t, c)) - exp(both + loss - p(t, c));
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 2) ctc(Ctc a) {
  const Sequence q(a);
  const int64_t thread = threadIdx.x, threads = 256;
  for (int64_t s = thread; s < q.states; s += threads) {
    const int64_t mine = q.label(s);
    int64_t other = s + 1;
    while (other < q.states && q.label(other) != mine) ++other;
    q.next[s] = other < q.states ? other : -1;
  }
  for (int64_t t = 0; t < q.steps; ++t) {
    for (int64_t s = thread; s < q.states; s += threads) q.go(t, s);
    __syncthreads();
  }
  const double loss = -q.likelihood();
  const bool drop = a.zero_infinity && (loss == kNever || loss == -kNever);
  if (thread == 0) store<double>(a.loss, a.dtype, q.i, drop ? 0 : loss);
  for (int64_t k = thread; k < a.all_steps * a.classes; k += threads) {
    const int64_t t = k / a.classes, c = k - t * a.classes;
    store<double>(a.gradient, a.dtype, q.at(t, c),
                  t >= q.steps || drop ? 0 : q.slope(t, c, kNever, loss));
  }
  __syncthreads();
  // Classes that stand in the sequence: by the first of their states.
  for (int64_t k = thread; k < q.steps * q.states && !drop; k += threads) {
    const int64_t t = k / q.states, s = k - t * q.states, c = q.label(s);
    bool first = true;
    for (int64_t r = s - 1; r >= 0 && first; --r) first = q.next[r] != s;
    if (!first) continue;
    double both = kNever;
    for (int64_t r = s; r >= 0; r = q.next[r])
      both = log_add(both, q.forward[t * q.states + r] + q.backward[t * q.states + r]);
    store<double>(a.gradient, a.dtype, q.at(t, c), q.slope(t, c, both, loss));
  }
}
TYCHO_KERNEL(ctc)
