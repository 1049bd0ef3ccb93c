// The class losses on the CPU (ops/nn/loss.cpp says what they compute). float16 and bfloat16 scores
// are widened to float32 first. Sums over samples are taken in double, in order.
#include "engine/cpu/nn/loss.h"

#include <algorithm>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/index/index.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/ops/nn/loss.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

void row_lse(const float* x, int64_t rows, int64_t n, float* out) {
  level_of::row_lse_f32(x, rows, n, out);
}
void row_lse(const double* x, int64_t rows, int64_t n, double* out) {
  level_of::row_lse_f64(x, rows, n, out);
}
void column_lse(const float* x, int64_t c, int64_t stride, int64_t n, float* out) {
  level_of::column_lse_f32(x, c, stride, n, out);
}
void column_lse(const double* x, int64_t c, int64_t stride, int64_t n, double* out) {
  level_of::column_lse_f64(x, c, stride, n, out);
}
void exp_scale(const float* x, float* y, int64_t n, float shift, float scale) {
  level_of::exp_scale_f32(x, y, n, shift, scale);
}
void exp_scale(const double* x, double* y, int64_t n, double shift, double scale) {
  level_of::exp_scale_f64(x, y, n, shift, scale);
}
void exp_scale_each(const float* x, float* y, int64_t n, const float* shift, const float* scale) {
  level_of::exp_scale_each_f32(x, y, n, shift, scale);
}
void exp_scale_each(const double* x, double* y, int64_t n, const double* shift,
                    const double* scale) {
  level_of::exp_scale_each_f64(x, y, n, shift, scale);
}

// Row-major, and float32 or float64.
Tensor computable(const Tensor& x) {
  if (x.dtype() == DType::Float32 || x.dtype() == DType::Float64) return packed(x);
  const Tensor wide = empty(x.shape(), DType::Float32);
  copy_raw(wide, x);
  return wide;
}

// Labels as classes from 0, -1 where they are to be ignored; raises for a label that is no class.
// Would adding 1 bring all labels into 1..classes?
bool counts_from_0(const Tensor& flat, int64_t classes, int64_t ignore) {
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const int64_t label =
        flat.dtype() == DType::UInt8 ? flat.data<uint8_t>()[i] : flat.data<int64_t>()[i];
    if (label < 0 || label >= classes || label == ignore) return false;
  }
  return true;
}

// Numbers in memory that the next call has again, which a vector's is not.
template <class T>
class Room {
 public:
  explicit Room(int64_t n) : hold_(empty({n}, kType)), p_(hold_.data<T>()) {}
  T& operator[](int64_t i) { return p_[i]; }
  const T& operator[](int64_t i) const { return p_[i]; }
  const T* begin() const { return p_; }
  const T* end() const { return p_ + size(); }
  int64_t size() const { return hold_.numel(); }

 private:
  static constexpr DType kType = std::is_same_v<T, float>    ? DType::Float32
                                 : std::is_same_v<T, double> ? DType::Float64
                                                             : DType::Int64;
  Tensor hold_;
  T* p_;
};

Room<int64_t> read_labels(const Call& c, const Tensor& target, int64_t classes, int64_t ignore) {
  const Tensor flat = packed(target);
  const int64_t n = target.numel();
  Room<int64_t> labels(n);
  if (flat.dtype() == DType::Int64 && (ignore < 1 || ignore > classes) &&
      !level_of::any_outside(flat.data<int64_t>(), n, classes)) {
    const int64_t* const from = flat.data<int64_t>();
    int64_t* const to = &labels[0];
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] - 1;
    return labels;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label =
        flat.dtype() == DType::UInt8 ? flat.data<uint8_t>()[i] : flat.data<int64_t>()[i];
    if (label == ignore) {
      labels[i] = -1;
      continue;
    }
    if (label < 1 || label > classes) [[unlikely]] {
      std::string at;
      int64_t rest = i;
      for (int d = target.rank() - 1; d >= 0; --d) {
        at = std::to_string(rest % target.size(d) + 1) + (at.empty() ? "" : ", ") + at;
        rest /= target.size(d);
      }
      if (!at.empty()) at = "[" + at + "]";
      const char* const name = c.op->name[0] == 's'                            ? "cross_entropy"
                               : c.arg[c.n - 1].tag == Tag::String && c.n == 6 ? c.string(5)
                                                                               : "nll_loss";
      fail(
          Kind::Index,
          format("%s: target%s = %lld but the %s have %lld classes (valid 1..%lld; labels start at "
                 "1)",
                 name, at.c_str(), static_cast<long long>(label),
                 c.op->name[0] == 's' ? "logits" : "scores", static_cast<long long>(classes),
                 static_cast<long long>(classes)),
          counts_from_0(flat, classes, ignore) ? "y = y + 1" : "");
    }
    labels[i] = label - 1;
  }
  return labels;
}

