// Walks tensors of any layout through the folds. Two ways: "runs" when the elements that fold
// together lie side by side, "columns" when those of different results do (lanes over the results).
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "engine/base/parallel.h"
#include "engine/cpu/boxes.h"
#include "engine/cpu/reduce/folder.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {
namespace {

using namespace fold_sizes;
constexpr int64_t kShortRow = 64;  // bytes of rows that are too short to be columns by themselves
constexpr int64_t kNarrow = 64;    // columns that narrow rows are taken together for

// Elements that are worth a task, some 2 us; a state of several numbers takes longer.
int64_t task_of(const Folder& folder) {
  constexpr int64_t kTask = 32768;
  return folder.f->components > 1 ? kTask / 4 : kTask;
}
// As a grain of what has so many elements each.
int64_t grain_of(const Folder& folder, int64_t elements) {
  return std::max<int64_t>(1, task_of(folder) / std::max<int64_t>(1, elements));
}

// How many columns are folded at a time: fewer, 64 and more, where there would be no block for every thread. (Loops
// that write as many columns could not: at a block's edge two threads would share a line of the cache in every row.)
int64_t columns_of_block(const Folder& folder, int64_t columns) {
  constexpr int64_t kFewest = 64, kMost = kFoldCols;
  const int64_t threads = get_num_threads(), outer = folder.plan.results / columns;
  if (threads == 1 || columns <= kFewest || outer >= threads) return kMost;
  const int64_t work = folder.plan.results * folder.plan.depth,
                tasks = std::min(2 * threads, work / task_of(folder));
  if (outer * ((columns - 1) / kMost + 1) >= tasks) return kMost;
  const int64_t each = folder.plan.results / tasks;
  return std::min(kMost, (each + kFewest - 1) / kFewest * kFewest);
}

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
  const FoldPlan& p = folder.plan;
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
  const int64_t grain = even_grain(p.results, grain_of(folder, p.depth), 1);
  parallel_for(p.results, grain, [&](int64_t first, int64_t last) {
    Slot s[3 * kBlock];
    for (int64_t i = first; i < last; i += kBlock) {
      const int64_t n = std::min(kBlock, last - i);
      folder.f->init(s, kBlock, n);
      const FoldAxis last_kept = p.kept_rank ? p.kept[p.kept_rank - 1] : FoldAxis{1, 0, 0};
      for (int64_t k = 0, m; k < n; k += m) {
        m = std::min(last_kept.size - (i + k) % last_kept.size, n - k);
        if (p.folded_rank <= 1 && p.depth > 0 && p.depth <= kTile / 2)
          folder.fold_each(base(i + k), last_kept.in, m, s + k, kBlock);
        else if (p.depth > 0 && folder.folds_together())
          folder.fold_together(base(i + k), last_kept.in, m, s + k, kBlock);
        else
          for (int64_t j = 0; j < m; ++j)
            folder.fold_run(base(i + k) + j * last_kept.in, 0, p.depth, s + k + j, kBlock);
      }
      sink.call(sink.function, s, kBlock, n, i, 1);
    }
  });
}

