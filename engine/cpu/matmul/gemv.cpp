// Matrices times vectors, in parts for the threads.
#include "engine/base/parallel.h"
#include "engine/cpu/matmul/gemm_parts.h"
#include "engine/cpu/matmul/gemv16.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

// Rows of y for a thread at a time, where columns lie side by side: long pieces of them, for memory, and
// as many for every thread.
int64_t rows_of_columns(int64_t m, int64_t k) {
  constexpr int64_t kLong = 1024, kWork = 1 << 16;
  return even_piece(m, std::max(kLong, kWork / k), 64, get_num_threads());
}

}  // namespace

void gemv(const VectorProduct& p) {
  const int type = gemm_type(p.dtype), size = dtype_size(p.dtype);
  const bool by_rows = p.a_col == 1 || p.k == 1;
  constexpr int64_t kWork = 1 << 16;  // elements of a per chunk: 10 to 20 us from memory
  if (by_rows) {
    const void* x = p.x;
    const Scratch scratch(p.x_step == 1 ? 0 : p.k * size);
    if (p.x_step != 1) {
      for (int64_t j = 0; j < p.k; ++j)
        std::memcpy(at(scratch.data(), j, size), at(p.x, j * p.x_step, size), size);
      x = scratch.data();
    }
    const auto run = [&](int64_t from, int64_t to) {
      level_of::gemv_rows(type, to - from, p.k,
                          static_cast<const void*>(at(p.a, from * p.a_row, size)), p.a_row, x,
                          static_cast<void*>(at(p.y, from * p.y_step, size)), p.y_step);
      if (p.begin)
        level_of::gemv_add(type, to - from, p.begin,
                           static_cast<void*>(at(p.y, from * p.y_step, size)), p.y_step);
    };
    if (p.alone) return run(0, p.m);
    const int64_t unit = p.k <= 64 ? 64 : 4;  // only the last rows may be left over
    return parallel_for(p.m, std::max<int64_t>(unit, kWork / p.k / unit * unit), run);
  }
  const Scratch scratch(p.y_step == 1 ? 0 : p.m * size);
  void* y = p.y_step == 1 ? p.y : scratch.data();
  const auto run = [&](int64_t from, int64_t to) {
    level_of::gemv_cols(type, to - from, p.k,
                        static_cast<const void*>(at(p.a, from * p.a_row, size)), p.a_col, p.x,
                        p.x_step, static_cast<void*>(at(y, from, size)), to - from == p.m);
    if (p.begin)
      level_of::gemv_add(type, to - from, p.begin, static_cast<void*>(at(y, from, size)),
                         int64_t{1});
  };
  if (p.alone)
    run(0, p.m);
  else
    parallel_for(p.m, rows_of_columns(p.m, p.k), run);
  if (p.y_step != 1)
    for (int64_t i = 0; i < p.m; ++i)
      std::memcpy(at(p.y, i * p.y_step, size), at(scratch.data(), i, size), size);
}

void gemv16(const VectorProduct16& p) {
  constexpr int64_t kWork = 1 << 16;
  const bool by_rows = p.col == 1;
  const auto run = [&](int64_t from, int64_t to) {
    if (by_rows)
      level_of::gemv16_rows(p.half, p.vectors, to - from, p.k, p.a + from * p.row, p.row, p.x,
                            p.y + from, p.m);
    else
      level_of::gemv16_cols(p.half, to - from, p.k, p.a + from, p.col, p.x, p.y + from);
  };
  if (p.alone) return run(0, p.m);
  const int64_t unit = p.k <= 64 ? 64 : 4;  // only the last rows may be left over
  parallel_for(
      p.m, by_rows ? std::max<int64_t>(unit, kWork / p.k / unit * unit) : rows_of_columns(p.m, p.k),
      run);
}

}  // namespace tycho::cpu