// Calls f(first, n) over `count` runs of work, each touching `cost` elements.
template <class F>
void each_sample(int64_t count, int64_t cost, F f) {
  parallel_for(count, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, cost)), f);
}

// Short rows, many at a time: each becomes a column.
template <class T>
void log_sums_of_short(const T* x, const Classes& k, T* out) {
  const int64_t rows = std::min(kBox / k.classes, k.samples);
  const auto sums = [&](int64_t begin, int64_t end) {
    alignas(64) T tile[kBox];
    BoxPart part;
    Walk w;
    w.rank = 2;
    w.count = 1;
    w.stride[0][0] = 1;
    w.stride[0][1] = k.classes;
    int64_t planned = 0;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t from = b * rows, n = std::min(rows, k.samples - from);
      w.size[0] = k.classes;
      w.size[1] = n;
      if (n != planned) part.plan(w, 0, w.size);
      planned = n;
      part.gather(sizeof(T), reinterpret_cast<char*>(tile),
                  reinterpret_cast<const char*>(x + from * k.classes));
      column_lse(tile, k.classes, n, n, out + from);
    }
  };
  each_sample((k.samples + rows - 1) / rows, kBox, sums);
}

template <class T>
void log_sums(const T* x, const Classes& k, T* out) {
  if (k.places == 1 && k.classes <= 24 && k.samples > 1) return log_sums_of_short(x, k, out);
  if (k.places == 1) {
    each_sample(k.samples, k.classes, [&](int64_t begin, int64_t end) {
      row_lse(x + begin * k.classes, end - begin, k.classes, out + begin);
    });
    return;
  }
  each_sample(k.samples, k.classes * k.places, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      column_lse(x + i * k.classes * k.places, k.classes, k.places, k.places, out + i * k.places);
  });
}

// f(0) + f(1) + .., eight sums side by side: additions of one would wait for each other.
template <class F>
double sum_of(int64_t n, F f) {
  double part[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) part[k] += f(i + k);
  for (; i < n; ++i) part[0] += f(i);
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

// Stores the losses, or their sum, or their mean.
template <class T>
void store_loss(const Room<T>& each, double total, Reduction r, const Tensor& out) {
  if (r == Reduction::None) {
    Tensor values = empty(out.shape(), sizeof(T) == 4 ? DType::Float32 : DType::Float64);
    std::copy(each.begin(), each.end(), values.data<T>());
    return copy_raw(out, values);
  }
  double sum = sum_of(each.size(), [&](int64_t i) { return static_cast<double>(each[i]); });
  if (r == Reduction::Mean) sum /= total;
  copy_raw(out, filled({}, sum, DType::Float64));
}

template <class T>
void put_total(const Tensor& out, double total) {
  *out.data<T>() = static_cast<T>(total);
}

// Weights as numbers of type T, all 1 when there are none, and their sum. `every`: as an array in any case.
template <class T>
struct Weights {
  std::vector<T> w;
  double sum;
  const bool given;
  Weights(const Tensor& weight, int64_t classes, bool every = false)
      : w(static_cast<size_t>(weight || every ? classes : 0), T(1)),
        sum(static_cast<double>(classes)),
        given(weight) {
    if (!weight) return;
    Tensor v = empty(weight.shape(), sizeof(T) == 4 ? DType::Float32 : DType::Float64);
    copy_raw(v, weight);
    std::copy_n(v.data<T>(), classes, w.begin());
    sum = 0;
    for (const T x : w) sum += static_cast<double>(x);
  }
  T operator[](int64_t label) const { return given ? w[static_cast<size_t>(label)] : T(1); }
  // The weights of labels together.
  double of(const Room<int64_t>& labels) const {
    if (!given) {
      int64_t count = 0;
      for (const int64_t label : labels) count += label >= 0;
      return static_cast<double>(count);
    }
    return sum_of(labels.size(), [&](int64_t i) {
      return labels[i] < 0 ? 0.0 : static_cast<double>((*this)[labels[i]]);
    });
  }
};

// The part of label smoothing: each[i] = spread * the sum over classes of w (lse[i] - x).
template <class T>
void add_all_classes(const T* x, const Classes& k, const T* lse, const T* w, T spread, T* each) {
  constexpr DType type = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  constexpr int64_t kPlaces = 1024;  // whose sums stay in the first-level cache
  each_sample(k.samples, k.classes * k.places, [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; k.places == 1 && n < end; ++n) {
      double sum = 0, apart = 0;
      NORM_LEVEL(T, norm_sums, w, x + n * k.classes, k.classes, lse[n], &sum, &apart);
      each[n] = static_cast<T>(-apart) * spread;
    }
    for (int64_t n = begin; k.places > 1 && n < end; ++n)
      for (int64_t s = 0; s < k.places; s += kPlaces) {
        const int64_t m = std::min(kPlaces, k.places - s), i = n * k.places + s;
        const auto add = [&](const T* from, T by) {
          level_of::add_row(static_cast<int>(type), static_cast<void*>(each + i),
                            static_cast<const void*>(from), m, static_cast<double>(by));
        };
        std::fill_n(each + i, m, T(0));
        for (int64_t j = 0; j < k.classes; ++j) {
          add(lse + i, spread * w[j]);
          add(x + (n * k.classes + j) * k.places + s, -spread * w[j]);
        }
      }
  });
}

