// Optimiser steps over lists of parameters. Row-major f32 and f64 tensors are updated where they
// are; row-major half types go through small tiles of float32, other layouts through float64
// copies.

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/nn/optim_rows.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kGrain = 16384, kTile = 1024;

// A step on arrays of any floating types but float64, all row-major: computed in float32 and
// rounded once. Array 1, the gradient, is only read.
template <int count, class F32>
void step_in_tiles(const Tensor* const (&t)[count], F32&& f32) {
  constexpr int lanes = static_cast<int>(Lanes::F32);
  parallel_for(
      t[0]->numel(), kGrain,
      [&](int64_t begin, int64_t end) {
        alignas(64) float scratch[count][kTile];
        for (int64_t i = begin; i < end; i += kTile) {
          const int64_t n = std::min(kTile, end - i);
          float* p[count];
          const auto place = [&](int k) {
            return static_cast<void*>(t[k]->data() + i * dtype_size(t[k]->dtype()));
          };
          for (int k = 0; k < count; ++k) {
            p[k] = *t[k] ? scratch[k] : nullptr;
            if (p[k])
              level_of::load_tile(lanes, static_cast<int>(t[k]->dtype()), static_cast<void*>(p[k]),
                                  static_cast<const void*>(place(k)), int64_t{1}, n);
          }
          f32(p, n);
          for (int k = 0; k < count; ++k)
            if (p[k] && k != 1)
              level_of::store_tile(lanes, static_cast<int>(t[k]->dtype()), place(k),
                                   static_cast<const void*>(p[k]), int64_t{1}, n);
        }
      },
      Interrupts::Hold);
}

// Calls f(pointers, begin, n, is_double) with the arrays of parameter i: those of `lists` (-1:
// none).
template <int count, class F32, class F64>
void each_part(Call& c, const int (&lists)[count], int i, F32&& f32, F64&& f64) {
  const Tensor* t[count];
  bool direct = true, tiles = true;
  const DType dtype = c.tensor(0, i).dtype();
  static const Tensor none;
  for (int k = 0; k < count; ++k) {
    const bool have = lists[k] >= 0 && c.has(lists[k]) && c.count(lists[k]) > 0;
    t[k] = have ? &c.tensor(lists[k], i) : &none;
    // A whole-storage layout shared by all is as good as row-major.
    if (have)
      tiles = tiles && (*t[k])->contiguous && is_floating(t[k]->dtype()) &&
              t[k]->dtype() != DType::Float64;
    if (have)
      direct = direct && t[k]->dtype() == dtype && (*t[k])->contiguous &&
               (dtype == DType::Float32 || dtype == DType::Float64);
  }
  if (!direct && tiles) return step_in_tiles(t, f32);
  Tensor scratch[count];
  if (!direct)
    for (int k = 0; k < count; ++k)
      if (*t[k]) {
        scratch[k] = empty(t[k]->shape(), DType::Float64);
        copy_raw(scratch[k], *t[k]);
      }
  char* p[count];
  for (int k = 0; k < count; ++k)
    p[k] = !*t[k] ? nullptr : direct ? t[k]->data() : scratch[k].data();
  const bool wide = !direct || dtype == DType::Float64;
  // Parameters change in place: a stop half-way would leave some updated and others not.
  parallel_for(
      c.tensor(0, i).numel(), kGrain,
      [&](int64_t begin, int64_t end) {
        if (wide) {
          double* q[count];
          for (int k = 0; k < count; ++k)
            q[k] = p[k] ? reinterpret_cast<double*>(p[k]) + begin : nullptr;
          f64(q, end - begin);
        } else {
          float* q[count];
          for (int k = 0; k < count; ++k)
            q[k] = p[k] ? reinterpret_cast<float*>(p[k]) + begin : nullptr;
          f32(q, end - begin);
        }
      },
      Interrupts::Hold);
  if (!direct)
    for (int k = 0; k < count; ++k)
      if (*t[k] && k != 1) copy_raw(*t[k], scratch[k]);
}

}  // namespace

