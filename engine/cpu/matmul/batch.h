// How the kernels of linear algebra go through batches of matrices.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/library/lapack.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

// Runs f(i) for every matrix, of which `work` are worth a task; raises with the first one for which
// it returned a code that is not 0. Where f takes nothing, it makes what runs some matrices one
// after another, with working memory of its own.
template <class F, class Message>
void each_matrix(int64_t count, F&& f, Message&& message, int64_t work = 1) {
  std::vector<int> info(static_cast<size_t>(count), 0);
  const auto run = [&](int64_t begin, int64_t end) {
    const auto each = [&](auto&& one) {
      for (int64_t i = begin; i < end; ++i) info[static_cast<size_t>(i)] = static_cast<int>(one(i));
    };
    if constexpr (std::is_invocable_v<F&, int64_t>)
      each(f);
    else
      each(f());
  };
  if (count == 1)
    run(0, 1);  // outside of a region: what f does may use all threads
  else
    parallel_for(count, work, run);
  raise_first(info, message);
}

// LAPACK's iterations need not end on nan and infinity, so these never get there.
constexpr int kNotFinite = -1000;
template <class T>
bool all_finite(const T* m, int64_t count) {
  return std::all_of(m, m + count, [](T v) { return std::isfinite(v); });
}

// The library with as many threads as pay for `count` matrices, which are spread over ours if many.
template <class T>
const Lapack<T>& lapack_for(int64_t count, int64_t side) {
  constexpr int64_t kLarge = 512;
  lapack_threads(count == 1 && side >= kLarge ? get_num_threads() : 1);
  return lapack<T>();
}

inline std::string not_converged(const char* name, int code) {
  if (code == kNotFinite) return format("%s: the matrix holds nan or infinity", name);
  return format("%s: the algorithm did not converge (code %d)", name, code);
}

// Many small matrices, a part of them per thread: f(type, first, how many). `finite` says of a
// matrix whether it may be computed; the first that may not raises.
template <class Finite, class F>
void each_part(const Call& c, int64_t count, int type, Finite&& finite, F&& f) {
  constexpr int64_t kPart = 64;
  for (int64_t i = 0; i < count; ++i)
    if (!finite(i)) {
      std::vector<int> info(static_cast<size_t>(count), 0);
      info[static_cast<size_t>(i)] = kNotFinite;
      raise_first(info, [&](int code) { return not_converged(c.op->name, code); });
    }
  parallel_for((count + kPart - 1) / kPart, 1, [&](int64_t begin, int64_t end) {
    f(type, begin * kPart, std::min(count, end * kPart) - begin * kPart);
  });
}

}  // namespace tycho::cpu
