// Calls on the CPU and on the emulated device, whose results are compared element by element.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "engine/cuda/start.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {

inline void same_values(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                        double tolerance, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(got[k].shape(), want[k].shape()) << what;
    ASSERT_EQ(got[k].dtype(), want[k].dtype()) << what;
    const Tensor there = fetch(got[k]);
    for (int64_t i = 0; i < there.numel(); ++i) {
      const double a = number_at(there, i), b = number_at(want[k], i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_NEAR(a, b, tolerance * (1 + std::abs(b))) << what << ": result " << k << ", at " << i;
    }
  }
}

// `call` takes a device and gives a list of tensors.
template <class F>
void same_made(F&& call, double tolerance = 0, const char* what = "") {
  cuda::emulated::start();
  cuda::start();
  const std::vector<Tensor> want = call(Device{}), got = call(Device{0});
  for (const Tensor& t : got) EXPECT_FALSE(t.device().is_cpu()) << what;
  same_values(got, want, tolerance, what);
}

// The same of a tensor that lies there.
template <class F>
void same_on_both(const Tensor& x, F&& call, double tolerance = 0, const char* what = "") {
  same_made([&](Device d) { return call(d.is_cpu() ? x : sent(x, d)); }, tolerance, what);
}

// Numbers from -1 to 1, some equal, in a fixed order that looks like none.
inline Tensor mixed_numbers(const Sizes& shape, DType dtype, int64_t different = 1000) {
  const Tensor x = empty(shape, DType::Float64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] =
        static_cast<double>(i * 7919 % different) * 2 / static_cast<double>(different) - 1;
  if (!is_floating(dtype))
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<double>()[i] = std::floor(x.data<double>()[i] * static_cast<double>(different));
  const Tensor y = empty(shape, dtype);
  copy_raw(y, x);
  return y;
}

}  // namespace tycho