template <class T>
void softmax_nll_typed(Call& c) {
  const Tensor x = computable(c.tensor(0));
  const Classes k = classes_of(x);
  const Reduction r = parse_reduction(c.string(5));
  const T smoothing = static_cast<T>(c.number(4));
  const Room<int64_t> labels = read_labels(c, c.tensor(1), k.classes, c.integer(3));
  const Weights<T> weights(c.tensor(2), k.classes, smoothing > 0);
  const T* const p = x.data<T>();
  T* const lse = c.out[1].data<T>();
  log_sums(p, k, lse);
  Room<T> each(labels.size());
  const T spread = smoothing / static_cast<T>(k.classes), kept = 1 - smoothing;
  if (smoothing > 0) add_all_classes(p, k, lse, weights.w.data(), spread, &each[0]);
  each_sample(k.samples, k.places, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t s = 0; s < k.places; ++s) {
        const int64_t i = n * k.places + s, label = labels[i];
        const T all = smoothing > 0 ? each[i] : 0;
        each[i] = label < 0 ? 0
                            : all + kept * weights[label] *
                                        (lse[i] - p[(n * k.classes + label) * k.places + s]);
      }
  });
  const double total = weights.of(labels);
  put_total<T>(c.out[2], total);
  store_loss(each, total, r, c.out[0]);
}

