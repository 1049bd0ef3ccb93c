// What a fold walks: which dimensions are kept and which folded, with neighbours merged, and the steps
// of its ways through a tensor (fold.cpp).
#pragma once
#include <algorithm>

#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/reduce/reduce.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {

struct FoldAxis {
  int64_t size, in, out;  // strides in elements, in the input and in the result
};

struct FoldPlan {
  FoldAxis kept[kMaxDims], folded[kMaxDims];
  int kept_rank = 0, folded_rank = 0;
  int64_t results = 1, depth = 1;
};

inline void append(FoldAxis* axes, int& n, const FoldAxis& a) {
  if (n > 0 && axes[n - 1].in == a.in * a.size && axes[n - 1].out == a.out * a.size) {
    axes[n - 1] = {axes[n - 1].size * a.size, a.in, a.out};
  } else {
    axes[n++] = a;
  }
}

inline FoldPlan plan_fold(const Tensor& x, uint32_t bits) {
  FoldPlan p;
  FoldAxis folded[kMaxDims];
  int count = 0;
  int64_t out = 1;
  Sizes out_stride = x.shape();
  for (int d = x.rank() - 1; d >= 0; --d) {
    out_stride[d] = out;
    if (!(bits >> d & 1)) out *= x.size(d);
  }
  for (int d = 0; d < x.rank(); ++d) {
    if (bits >> d & 1) {
      p.depth *= x.size(d);
      if (x.size(d) != 1) folded[count++] = {x.size(d), x.stride(d), 0};
    } else {
      p.results *= x.size(d);
      if (x.size(d) != 1) append(p.kept, p.kept_rank, {x.size(d), x.stride(d), out_stride[d]});
    }
  }
  // Repeated elements last of all: what lies side by side is read as it lies.
  std::stable_sort(folded, folded + count, [](const FoldAxis& a, const FoldAxis& b) {
    return a.in && b.in ? a.in > b.in : b.in != 0;
  });
  for (int k = 0; k < count; ++k) append(p.folded, p.folded_rank, folded[k]);
  return p;
}

// The place of number i among the combinations of some axes.
struct FoldPlace {
  int64_t in = 0, out = 0;
};
inline FoldPlace place_of(const FoldAxis* axes, int n, int64_t i) {
  FoldPlace p;
  for (int d = n - 1; d >= 0; --d) {
    const int64_t k = i % axes[d].size;
    i /= axes[d].size;
    p.in += k * axes[d].in;
    p.out += k * axes[d].out;
  }
  return p;
}

// Rows of some bytes that stand not much farther apart.
inline bool little_apart(const FoldAxis& col, const FoldAxis& row, int bytes) {
  return col.in == 1 && col.size < 8 && row.in > col.size && row.in * bytes <= 128;
}

constexpr int64_t kColumns = 64;  // that a fold takes at once, or a multiple of it
constexpr int64_t kLeastColumns = 32, kMostColumns = 256;  // that runs are taken for
// Fewer at a time are dear: every time, states move to and from slots.
constexpr int64_t kFewRows = 8;
// Rows of a tile are as long as the second cache allows: what is read of each lies together.
constexpr int64_t kShallowBytes = 131072;
static_assert(kShallowBytes / 8 / kShallow >= kColumns);

struct Folder {
  const Fold* f;
  Lanes lanes;
  bool direct, small = false;  // small integers as they lie
  int dtype, bytes;
  const char* data;
  const Straight* straight;  // null when slots are needed
  FoldPlan plan;

  const char* at(int64_t element) const { return data + element * bytes; }