void by_columns(const Folder& folder, int column_axis, FoldSink sink) {
  const FoldPlan& p = folder.plan;
  const FoldAxis col = p.kept[column_axis];
  FoldAxis outer[kMaxDims];
  int outer_rank = 0;
  for (int k = 0; k < p.kept_rank; ++k)
    if (k != column_axis) outer[outer_rank++] = p.kept[k];
  int64_t most = kFoldCols, blocks = (col.size + most - 1) / most,
          units = p.results / col.size * blocks, group = 1;
  const bool straight = folder.straight && p.folded_rank == 1 && (!folder.small || col.out == 1) &&
                        (col.size > kNarrow || col.size * p.depth <= kBox);
  if (!straight && p.depth > 0 && col.size <= kFoldCols / 4 && col.in == 1 && p.folded_rank == 1 &&
      (p.folded[0].in == col.size || little_apart(col, p.folded[0], folder.bytes)))
    while (2 * group * col.size <= kNarrow && 2 * group <= p.depth) group *= 2;
  const int64_t chunk = std::max<int64_t>(256, 4 * kWork / std::min<int64_t>(kFoldCols, col.size));
  const bool split = !straight && units < kFewTasks && p.depth >= 2 * chunk;
  if (!split && group == 1) {
    most = columns_of_block(folder, col.size);
    blocks = (col.size + most - 1) / most, units = p.results / col.size * blocks;
  }

  const auto body = [&](int64_t unit, int64_t begin, int64_t end, Slot* s, int64_t cap) {
    const int64_t j = unit % blocks * most, n = std::min(most, col.size - j);
    const int64_t base = place_of(outer, outer_rank, unit / blocks).in + j * col.in;
    if (group > 1)
      folder.fold_narrow(base, n, group, begin, end, s, cap);
    else
      folder.fold_rows(base, n, col.in, begin, end, s, cap);
  };
  const auto done = [&](int64_t unit, Slot* s, int64_t cap) {
    const int64_t j = unit % blocks * most, n = std::min(most, col.size - j);
    const int64_t out = place_of(outer, outer_rank, unit / blocks).out + j * col.out;
    sink.call(sink.function, s, cap, n, out, col.out);
  };
  const int64_t grain = grain_of(folder, p.depth * std::min(most, col.size));
  if (straight)
    return parallel_for(units, grain, [&](int64_t first, int64_t last) {
      for (int64_t u = first; u < last; ++u) {
        const int64_t j = u % blocks * most;
        const FoldPlace at = place_of(outer, outer_rank, u / blocks);
        folder.to_results(folder.at(at.in + j * col.in), col.in, p.folded[0].in,
                          std::min(most, col.size - j), at.out + j * col.out, col.out);
      }
    });
  const int64_t width = std::min(most, col.size) * group;
  if (split) return run_split(folder, units, chunk, width, body, done);
  parallel_for(units, grain, [&](int64_t first, int64_t last) {
    Slot s[3 * kFoldCols];
    for (int64_t u = first; u < last; ++u) {
      folder.f->init(s, kFoldCols, width);
      body(u, 0, p.depth, s, kFoldCols);
      done(u, s, kFoldCols);
    }
  });
}

// Blocks of short rows: the rows of many blocks are put side by side, a tile at a time. The last two
// kept axes are those of a tile; of a row that is longer than a tile, it takes a part.
void by_boxes(const Folder& folder, FoldSink sink) {
  const FoldPlan& p = folder.plan;
  const int outer = p.kept_rank - 2;
  const FoldAxis &block = p.kept[outer], &row = p.kept[outer + 1];
  // States of several parts are joined more rarely.
  const int64_t few = folder.f->components > 1 ? 32 : 8;
  const int64_t room = kBox / std::min<int64_t>(p.depth, few), width = std::min(room, row.size),
                widths = (row.size + width - 1) / width,
                beside = std::clamp<int64_t>(room / row.size, 1, block.size),
                parts = (block.size + beside - 1) / beside * widths,
                slab = std::min(p.depth, kBox / (beside * width));
  const bool straight = folder.straight && slab == p.depth;
  Walk w;
  w.rank = 3, w.count = 1;
  const int64_t strides[] = {p.folded[0].in, block.in, row.in};
  std::copy(strides, strides + 3, w.stride[0]);
  const int64_t tiles = p.results / (block.size * row.size) * parts,
                grain = grain_of(folder, beside * width * p.depth);
  parallel_for(tiles, grain, [&](int64_t first, int64_t last) {
    alignas(64) char raw[kBox * 8], tile[kBox * 8];
    Slot s[3 * kBox];
    BoxPart part;
    int64_t planned[3] = {};
    for (int64_t u = first; u < last; ++u) {
      const FoldPlace at = place_of(p.kept, outer, u / parts);
      const int64_t j = u % parts / widths * beside, i = u % widths * width,
                    n = std::min(beside, block.size - j), m = std::min(width, row.size - i),
                    cols = n * m, from = at.in + j * block.in + i * row.in,
                    out = at.out + j * block.out + i * row.out;
      if (!straight) folder.f->init(s, kBox, cols);
      for (int64_t r = 0; r < p.depth; r += slab) {
        const int64_t sizes[] = {std::min(slab, p.depth - r), n, m};
        if (!std::equal(sizes, sizes + 3, planned)) part.plan(w, 0, sizes);
        std::copy(sizes, sizes + 3, planned);
        part.gather(folder.bytes, folder.direct ? tile : raw, folder.at(from + r * p.folded[0].in));
        if (!folder.direct)
          level_of::load_tile(static_cast<int>(folder.lanes), folder.dtype, tile, raw, 1,
                              sizes[0] * cols);
        if (straight)
          folder.finish_rows(tile, cols, cols, out, 1);
        else
          folder.f->rows(tile, cols, sizes[0], cols, r, s, kBox);
      }
      if (!straight) sink.call(sink.function, s, kBox, cols, out, 1);
    }
  });
}

