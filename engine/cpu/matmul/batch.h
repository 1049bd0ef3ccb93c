// How the kernels of linear algebra go through batches of matrices.
#pragma once
#include <type_traits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

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