  // Calls body(first element, count, number of the first) for runs along the innermost folded axis
  // that cover numbers [begin, end) of the folded combinations.
  template <class F>
  void each_run(int64_t base, int64_t begin, int64_t end, F&& body) const {
    if (plan.folded_rank == 0) {
      if (begin < end) body(base, 1, begin);
      return;
    }
    const FoldAxis& inner = plan.folded[plan.folded_rank - 1];
    while (begin < end) {
      const int64_t skip = begin % inner.size, n = std::min(inner.size - skip, end - begin);
      const FoldPlace outer = place_of(plan.folded, plan.folded_rank - 1, begin / inner.size);
      body(base + outer.in + skip * inner.in, n, begin);
      begin += n;
    }
  }
  int64_t inner_step() const { return plan.folded_rank ? plan.folded[plan.folded_rank - 1].in : 1; }

  // Many runs of some elements: each place in them is a column, and the columns are joined.
  bool runs_are_columns(int64_t begin, int64_t end) const {
    if (plan.folded_rank < 2 || f->components == 2) return false;
    const int64_t run = plan.folded[plan.folded_rank - 1].size;
    return run >= kLeastColumns && run <= kMostColumns && begin % run == 0 &&
           (end - begin) / run >= kFewRows;
  }
  void fold_run(int64_t base, int64_t begin, int64_t end, Slot* s, int64_t cap) const {
    const int64_t step = inner_step();
    if (runs_are_columns(begin, end)) {
      const int64_t run = plan.folded[plan.folded_rank - 1].size;
      fold_as_columns(base, begin / run, end / run, s, cap);
      begin = end / run * run;
    }
    if (plan.folded_rank > 1 && plan.folded[plan.folded_rank - 1].size < fold_sizes::kShortRun)
      return fold_short_runs(base, begin, end, s, cap);
    each_run(base, begin, end, [&](int64_t from, int64_t n, int64_t number) {
      if (direct && (step == 1 || n == 1)) {
        f->run(at(from), n, number, s, cap);
        return;
      }
      // So few that the processor reads on while it folds those before.
      constexpr int64_t kMostStepped = 256, kBytes = 2048, kDense = 2048;
      alignas(64) char tile[kDense * 8];
      const int64_t few =
          step == 1 ? kDense
          : step    ? std::clamp(kBytes / (std::abs(step) * bytes), kMostStepped / 2, kMostStepped)
                    : kMostStepped;
      int64_t i = 0;
      const DType type = static_cast<DType>(dtype);
      if (f->halves && step == 1 && (type == DType::BFloat16 || type == DType::Float16))
        i = f->halves(type == DType::BFloat16, at(from), n, s);
      for (; i < n; i += few) {
        const int64_t m = std::min(few, n - i);
        level_of::load_tile(static_cast<int>(lanes), dtype, tile, at(from + i * step), step, m);
        f->run(tile, m, number + i, s, cap);
      }
    });
  }

  // Whole runs, from number `begin` to number `end`.
  void fold_as_columns(int64_t base, int64_t begin, int64_t end, Slot* s, int64_t cap) const {
    const FoldAxis &run = plan.folded[plan.folded_rank - 1],
                   &far = plan.folded[plan.folded_rank - 2];
    Slot t[3 * kMostColumns];
    f->init(t, kMostColumns, run.size);
    for (int64_t n; begin < end; begin += n) {
      n = std::min(end - begin, far.size - begin % far.size);
      const int64_t from = base + place_of(plan.folded, plan.folded_rank - 1, begin).in;
      rows_at(from, run.size, run.in, far.in, n, 0, t, kMostColumns);
    }
    for (int64_t n = run.size, half; n > 1; n = half) {
      half = (n + 1) / 2;
      f->merge(t, kMostColumns, t + half, kMostColumns, n - half);
    }
    f->merge(s, cap, t, kMostColumns, 1);
  }

