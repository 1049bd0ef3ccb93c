// Walks tensors of any layout through the folds. Two ways: "runs" when the elements that fold
// together lie side by side, "columns" when those of different results do (lanes over the results).
#include <algorithm>
#include <bit>
#include <memory>

#include "engine/base/parallel.h"
#include "engine/cpu/reduce/reduce.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {
namespace {

using namespace fold_sizes;
constexpr int64_t kShortRow = 64;  // bytes of rows that are too short to be columns by themselves
constexpr int64_t kNarrow = 64;    // columns that narrow rows are taken together for

struct Axis {
  int64_t size, in, out;  // strides in elements, in the input and in the result
};

struct Plan {
  Axis kept[kMaxDims], folded[kMaxDims];
  int kept_rank = 0, folded_rank = 0;
  int64_t results = 1, depth = 1;
};

void append(Axis* axes, int& n, const Axis& a) {
  if (n > 0 && axes[n - 1].in == a.in * a.size && axes[n - 1].out == a.out * a.size) {
    axes[n - 1] = {axes[n - 1].size * a.size, a.in, a.out};
  } else {
    axes[n++] = a;
  }
}

Plan make_plan(const Tensor& x, uint32_t bits) {
  Plan p;
  Axis folded[kMaxDims];
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
  std::stable_sort(folded, folded + count,
                   [](const Axis& a, const Axis& b) { return a.in > b.in; });
  for (int k = 0; k < count; ++k) append(p.folded, p.folded_rank, folded[k]);
  return p;
}

// The place of number i among the combinations of some axes.
struct Place {
  int64_t in = 0, out = 0;
};
Place place_of(const Axis* axes, int n, int64_t i) {
  Place p;
  for (int d = n - 1; d >= 0; --d) {
    const int64_t k = i % axes[d].size;
    i /= axes[d].size;
    p.in += k * axes[d].in;
    p.out += k * axes[d].out;
  }
  return p;
}

struct Folder {
  const Fold* f;
  Lanes lanes;
  bool direct;
  int dtype, bytes;
  const char* data;
  Plan plan;

  const char* at(int64_t element) const { return data + element * bytes; }

  // Calls body(first element, count, number of the first) for runs along the innermost folded axis
  // that cover numbers [begin, end) of the folded combinations.
  template <class F>
  void each_run(int64_t base, int64_t begin, int64_t end, F&& body) const {
    if (plan.folded_rank == 0) {
      if (begin < end) body(base, 1, begin);
      return;
    }
    const Axis& inner = plan.folded[plan.folded_rank - 1];
    while (begin < end) {
      const int64_t skip = begin % inner.size, n = std::min(inner.size - skip, end - begin);
      const Place outer = place_of(plan.folded, plan.folded_rank - 1, begin / inner.size);
      body(base + outer.in + skip * inner.in, n, begin);
      begin += n;
    }
  }
  int64_t inner_step() const { return plan.folded_rank ? plan.folded[plan.folded_rank - 1].in : 1; }

  void fold_run(int64_t base, int64_t begin, int64_t end, Slot* s, int64_t cap) const {
    const int64_t step = inner_step();
    each_run(base, begin, end, [&](int64_t from, int64_t n, int64_t number) {
      if (direct && (step == 1 || n == 1)) {
        f->run(at(from), n, number, s, cap);
        return;
      }
      alignas(64) char tile[kTile * 8];
      for (int64_t i = 0; i < n; i += kTile) {
        const int64_t m = std::min(kTile, n - i);
        level_of::load_tile(static_cast<int>(lanes), dtype, tile, at(from + i * step), step, m);
        f->run(tile, m, number + i, s, cap);
      }
    });
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
    alignas(64) char tile[kTile * 8];
    const int lane_bytes = lanes == Lanes::F32 ? 4 : 8;
    const int64_t rows = kTile / cols;
    for (int64_t i = 0; i < n; i += rows) {
      const int64_t m = std::min(rows, n - i);
      for (int64_t r = 0; r < m; ++r)
        level_of::load_tile(static_cast<int>(lanes), dtype, tile + r * cols * lane_bytes,
                            at(from + (i + r) * down), step, cols);
      f->rows(tile, cols, m, cols, number + i, s, cap);
    }
  }
  // Runs that lie `far` elements apart, each into a column.
  void fold_each(int64_t base, int64_t far, int64_t count, Slot* s, int64_t cap) const {
    const int64_t step = inner_step(), n = plan.depth;
    if (direct && (step == 1 || n == 1)) {
      f->each(at(base), far, count, n, s, cap);
      return;
    }
    alignas(64) char tile[kTile * 8];
    const int lane_bytes = lanes == Lanes::F32 ? 4 : 8, l = static_cast<int>(lanes);
    const int64_t most = kTile / n;
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
  // Narrow row-major rows: `group` of them are taken for one row, and their columns joined after.
  void fold_narrow(int64_t base, int64_t cols, int64_t group, int64_t begin, int64_t end, Slot* s,
                   int64_t cap) const {
    const int64_t wide = (end - begin) / group;
    rows_at(base + begin * cols, cols * group, 1, cols * group, wide, 0, s, cap);
    for (int64_t k = group / 2; k > 0; k /= 2) f->merge(s, cap, s + k * cols, cap, k * cols);
    begin += wide * group;
    if (begin < end) rows_at(base + begin * cols, cols, 1, cols, end - begin, 0, s, cap);
  }
};

// Splits the depth of each of `units` folds into chunks that run apart and join in order.
// body(unit, begin, end, slots, cap) folds; done(unit, slots, cap) takes a finished unit.
template <class Body, class Done>
void run_split(const Folder& folder, int64_t units, int64_t chunk, int64_t cap, Body&& body,
               Done&& done) {
  const int64_t depth = folder.plan.depth, chunks = (depth + chunk - 1) / chunk;
  const int64_t size = cap * folder.f->components;
  const std::unique_ptr<Slot[]> slots(new Slot[static_cast<size_t>(units * chunks * size)]);
  parallel_for(units * chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      Slot* s = slots.get() + t * size;
      folder.f->init(s, cap, cap);
      body(t / chunks, t % chunks * chunk, std::min(depth, (t % chunks + 1) * chunk), s, cap);
    }
  });
  for (int64_t u = 0; u < units; ++u) {
    Slot* s = slots.get() + u * chunks * size;
    for (int64_t k = 1; k < chunks; ++k) folder.f->merge(s, cap, s + k * size, cap, cap);
    done(u, s, cap);
  }
}