// Short lines, along which elements lie nearer than the lines: many are turned at a time, so that each
// is a column of a tile.
void by_lines(const Folder& folder, FoldSink sink) {
  const FoldPlan& p = folder.plan;
  const FoldAxis& line = p.kept[p.kept_rank - 1];
  const int64_t beside = std::min(kBox / p.depth, line.size),
                parts = (line.size + beside - 1) / beside;
  parallel_for(p.results / line.size * parts, grain_of(folder, beside * p.depth),
               [&](int64_t first, int64_t last) {
                 alignas(64) char raw[kBox * 8], tile[kBox * 8];
                 Slot s[3 * kBox];
                 for (int64_t u = first; u < last; ++u) {
                   const FoldPlace at = place_of(p.kept, p.kept_rank - 1, u / parts);
                   const int64_t j = u % parts * beside, n = std::min(beside, line.size - j),
                                 out = at.out + j * line.out;
                   level_of::copy_plane(folder.bytes, folder.direct ? tile : raw, n, 1,
                                        folder.at(at.in + j * line.in), p.folded[0].in, line.in,
                                        p.depth, n);
                   if (!folder.direct)
                     level_of::load_tile(static_cast<int>(folder.lanes), folder.dtype, tile, raw, 1,
                                         p.depth * n);
                   if (folder.straight) {
                     folder.finish_rows(tile, n, n, out, 1);
                     continue;
                   }
                   folder.f->init(s, kBox, n);
                   folder.f->rows(tile, n, p.depth, n, 0, s, kBox);
                   sink.call(sink.function, s, kBox, n, out, 1);
                 }
               });
}
// Is it worth it? Sums of longer lines round otherwise as columns than as runs, and are what held rows end in.
bool wants_lines(const Folder& folder, FoldOp op) {
  const FoldPlan& p = folder.plan;
  if (p.folded_rank != 1 || p.kept_rank == 0 || p.depth < 2) return false;
  const FoldAxis& line = p.kept[p.kept_rank - 1];
  if (line.size < 16 || p.folded[0].in <= 0) return false;
  for (int k = 0; k < p.kept_rank; ++k)
    if (p.kept[k].in > 0 && p.kept[k].in <= p.folded[0].in) return false;
  bool exact = folder.lanes == Lanes::I64 || op == FoldOp::ArgMax || op == FoldOp::ArgMin;
  if (const int row = static_cast<int>(op); row < kFoldRows)
    exact |= fold_rows[row].combine >= Combine::Largest || fold_rows[row].combine == Combine::Count;
  return p.depth < 8 || (exact && p.depth <= 12);
}