  // The same of short runs: many of them are put side by side first.
  void fold_short_runs(int64_t base, int64_t begin, int64_t end, Slot* s, int64_t cap) const {
    const FoldAxis &run = plan.folded[plan.folded_rank - 1],
                   &far = plan.folded[plan.folded_rank - 2];
    alignas(64) char raw[fold_sizes::kTile * 8], tile[fold_sizes::kTile * 8];
    while (begin < end) {
      const int64_t skip = begin % run.size, row = begin / run.size;
      int64_t rows = 1, n = std::min(run.size - skip, end - begin);
      if (n == run.size) {
        rows = std::min({(end - begin) / n, far.size - row % far.size, fold_sizes::kTile / n});
        n *= rows;
      }
      const int64_t from = base + place_of(plan.folded, plan.folded_rank - 1, row).in;
      level_of::copy_plane(bytes, direct ? tile : raw, run.size, 1, at(from + skip * run.in),
                           far.in, run.in, rows, n / rows);
      if (!direct) level_of::load_tile(static_cast<int>(lanes), dtype, tile, raw, 1, n);
      f->run(tile, n, begin, s, cap);
      begin += n;
    }
  }

  // `cols` columns, `step` elements apart.
  void fold_rows(int64_t base, int64_t cols, int64_t step, int64_t begin, int64_t end, Slot* s,
                 int64_t cap) const {
    const int64_t down = inner_step();
    each_run(base, begin, end, [&](int64_t from, int64_t n, int64_t number) {
      rows_at(from, cols, step, down, n, number, s, cap);
    });
  }
  void rows_at(int64_t from, int64_t cols, int64_t step, int64_t down, int64_t n, int64_t number,
               Slot* s, int64_t cap) const {
    if (direct && step == 1) {
      f->rows(at(from), down, n, cols, number, s, cap);
      return;
    }
    const int lane_bytes = lanes == Lanes::F32 ? 4 : 8;
    alignas(64) char tile[fold_sizes::kTile * 8];
    const int64_t room = fold_sizes::kTile * 8 / lane_bytes / cols,
                  rows = std::max(fold_sizes::kTile / cols, std::min(kFewRows, room));
    for (int64_t i = 0; i < n; i += rows) {
      const int64_t m = std::min(rows, n - i);
      for (int64_t r = 0; r < m; ++r)
        level_of::load_tile(static_cast<int>(lanes), dtype, tile + r * cols * lane_bytes,
                            at(from + (i + r) * down), step, cols);
      f->rows(tile, cols, m, cols, number + i, s, cap);
    }
  }
  // All rows to results at `out`, `out_step` apart, without slots.
  void to_results(const char* from, int64_t step, int64_t down, int64_t cols, int64_t out,
                  int64_t out_step) const {
    const int lane_bytes = lanes == Lanes::F32 ? 4 : 8;
    const int64_t n = plan.depth;
    if (direct && step == 1) return finish_rows(from, down, cols, out, out_step);
    // Whole lanes, but for the last ones.
    const int64_t room = kShallowBytes / lane_bytes / n,
                  most = std::min(cols, room / kColumns * kColumns);
    const Scratch tile(static_cast<size_t>(n * most * lane_bytes));
    for (int64_t j = 0; j < cols; j += most) {
      const int64_t m = std::min(most, cols - j);
      const char* x = from + j * step * bytes;
      for (int64_t r = 0; r < n; ++r)
        level_of::load_tile(static_cast<int>(lanes), dtype, tile.data() + r * m * lane_bytes,
                            x + r * down * bytes, step, m);
      finish_rows(tile.data(), m, m, out + j * out_step, out_step);
    }
  }
  // Lane-typed rows `down` elements apart.
  void finish_rows(const char* x, int64_t down, int64_t cols, int64_t out, int64_t step) const {
    char* const to = straight->data + out * dtype_size(straight->type);
    if (step == 1 && straight->type == fold_type())
      return f->shallow(x, down, plan.depth, cols, straight->by, to);
    alignas(64) char result[kFoldCols * 8];
    f->shallow(x, down, plan.depth, cols, straight->by, result);
    level_of::store_tile(static_cast<int>(lanes), static_cast<int>(straight->type), to, result,
                         step, cols);
  }
  // What `shallow` makes.
  DType fold_type() const { return small ? static_cast<DType>(dtype) : lane_type_of(lanes); }

