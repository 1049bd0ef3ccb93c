// One lane function at each instruction-set level that this machine has, and how far its answers are
// from exact ones: for the tests of the vector math.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/cpu/level.h"
#include "tests/engine/level/functions.h"

namespace tycho::mathtest {

using cpu::Level;

struct Tested {
  Level level;
  LevelFunctions functions;
};
inline std::vector<Tested> levels() {
  std::vector<Tested> r = {{Level::x86_64, cpu::x86_64::level_functions()}};
  if (cpu::level() >= Level::v3) {
    r.push_back({Level::v3, cpu::v3::level_functions()});
  }
  if (cpu::level() >= Level::v4) {
    r.push_back({Level::v4, cpu::v4::level_functions()});
  }
  return r;
}
inline const LaneFunction& find(const Tested& t, const char* name) {
  const LaneFunction* f = t.functions.lanes;
  while (std::strcmp(f->name, name)) f++;
  return *f;
}
inline void run(const LaneFunction& f, const float* x, const float* y, float* out, int64_t n) {
  f.f32(x, y, out, n);
}
inline void run(const LaneFunction& f, const double* x, const double* y, double* out, int64_t n) {
  f.f64(x, y, out, n);
}

// The distance of y from the exact value in units of y's last place. Infinity where the class
// (nan, infinite) or the sign of zero differs.
template <class T, class R>
double error_in_ulp(T y, R exact) {
  using Limits = std::numeric_limits<T>;
  const double never = std::numeric_limits<double>::infinity();
  T nearest = static_cast<T>(exact);
  if (std::isnan(nearest) || std::isnan(y)) return std::isnan(nearest) && std::isnan(y) ? 0 : never;
  if (y == 0 && nearest == 0 && std::signbit(y) != std::signbit(nearest)) return never;
  if (std::isinf(nearest) || std::isinf(y)) {
    // One step from infinity counts as one ulp.
    bool both_big = std::fabs(y) >= Limits::max() && std::fabs(nearest) >= Limits::max();
    return y == nearest ? 0 : both_big && (y > 0) == (nearest > 0) ? 1 : never;
  }
  int e =
      exact == 0 ? Limits::min_exponent - 1 : std::max(std::ilogb(exact), Limits::min_exponent - 1);
  return static_cast<double>(std::fabs(R(y) - exact) / std::ldexp(R(1), e - Limits::digits + 1));
}

// One value through a function, at the first element.
template <class T>
T one(const LaneFunction& f, T x, T y = 1) {
  std::vector<T> a(16, x), b(16, y), out(16);
  run(f, a.data(), b.data(), out.data(), 16);
  return out[0];
}
inline void expect_close(double got, double want, double tolerance, const char* what, double x) {
  if (got == want) return;
  EXPECT_LE(std::fabs(got - want), tolerance * std::max(std::fabs(want), 1e-290))
      << what << "(" << x << ") gave " << got << ", not " << want;
}

}  // namespace tycho::mathtest