// States of n columns whose every element was there that often.
void repeat(FoldOp op, Lanes lanes, Slot* s, int64_t cap, int64_t n, int64_t times) {
  const auto scale = [&](Slot* t) {
    for (int64_t j = 0; j < n; ++j) {
      if (lanes == Lanes::I64)
        t[j].i = static_cast<int64_t>(static_cast<uint64_t>(t[j].i) * static_cast<uint64_t>(times));
      else
        t[j].d *= static_cast<double>(times);
    }
  };
  if (op == FoldOp::Moments) scale(s), scale(s + 2 * cap);
  if (static_cast<int>(op) >= kFoldRows) return;
  const Combine combine = fold_rows[static_cast<int>(op)].combine;
  if (combine <= Combine::Count) return scale(s);
  if (combine != Combine::Product) return;
  for (int64_t j = 0; j < n; ++j) {
    const auto power = [&](auto x) {
      auto y = decltype(x){1};
      for (int64_t k = times; k > 0; k /= 2, x *= x)
        if (k % 2) y *= x;
      return y;
    };
    if (lanes == Lanes::I64)
      s[j].i = static_cast<int64_t>(power(static_cast<uint64_t>(s[j].i)));
    else
      s[j].d = power(s[j].d);
  }
}

// Kept dimensions along which elements are repeated, and so are results: each is found once.
struct Repeats {
  static constexpr int64_t kWorth = 16;
  Sizes once;
  int64_t times = 1;
  FoldAxis results[kMaxDims], again[kMaxDims];  // of what is found, and of its repetitions: .out
  int rank = 0, again_rank = 0, longest = 0;

  Repeats(const Tensor& x, uint32_t bits) : once(x.shape()) {
    int64_t out = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (bits >> d & 1) continue;
      if (x.size(d) > 1 && x.stride(d) == 0) {
        times *= x.size(d), once[d] = 1;
        if (again_rank && x.size(d) > again[longest].size) longest = again_rank;
        again[again_rank++] = {x.size(d), 0, out};
      } else {
        results[rank++] = {x.size(d), 0, out};
      }
      out *= x.size(d);
    }
    std::reverse(results, results + rank);
    std::swap(again[longest], again[again_rank > 0 ? again_rank - 1 : 0]);
  }
  void call(FoldSink sink, const Slot* s, int64_t cap, int components, int64_t n, int64_t at,
            int64_t step) const {
    const FoldAxis& run = again[again_rank - 1];
    const int64_t room = std::min(run.size, kMostColumns);
    Slot copies[3 * kMostColumns];
    for (int64_t j = 0; j < n; ++j) {
      const int64_t first = place_of(results, rank, at + j * step).out;
      for (int64_t k = 0; k < times / run.size; ++k) {
        const int64_t place = first + place_of(again, again_rank - 1, k).out;
        for (int64_t i = 0; i < run.size; i += room) {
          const int64_t m = std::min(room, run.size - i);
          for (int c = 0; c < components; ++c) std::fill_n(copies + c * room, m, s[c * cap + j]);
          sink.call(sink.function, copies, room, m, place + i * run.out, run.out);
        }
      }
    }
  }
};

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

