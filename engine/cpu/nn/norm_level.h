// What the kernels of the norms share: their inner loops by type (norm.h), and tensors brought into
// the type and layout that they are computed in.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/cpu/nn/norm.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/layout.h"

#define NORM_LEVEL(T, name, ...)         \
  do {                                   \
    if constexpr (sizeof(T) == 8)        \
      level_of::name##_f64(__VA_ARGS__); \
    else                                 \
      level_of::name##_f32(__VA_ARGS__); \
  } while (0)
// Of those that read bfloat16 as it lies, too.
#define NORM_LEVEL_16(S, name, ...)       \
  do {                                    \
    if constexpr (sizeof(S) == 2)         \
      level_of::name##_bf16(__VA_ARGS__); \
    else                                  \
      NORM_LEVEL(S, name, __VA_ARGS__);   \
  } while (0)

namespace tycho::cpu {

constexpr int64_t kWork = 8192;  // elements worth a chunk of their own

inline int64_t grain(int64_t cost) {
  return std::max<int64_t>(1, kWork / std::max<int64_t>(1, cost));
}

inline DType wide(DType t) { return t == DType::Float64 ? t : DType::Float32; }

template <class S>
constexpr DType type_of = sizeof(S) == 2   ? DType::BFloat16
                          : sizeof(S) == 4 ? DType::Float32
                                           : DType::Float64;

// Joins the statistics of two parts (Chan and others, 1979).
struct Moments {
  double count = 0, mean = 0, m2 = 0;
  void join(const Moments& other) { join(other.count, other.mean, other.m2); }
  void join(double n, double other_mean, double other_m2) {
    if (n == 0) return;
    const double step = other_mean - mean, all = count + n;
    m2 += other_m2 + step * step * count * n / all;
    mean += step * n / all;
    count = all;
  }
};

// Of a row or a group: the sums of g w and of g w (x - mean).
struct Sums {
  double sum = 0, dot = 0;
  void join(const Sums& s) { sum += s.sum, dot += s.dot; }
};
template <class T>
void joins(T& all, const T& more) {
  all.join(more);
}

// Runs f<float>() or f<double>() by the type to compute in.
template <class F>
void typed(DType t, F f) {
  if (t == DType::Float64)
    f(double());
  else
    f(float());
}

inline bool lies(const Tensor& t, const Sizes& stride) {
  for (int d = 0; d < t.rank(); ++d)
    if (t.size(d) > 1 && t->stride[d] != stride[d]) return false;
  return true;
}

// The tensor in a type and layout; itself where it already is.
inline Tensor arranged(const Tensor& t, DType dtype, const Sizes& stride) {
  if (t.dtype() == dtype && lies(t, stride)) return t;
  const Tensor copy = empty_strided(t.shape(), stride, dtype, {});
  copy_raw(copy, t);
  return copy;
}
// Where to write a result that is to end in `out`.
inline Tensor target(const Tensor& out, DType dtype, const Sizes& stride) {
  if (out.dtype() == dtype && lies(out, stride)) return out;
  return empty_strided(out.shape(), stride, dtype, {});
}
inline void finish(const Tensor& out, const Tensor& result) {
  if (out.get() != result.get()) copy_raw(out, result);
}

// The numbers of a tensor, in order and where they lie, if they can be read there; `standard` n times when
// there is none.
template <class T>
class Numbers {
 public:
  Numbers(const Tensor& t, int64_t n, double standard) {
    if (t && t.contiguous() && t.dtype() == type_of<T> && t.numel() == n) {
      at_ = t.data<T>();
      return;
    }
    own_ = empty({n}, type_of<T>);
    at_ = own_.data<T>();
    if (!t)
      std::fill_n(own_.data<T>(), n, static_cast<T>(standard));
    else if (n > 0)
      copy_raw(own_, t.rank() == 1 ? t : alias(packed(t), {n}, {1}, packed(t)->offset));
  }
  const T& operator[](int64_t i) const { return at_[i]; }
  const T* data() const { return at_; }

 private:
  Tensor own_;
  const T* at_;
};

// The same to be changed.
template <class T>
std::vector<T> values(const Tensor& t, int64_t n, double standard) {
  const Numbers<T> given(t, n, standard);
  return std::vector<T>(given.data(), given.data() + n);
}

}  // namespace tycho::cpu