template <class T>
void softmax_nll_backward_typed(Call& c) {
  const Tensor x = computable(c.tensor(1)), g = computable(c.tensor(0));
  const Classes k = classes_of(x);
  const Reduction r = parse_reduction(c.string(8));
  const T smoothing = static_cast<T>(c.number(7));
  const Room<int64_t> labels = read_labels(c, c.tensor(2), k.classes, c.integer(6));
  const Weights<T> weights(c.tensor(3), k.classes, smoothing > 0);
  const Tensor sums = packed(c.tensor(4));
  const T* const lse = sums.data<T>();
  const T total = *c.tensor(5).data<T>();
  const bool direct = c.out[0].dtype() == x.dtype() && c.out[0].contiguous();
  const Tensor result = direct ? c.out[0] : empty(x.shape(), x.dtype());
  const T* const p = x.data<T>();
  const T* const gp = g.data<T>();
  T* const y = result.data<T>();
  const T spread = smoothing / static_cast<T>(k.classes), kept = 1 - smoothing;
  const T all = static_cast<T>(weights.sum);
  const T shared = r == Reduction::Mean ? gp[0] / total : r == Reduction::Sum ? gp[0] : 0;
  each_sample(k.samples, k.classes * k.places, [&](int64_t begin, int64_t end) {
    std::vector<T> scale(static_cast<size_t>(k.places)), unit(static_cast<size_t>(k.places));
    for (int64_t n = begin; n < end; ++n) {
      const T* const from = p + n * k.classes * k.places;
      T* const to = y + n * k.classes * k.places;
      for (int64_t s = 0; s < k.places; ++s) {
        const int64_t i = n * k.places + s;
        unit[s] = labels[i] < 0 ? 0 : r == Reduction::None ? gp[i] : shared;
        scale[s] = labels[i] < 0 ? 0 : unit[s] * (kept * weights[labels[i]] + spread * all);
      }
      if (k.places == 1) {
        // An ignored sample has no gradient, whatever its scores.
        if (labels[n] < 0)
          std::fill_n(to, k.classes, T(0));
        else
          exp_scale(from, to, k.classes, lse[n], scale[0]);
      } else {
        for (int64_t j = 0; j < k.classes; ++j)
          exp_scale_each(from + j * k.places, to + j * k.places, k.places, lse + n * k.places,
                         scale.data());
      }
      const auto less = [&](T* at, const T* from, int64_t m, T by) {
        level_of::add_row(
            sizeof(T) == 4 ? static_cast<int>(DType::Float32) : static_cast<int>(DType::Float64),
            static_cast<void*>(at), static_cast<const void*>(from), m, -static_cast<double>(by));
      };
      if (smoothing > 0 && k.places == 1)
        less(to, weights.w.data(), k.classes, unit[0] * spread);
      else if (smoothing > 0)
        for (int64_t j = 0; j < k.classes; ++j)
          less(to + j * k.places, unit.data(), k.places, spread * weights[j]);
      for (int64_t s = 0; s < k.places; ++s) {
        const int64_t label = labels[n * k.places + s];
        if (label >= 0) {
          to[label * k.places + s] -= unit[s] * kept * weights[label];
        } else if (k.places > 1) {
          for (int64_t j = 0; j < k.classes; ++j) to[j * k.places + s] = 0;
        }
      }
    }
  });
  if (!direct) copy_raw(c.out[0], result);
}

// pick(first sample, last, places): mostly there is a single place, which the compiler then knows.
template <class F>
void each_pick(const Classes& k, const F& pick) {
  each_sample(k.samples, k.places, [&](int64_t begin, int64_t end) {
    if (k.places == 1)
      pick(begin, end, std::integral_constant<int64_t, 1>());
    else
      pick(begin, end, k.places);
  });
}

template <class T>
void nll_typed(Call& c) {
  const Tensor x = computable(c.tensor(0));
  const Classes k = classes_of(x);
  const Room<int64_t> labels = read_labels(c, c.tensor(1), k.classes, c.integer(3));
  const Weights<T> weights(c.tensor(2), k.classes);
  Room<T> each(labels.size());
  const T* const from = x.data<T>();
  const int64_t* const label = labels.begin();
  T* const to = &each[0];
  const auto pick = [=, &weights](int64_t begin, int64_t end, auto places) {
    const T* row = from + begin * k.classes * places;
    for (int64_t n = begin, i = begin * places; n < end; ++n, row += k.classes * places)
      for (int64_t s = 0; s < places; ++s, ++i)
        to[i] = label[i] < 0 ? 0 : -weights[label[i]] * row[label[i] * places + s];
  };
  each_pick(k, pick);
  const double total = weights.of(labels);
  put_total<T>(c.out[1], total);
  store_loss(each, total, parse_reduction(c.string(4)), c.out[0]);
}

template <class T>
void nll_backward_typed(Call& c) {
  const Tensor g = computable(c.tensor(0)), &out = c.out[0];
  const Classes k = classes_of(out);
  const Room<int64_t> labels = read_labels(c, c.tensor(1), k.classes, c.integer(3));
  const Weights<T> weights(c.tensor(2), k.classes);
  const bool direct = out.dtype() == g.dtype();
  const Tensor result = direct ? out : filled(out.shape(), 0, g.dtype(), Device());
  const T* const from = g.data<T>();
  T* const to = result.data<T>();
  const int64_t* const label = labels.begin();
  each_pick(k, [=, &weights](int64_t begin, int64_t end, auto places) {
    T* row = to + begin * k.classes * places;
    for (int64_t n = begin, i = begin * places; n < end; ++n, row += k.classes * places)
      for (int64_t s = 0; s < places; ++s, ++i)
        if (label[i] >= 0) row[label[i] * places + s] = -weights[label[i]] * from[i];
  });
  if (!direct) copy_raw(out, result);
}