void fold(const Tensor& x, uint32_t bits, FoldOp op, Lanes lanes, FoldSink sink,
          const Straight* straight) {
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
    folder.direct = folder.small = true;
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
  Sizes once = x.shape();  // of what is repeated along folded dimensions, the first
  int64_t times = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (bits >> d & 1 && x.size(d) > 1 && x.stride(d) == 0) times *= x.size(d), once[d] = 1;
  if (times > 1) {
    const auto all = [&](Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
      repeat(op, lanes, s, cap, n, times);
      sink.call(sink.function, s, cap, n, at, step);
    };
    return fold(alias(x, once, x.strides(), x->offset), bits, op, lanes, all);
  }
  if (Repeats kept(x, bits); kept.times >= Repeats::kWorth) {
    const auto all = [&](Slot* s, int64_t cap, int64_t n, int64_t at, int64_t step) {
      kept.call(sink, s, cap, folder.f->components, n, at, step);
    };
    return fold(alias(x, kept.once, x.strides(), x->offset), bits, op, lanes, all);
  }
  folder.plan = plan_fold(x, bits);
  const FoldPlan& p = folder.plan;
  if (p.results == 0) return;
  if (p.depth == 1 && p.kept_rank > 1) {  // each element by itself: a row of columns
    const Tensor row = packed(x);
    return fold(alias(row, {1, p.results}, {p.results, 1}, row->offset), 1, op, lanes, sink,
                straight);
  }
  int column = -1;  // the kept axis that lies closest
  for (int k = 0; k < p.kept_rank; ++k)
    if (p.kept[k].in > 0 && (column < 0 || p.kept[k].in <= p.kept[column].in)) column = k;
  bool columns = column >= 0, boxes = false;
  if (columns && p.folded_rank > 0) {
    const FoldAxis &c = p.kept[column], &r = p.folded[p.folded_rank - 1];
    const bool narrow = c.in == 1 && p.folded_rank == 1 &&
                        (r.in == c.size || (p.depth >= 128 && little_apart(c, r, folder.bytes)));
    const bool sliding = c.in == r.in && r.size <= kShallow;  // short windows over one line
    columns = c.in < r.in ? c.size >= 8 || narrow : (r.size < 8 || sliding) && c.size >= 16;
    // Many small blocks; deep ones are not small.
    const int64_t row = c.size * folder.bytes;
    const bool deep = narrow && p.depth >= (folder.f->components > 1 ? 128 : 32);
    if (!deep && p.depth > 0 && c.in < r.in && p.kept_rank > 1 && p.folded_rank == 1 &&
        row < kShortRow && p.results >= kShortRow && row * p.depth < kShortRow * kShortRow) {
      // Moments are joined slab by slab, which is dear where there are many.
      boxes = column >= p.kept_rank - 2 && (folder.f->components < 3 || p.depth <= 16);
      if (!boxes && columns) {
        Sizes shape, stride;
        for (const bool folded : {true, false})
          for (int d = 0; d < x.rank(); ++d)
            if ((bits >> d & 1) == folded)
              shape.push_back(x.size(d)), stride.push_back(x.stride(d));
        const Tensor turned = packed(alias(x, shape, stride, x->offset));
        return fold(turned, (1u << std::popcount(bits)) - 1, op, lanes, sink, straight);
      }
    }
  }
  const bool short_bytes = small && folder.bytes == 1 && p.depth >= 8;  // quick as they lie
  const bool lines = !boxes && !short_bytes && wants_lines(folder, op);
  // A few rows of sums go straight to their results in the lanes' own type.
  constexpr int64_t kFewSmall = 4;
  const bool straight_lanes = straight && columns && p.depth <= kFewSmall && folder.f->shallow &&
                              straight->type == lane_type_of(lanes) && small && !small->shallow;
  if (small && !straight_lanes &&
      (boxes || lines || (columns ? p.kept[column].in : folder.inner_step()) == 1))
    take_small();
  const bool as_it_is =
      straight && folder.f->shallow && p.depth > 0 && p.depth <= kShallow &&
      (folder.small || straight->by == 1 || straight->type == lane_type_of(lanes));
  folder.straight = as_it_is && (!folder.small || straight->type == x.dtype()) ? straight : nullptr;
  if (boxes)
    by_boxes(folder, sink);
  else if (lines)
    by_lines(folder, sink);
  else if (columns)
    by_columns(folder, column, sink);
  else
    by_runs(folder, sink);
}

void store_slots(const Target& out, Lanes lanes, const Slot* s, int64_t n, int64_t at,
                 int64_t step) {
  if (n == 1 && lanes != Lanes::I64 &&
      out.type == DType::Float32) {  // a small reduction to one number
    const float x = static_cast<float>(s->d);
    std::memcpy(out.data + at * 4, &x, sizeof x);
    return;
  }
  level_of::store_tile(static_cast<int>(lanes == Lanes::I64 ? Lanes::I64 : Lanes::F64),
                       static_cast<int>(out.type), out.data + at * dtype_size(out.type), s, step,
                       n);
}

}  // namespace tycho::cpu