void by_runs(const Folder& folder, FoldSink sink) {
  const Plan& p = folder.plan;
  const auto base = [&](int64_t result) { return place_of(p.kept, p.kept_rank, result).in; };
  if (p.results < kFewTasks && p.depth >= 2 * kWork) {
    run_split(
        folder, p.results, kWork, 1,
        [&](int64_t unit, int64_t begin, int64_t end, Slot* s, int64_t cap) {
          folder.fold_run(base(unit), begin, end, s, cap);
        },
        [&](int64_t unit, Slot* s, int64_t cap) { sink.call(sink.function, s, cap, 1, unit, 1); });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kWork / std::max<int64_t>(1, p.depth));
  parallel_for(p.results, grain, [&](int64_t first, int64_t last) {
    Slot s[3 * kBlock];
    for (int64_t i = first; i < last; i += kBlock) {
      const int64_t n = std::min(kBlock, last - i);
      folder.f->init(s, kBlock, n);
      const Axis last_kept = p.kept_rank ? p.kept[p.kept_rank - 1] : Axis{1, 0, 0};
      for (int64_t k = 0, m; k < n; k += m) {
        m = std::min(last_kept.size - (i + k) % last_kept.size, n - k);
        if (p.folded_rank <= 1 && p.depth > 0 && p.depth <= kTile / 2)
          folder.fold_each(base(i + k), last_kept.in, m, s + k, kBlock);
        else
          for (int64_t j = 0; j < m; ++j)
            folder.fold_run(base(i + k) + j * last_kept.in, 0, p.depth, s + k + j, kBlock);
      }
      sink.call(sink.function, s, kBlock, n, i, 1);
    }
  });
}

void by_columns(const Folder& folder, int column_axis, bool arg, FoldSink sink) {
  const Plan& p = folder.plan;
  const Axis col = p.kept[column_axis];
  Axis outer[kMaxDims];
  int outer_rank = 0;
  for (int k = 0; k < p.kept_rank; ++k)
    if (k != column_axis) outer[outer_rank++] = p.kept[k];
  const int64_t blocks = (col.size + kFoldCols - 1) / kFoldCols,
                units = p.results / col.size * blocks;
  int64_t group = 1;
  if (!arg && p.depth > 0 && col.size <= kFoldCols / 4 && col.in == 1 && p.folded_rank == 1 &&
      p.folded[0].in == col.size)
    while (2 * group * col.size <= kNarrow && 2 * group <= p.depth) group *= 2;

  const auto body = [&](int64_t unit, int64_t begin, int64_t end, Slot* s, int64_t cap) {
    const int64_t j = unit % blocks * kFoldCols, n = std::min<int64_t>(kFoldCols, col.size - j);
    const int64_t base = place_of(outer, outer_rank, unit / blocks).in + j * col.in;
    if (group > 1)
      folder.fold_narrow(base, n, group, begin, end, s, cap);
    else
      folder.fold_rows(base, n, col.in, begin, end, s, cap);
  };
  const auto done = [&](int64_t unit, Slot* s, int64_t cap) {
    const int64_t j = unit % blocks * kFoldCols, n = std::min<int64_t>(kFoldCols, col.size - j);
    const int64_t out = place_of(outer, outer_rank, unit / blocks).out + j * col.out;
    sink.call(sink.function, s, cap, n, out, col.out);
  };
  const int64_t width = std::min<int64_t>(kFoldCols, col.size) * group;
  const int64_t chunk = std::max<int64_t>(256, 4 * kWork / std::min<int64_t>(kFoldCols, col.size));
  if (units < kFewTasks && p.depth >= 2 * chunk)
    return run_split(folder, units, chunk, width, body, done);
  const int64_t grain = std::max<int64_t>(1, kWork / std::max<int64_t>(1, p.depth * col.size));
  parallel_for(units, grain, [&](int64_t first, int64_t last) {
    Slot s[3 * kFoldCols];
    for (int64_t u = first; u < last; ++u) {
      folder.f->init(s, kFoldCols, width);
      body(u, 0, p.depth, s, kFoldCols);
      done(u, s, kFoldCols);
    }
  });
}

}  // namespace

