// What the kernels of linear algebra share: batches of matrices of float32 or float64.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

template <class F>
void by_type(const Tensor& t, F&& f) {
  if (t.dtype() == DType::Float32)
    f(float{});
  else
    f(double{});
}

inline int64_t batch_count(const Tensor& t, int inner = 2) {
  int64_t n = 1;
  for (int d = 0; d < t.rank() - inner; ++d) n *= t.size(d);
  return n;
}

// A row-major copy that may be written to.
inline Tensor copied(const Tensor& t) {
  Tensor out = empty(t.shape(), t.dtype(), t.device());
  copy_raw(out, t);
  return out;
}

// Raises with the first matrix whose code is not 0.
template <class Message>
void raise_first(const std::vector<int>& info, Message&& message) {
  const int64_t count = static_cast<int64_t>(info.size());
  for (int64_t i = 0; i < count; ++i)
    if (const int code = info[static_cast<size_t>(i)]) {
      std::string text = message(code);
      if (count > 1) text += format(" (matrix %lld of the batch)", static_cast<long long>(i + 1));
      fail(Kind::Linalg, text);
    }
}

// Runs f(i) for every matrix, of which `work` are worth a task; raises with the first one for which
// it returned a code that is not 0. Where f takes nothing, it makes what runs some matrices one after
// another, with working memory of its own.
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

}  // namespace tycho::cpu