template <class T>
void nll_terms_typed(Call& c) {
  const Classes k = classes_of(c.tensor(0));
  const Room<int64_t> labels = read_labels(c, c.tensor(1), k.classes, c.integer(3));
  const Weights<T> weights(c.tensor(2), k.classes);
  const T smoothing = static_cast<T>(c.number(4));
  const T spread = smoothing / static_cast<T>(k.classes);
  T *const terms = c.out[0].data<T>(), *const sums = c.out[1].data<T>();
  for (int64_t n = 0; n < k.samples; ++n)
    for (int64_t s = 0; s < k.places; ++s) {
      const int64_t i = n * k.places + s, label = labels[i];
      if (label < 0) continue;
      T* const at = terms + n * k.classes * k.places + s;
      for (int64_t j = 0; smoothing > 0 && j < k.classes; ++j)
        at[j * k.places] = spread * weights[j];
      at[label * k.places] += (1 - smoothing) * weights[label];
      sums[i] = (1 - smoothing) * weights[label] + spread * static_cast<T>(weights.sum);
    }
}

template <class T>
void label_counts_typed(Call& c) {
  const Tensor target = packed(c.tensor(1));
  const int64_t classes = target.rank() == 0 ? 1 : target.size(-1);
  for (int64_t i = 0; i < target.numel(); i += classes)
    for (int64_t k = 0; k < classes; ++k) {
      const int64_t label = target.data<int64_t>()[i + k];
      if (label < 0) break;
      TYCHO_CHECK(Kind::Index, label >= 1 && label <= classes,
                  "multilabel_margin_loss: label %lld of sample %lld is no class (valid 1..%lld; a "
                  "negative number ends the list)",
                  static_cast<long long>(label), static_cast<long long>(i / classes + 1),
                  static_cast<long long>(classes));
      c.out[0].data<T>()[i + label - 1] += 1;
    }
}

}  // namespace

template <class T>
int64_t first_improbable_typed(const Tensor& x) {
  const T* const p = x.data<T>();
  const int64_t n = x.numel();
  constexpr int64_t block = 4096;
  for (int64_t i = 0; i < n; i += block) {
    const int64_t end = std::min(n, i + block);
    bool good = true;  // without a branch, so that the compiler takes vectors
    for (int64_t k = i; k < end; ++k) good &= p[k] >= 0 && p[k] <= 1;
    if (good) continue;
    for (int64_t k = i; k < end; ++k)
      if (!(p[k] >= 0 && p[k] <= 1)) return k;
  }
  return -1;
}
void first_improbable(Call& c) {
  const Tensor x = computable(c.tensor(0));
  *c.out[0].data<int64_t>() = x.dtype() == DType::Float64 ? first_improbable_typed<double>(x)
                                                          : first_improbable_typed<float>(x);
}

// A kernel of float32 and float64, picked by that argument's type.
#define BIND_TYPED(op, kernel, argument)              \
  BIND_KERNEL(Cpu, op, [](Call& c) {                  \
    if (c.tensor(argument).dtype() == DType::Float64) \
      kernel<double>(c);                              \
    else                                              \
      kernel<float>(c);                               \
  })

BIND_KERNEL(Cpu, "first_improbable", first_improbable);
BIND_KERNEL(Cpu, "label_counts", [](Call& c) {  // of labels; the result has the type
  if (c.out[0].dtype() == DType::Float64)
    label_counts_typed<double>(c);
  else
    label_counts_typed<float>(c);
});
BIND_TYPED("softmax_nll", softmax_nll_typed, 0);
BIND_TYPED("softmax_nll_backward", softmax_nll_backward_typed, 1);
BIND_TYPED("nll_terms", nll_terms_typed, 0);
BIND_TYPED("nll_forward", nll_typed, 0);
BIND_TYPED("nll_backward", nll_backward_typed, 0);

}  // namespace tycho::cpu