const Fold* find_fold(FoldOp op, Lanes lanes) {
  const int o = static_cast<int>(op);
  switch (lanes) {
    case Lanes::F32:
      return level_of::fold_f32(o);
    case Lanes::F64:
      return level_of::fold_f64(o);
    default:
      return level_of::fold_i64(o);
  }
}

const Fold* small_fold(FoldOp op, DType dtype) {
  const auto of = [&](SmallKind kind) {
    return level_of::fold_small(static_cast<int>(kind), static_cast<int>(op));
  };
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return of(SmallKind::U8);
    case DType::Int8:
      return op == shared_fold(FoldOp::count_nonzero) ? of(SmallKind::U8) : of(SmallKind::I8);
    case DType::Int16:
      return of(SmallKind::I16);
    case DType::Int32:
      return of(SmallKind::I32);
    default:
      return nullptr;
  }
}

Lanes fold_lanes(FoldOp op, DType dtype) {
  const int row = static_cast<int>(op);
  const bool plain = row < kFoldRows;
  if (!is_floating(dtype))
    return plain && fold_rows[row].lanes == FoldLanes::Floats ? Lanes::F64 : Lanes::I64;
  return dtype == DType::Float64 ? Lanes::F64 : Lanes::F32;
}

void fold(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes, FoldSink sink) {
  Folder folder;
  op = shared_fold(op);
  folder.f = find_fold(op, lanes);
  folder.lanes = lanes;
  folder.dtype = static_cast<int>(x.dtype());
  folder.bytes = dtype_size(x.dtype());
  folder.data = x.data();
  folder.direct = x.dtype() == lane_type_of(lanes);
  // Small integers are taken as they lie, where they lie side by side.
  const Fold* const small = lanes == Lanes::I64 ? small_fold(op, x.dtype()) : nullptr;
  const auto take_small = [&] {
    folder.f = small;
    folder.direct = true;
  };
  if ((folder.direct || small) && x.contiguous() && bits == (1u << x.rank()) - 1 &&
      x.numel() <= kWork) {
    if (small) take_small();
    Slot s[3];
    folder.f->init(s, 1, 1);
    if (x.numel()) folder.f->run(folder.data, x.numel(), 0, s, 1);
    sink.call(sink.function, s, 1, 1, 0, 1);
    return;
  }
  folder.plan = make_plan(x, bits);
  const Plan& p = folder.plan;
  if (p.results == 0) return;
  if (p.depth == 1 && p.kept_rank > 1) {  // each element by itself: a row of columns
    const Tensor row = packed(x);
    return fold(alias(row, {1, p.results}, {p.results, 1}, row->offset), 1, op, lanes, sink);
  }
  int column = -1;  // the kept axis that lies closest
  for (int k = 0; k < p.kept_rank; ++k)
    if (p.kept[k].in > 0 && (column < 0 || p.kept[k].in <= p.kept[column].in)) column = k;
  const bool arg = op == FoldOp::ArgMax || op == FoldOp::ArgMin;
  bool columns = column >= 0;
  if (columns && p.folded_rank > 0) {
    const Axis &c = p.kept[column], &r = p.folded[p.folded_rank - 1];
    const bool narrow = !arg && c.in == 1 && p.folded_rank == 1 && r.in == c.size;
    columns = c.in < r.in ? c.size >= 8 || narrow : r.size < 8 && c.size >= 16;
    // Many small blocks: their columns are put side by side first.
    const int64_t row = c.size * folder.bytes;
    if (columns && c.in < r.in && p.kept_rank > 1 && p.folded_rank == 1 && row < kShortRow &&
        p.results >= kShortRow && row * p.depth < kShortRow * kShortRow) {
      Sizes shape, stride;
      for (const bool folded : {true, false})
        for (int d = 0; d < x.rank(); ++d)
          if ((bits >> d & 1) == folded) shape.push_back(x.size(d)), stride.push_back(x.stride(d));
      const Tensor turned = packed(alias(x, shape, stride, x->offset));
      return fold(turned, (1u << std::popcount(bits)) - 1, op, lanes, sink);
    }
  }
  if (small && (columns ? p.kept[column].in : folder.inner_step()) == 1) take_small();
  if (columns)
    by_columns(folder, column, arg, sink);
  else
    by_runs(folder, sink);
}

void store_slots(const Target& out, Lanes lanes, const Slot* s, int64_t n, int64_t at,
                 int64_t step) {
  level_of::store_tile(static_cast<int>(lanes == Lanes::I64 ? Lanes::I64 : Lanes::F64),
                       static_cast<int>(out.type), out.data + at * dtype_size(out.type), s, step,
                       n);
}

}  // namespace tycho::cpu