  // Runs that lie `far` elements apart, each into a column.
  void fold_each(int64_t base, int64_t far, int64_t count, Slot* s, int64_t cap) const {
    const int64_t step = inner_step(), n = plan.depth;
    if (direct && (step == 1 || n == 1)) {
      f->each(at(base), far, count, n, s, cap);
      return;
    }
    alignas(64) char tile[fold_sizes::kTile * 8];
    const int lane_bytes = lanes == Lanes::F32 ? 4 : 8, l = static_cast<int>(lanes);
    const int64_t most = fold_sizes::kTile / n;
    for (int64_t i = 0; i < count; i += most) {
      const int64_t m = std::min(most, count - i);
      if (far == n * step)  // as one
        level_of::load_tile(l, dtype, tile, at(base + i * far), step, m * n);
      else
        for (int64_t r = 0; r < m; ++r)
          level_of::load_tile(l, dtype, tile + r * n * lane_bytes, at(base + (i + r) * far), step,
                              n);
      f->each(tile, n, m, n, s + i, cap);
    }
  }
  // Of several dimensions: the runs of all results for one place in the outer ones, then for the next, as they lie.
  // (Sums of floats gain by it whatever their runs; for others columns, or joined short runs, are quicker.)
  bool folds_together() const {
    if (!direct || plan.folded_rank < 2 || inner_step() != 1) return false;
    return f->halves || (!runs_are_columns(0, plan.depth) &&
                         plan.folded[plan.folded_rank - 1].size >= fold_sizes::kShortRun);
  }
  void fold_together(int64_t base, int64_t far, int64_t count, Slot* s, int64_t cap) const {
    const int outer = plan.folded_rank - 1;
    const int64_t n = plan.folded[outer].size, places = plan.depth / n;
    for (int64_t i = 0; i < places; ++i)
      f->each(at(base + place_of(plan.folded, outer, i).in), far, count, n, s, cap);
  }
  // Narrow rows, one after the other or a few elements apart: `group` of them are taken for one row,
  // and their columns joined after.
  void fold_narrow(int64_t base, int64_t cols, int64_t group, int64_t begin, int64_t end, Slot* s,
                   int64_t cap) const {
    const int64_t wide = (end - begin) / group, far = plan.folded[0].in;
    if (far == cols)
      rows_at(base + begin * cols, cols * group, 1, cols * group, wide, 0, s, cap);
    else
      narrow_apart(base + begin * far, cols, far, group, wide, s, cap);
    if (f->components == 2 && wide)  // positions, of single rows
      for (int64_t k = 0; k < group; ++k)
        for (Slot* p = s + cap + k * cols; p < s + cap + (k + 1) * cols; ++p)
          p->i = begin + p->i * group + k;
    for (int64_t k = group / 2; k > 0; k /= 2) f->merge(s, cap, s + k * cols, cap, k * cols);
    begin += wide * group;
    if (begin < end) rows_at(base + begin * far, cols, 1, far, end - begin, begin, s, cap);
  }
  void narrow_apart(int64_t from, int64_t cols, int64_t far, int64_t group, int64_t wide, Slot* s,
                    int64_t cap) const {
    constexpr int64_t kElements = 1024;  // so that the processor reads on meanwhile
    alignas(64) char raw[kElements * 8], tile[kElements * 8];
    const int64_t some = std::max<int64_t>(1, kElements / (cols * group));
    for (int64_t i = 0; i < wide; i += some) {
      const int64_t m = std::min(some, wide - i);
      level_of::copy_plane(bytes, direct ? tile : raw, cols, 1, at(from + i * group * far), far, 1,
                           m * group, cols);
      if (!direct)
        level_of::load_tile(static_cast<int>(lanes), dtype, tile, raw, 1, m * group * cols);
      f->rows(tile, cols * group, m, cols * group, i, s, cap);
    }
  }
};

}  // namespace tycho::cpu
