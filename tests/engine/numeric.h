// For tests of operations with numbers: pseudo-random tensors, element access by position, and
// gradients of first and second order against central differences in float64.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho::numeric {

struct Source {
  uint64_t state = 1;
  double next() {  // in (-1, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52;
  }
};

inline Tensor random(Source& s, const Sizes& shape, DType dtype = DType::Float64) {
  Tensor t = empty(shape, DType::Float64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.host<double>()[i] = is_floating(dtype) ? s.next() : std::floor(s.next() * 100);
  Tensor to = empty(shape, dtype);
  copy_raw(to, t);
  return to;
}

inline std::vector<double> values(const Tensor& t) {
  Tensor d = empty(t.shape(), DType::Float64);
  copy_raw(d, t);
  return std::vector<double>(d.host<double>(), d.host<double>() + d.numel());
}

inline void expect_near(const Tensor& have, const Tensor& want, double tolerance,
                        const std::string& what = "") {
  ASSERT_EQ(to_string(have.shape()), to_string(want.shape())) << what;
  const auto a = values(have), b = values(want);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " at " << i;
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

inline Tensor as_leaf(const Tensor& t) {
  Tensor a = alias(t);
  a->requires_grad = true;
  return a;
}

// The gradient of sum(f(x) * weight) against differences, at float64 inputs.
inline void check_gradient(const Function& f, const std::vector<Tensor>& at,
                           const std::string& what = "", int order = 2, double step = 1e-5,
                           double tolerance = 1e-6) {
  Source source{7};
  std::vector<Tensor> x;
  for (const Tensor& t : at) x.push_back(as_leaf(t));
  const Tensor y = f(x), weight = random(source, y.shape(), y.dtype());
  const std::vector<Tensor> g = grad::gradients({op<"sum">(y * weight)}, x, {}, {});
  const auto loss = [&] {
    NoGrad quiet;
    const auto a = values(f(at)), b = values(weight);
    double s = 0;
    for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
    return s;
  };
  for (size_t k = 0; k < at.size(); ++k) {
    ASSERT_TRUE(g[k].defined()) << what;
    ASSERT_TRUE(g[k].shape() == at[k].shape()) << what;
    const auto have = values(g[k]);
    for (int64_t i = 0; i < at[k].numel(); ++i) {
      double& place = at[k].host<double>()[i];
      const double before = place;
      place = before + step;
      const double up = loss();
      place = before - step;
      const double down = loss();
      place = before;
      ASSERT_NEAR(have[i], (up - down) / (2 * step), tolerance * std::max(1.0, std::abs(have[i])))
          << what << ", input " << k + 1 << ", element " << i;
    }
  }
  if (order < 2) return;
  // The gradient is itself a function of the inputs and of the result's gradient.
  std::vector<Tensor> more = at;
  more.push_back(weight);
  for (size_t k = 0; k < at.size(); ++k) {
    const Function gradient = [&](const std::vector<Tensor>& v) {
      std::vector<Tensor> in(v.begin(), v.end() - 1);
      for (Tensor& t : in)
        if (!t.requires_grad()) t = as_leaf(t);
      const bool before = mode.grad;
      mode.grad = true;
      grad::SweepOptions o;
      o.create_graph = true;
      Tensor y2 = f(in);
      Tensor out = grad::gradients({y2}, {in[k]}, {v.back()}, o)[0];
      mode.grad = before;
      // A part that does not depend on an input would have no gradient there.
      Tensor zero = op<"sum">(y2 * 0);
      for (const Tensor& t : v) zero = zero + op<"sum">(t * 0);
      return out + zero;
    };
    check_gradient(gradient, more, what + ", second order", order - 1, step, tolerance * 10);
  }
}

}  // namespace tycho::numeric