void fused_sgd(Call& c) {
  const SgdStep s{c.number(3), c.number(4), c.number(5), c.number(6),
                  c.flag(7),   c.flag(8),   c.flag(9)};
  static constexpr int lists[] = {0, 1, 2};
  for (int i = 0; i < c.count(0); ++i)
    each_part(
        c, lists, i,
        [&](float** p, int64_t n) {
          level_of::sgd_f32(p[0], static_cast<const float*>(p[1]), p[2], n, &s);
        },
        [&](double** p, int64_t n) {
          level_of::sgd_f64(p[0], static_cast<const double*>(p[1]), p[2], n, &s);
        });
}

void fused_adam(Call& c) {
  const AdamStep s =
      adam_step(static_cast<double>(c.integer(5)), c.number(6), c.number(7), c.number(8),
                c.number(9), c.number(10), static_cast<int>(c.integer(11)));
  static constexpr int lists[] = {0, 1, 2, 3, 4};
  for (int i = 0; i < c.count(0); ++i)
    each_part(
        c, lists, i,
        [&](float** p, int64_t n) {
          level_of::adam_f32(p[0], static_cast<const float*>(p[1]), p[2], p[3], p[4], n, &s);
        },
        [&](double** p, int64_t n) {
          level_of::adam_f64(p[0], static_cast<const double*>(p[1]), p[2], p[3], p[4], n, &s);
        });
}

void fused_unscale(Call& c) {
  const double factor = c.number(1);
  std::atomic<bool> bad{false};
  // x - x is 0 for what is finite; nothing here compiles with finite-math shortcuts.
  const auto scale = [&]<class T>(T* x, int64_t n) {
    const T by = static_cast<T>(factor);
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      x[i] *= by;
      sum += x[i] - x[i];
    }
    if (sum != 0) bad.store(true, std::memory_order_relaxed);
  };
  static constexpr int lists[] = {0};
  for (int i = 0; i < c.count(0); ++i)
    each_part(
        c, lists, i, [&](float** p, int64_t n) { scale(p[0], n); },
        [&](double** p, int64_t n) { scale(p[0], n); });
  *reinterpret_cast<bool*>(c.out[0].data()) = bad;
}

// Arguments: parameters, gradients, lists of state, numbers, decay, shrink, maximize.
template <Rule rule, int states>
void fused_rule(Call& c) {
  const int last = static_cast<int>(c.op->params.size()) - 1, numbers = 2 + states;
  RuleStep s{rule, c.flag(last), c.number(last - 2), c.number(last - 1), {}};
  for (int k = numbers; k < last - 2; ++k) s.k[k - numbers] = c.number(k);
  const auto run = [&](const auto& lists) {
    for (int i = 0; i < c.count(0); ++i)
      each_part(
          c, lists, i,
          [&](float** p, int64_t n) {
            level_of::rule_f32(p[0], static_cast<const float*>(p[1]), p[2], p[3], p[4], n, &s);
          },
          [&](double** p, int64_t n) {
            level_of::rule_f64(p[0], static_cast<const double*>(p[1]), p[2], p[3], p[4], n, &s);
          });
  };
  static constexpr int one[] = {0, 1, 2, -1, -1}, two[] = {0, 1, 2, 3, -1},
                       three[] = {0, 1, 2, 3, 4};
  run(states == 1 ? one : states == 2 ? two : three);
}

BIND_KERNEL(Cpu, "_fused_sgd", fused_sgd);
BIND_KERNEL(Cpu, "_fused_adam", fused_adam);
BIND_KERNEL(Cpu, "_fused_unscale", fused_unscale);
BIND_KERNEL(Cpu, "_fused_rmsprop", (fused_rule<Rule::RMSprop, 3>));
BIND_KERNEL(Cpu, "_fused_adagrad", (fused_rule<Rule::Adagrad, 1>));
BIND_KERNEL(Cpu, "_fused_adadelta", (fused_rule<Rule::Adadelta, 2>));
BIND_KERNEL(Cpu, "_fused_adamax", (fused_rule<Rule::Adamax, 2>));
BIND_KERNEL(Cpu, "_fused_nadam", (fused_rule<Rule::NAdam, 2>));
BIND_KERNEL(Cpu, "_fused_radam", (fused_rule<Rule::RAdam, 2>));
BIND_KERNEL(Cpu, "_fused_asgd", (fused_rule<Rule::ASGD, 1>));
BIND_KERNEL(Cpu, "_fused_rprop", (fused_rule<Rule::Rprop, 2>));

}  // namespace tycho::cpu
