// A row of the elementwise table over broadcast operands of any layout and type (program.h), by as many
// threads as it is worth.
#include "engine/cpu/elementwise/run.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/program.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/half.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

using namespace cpu;

constexpr int64_t kRowAlone = 256;  // bytes that are worth a way of their own through a row

Lanes lanes_of(DType t) {
  return t == DType::Float64 ? Lanes::F64 : is_floating(t) ? Lanes::F32 : Lanes::I64;
}

Lanes narrow_lanes(DType t) {
  for (const Lanes lanes : {Lanes::Truth, Lanes::U8, Lanes::I8, Lanes::I16, Lanes::I32})
    if (lane_type_of(lanes) == t) return lanes;
  return Lanes::I64;
}

// Has the type all numbers of the operand?
bool fits(DType t, const Value& v) {
  if (v.tag == Tag::Tensor) {
    const DType from = v.t->dtype;
    return from == t || from == DType::Bool ||
           (!is_floating(from) && dtype_size(from) < dtype_size(t));
  }
  if (v.tag == Tag::Bool) return true;
  if (v.tag != Tag::Int) return false;
  const int bits = 8 * dtype_size(t) - 1;
  return t == DType::Bool    ? v.i == 0 || v.i == 1
         : t == DType::UInt8 ? v.i >= 0 && v.i <= 255
                             : v.i >= -(int64_t{1} << bits) && v.i < int64_t{1} << bits;
}

// The lanes of small integers in which the row gives what int64 lanes do, or those.
Lanes narrowest(int row, DType compute, const Value* args, int n, const Impl* out) {
  if (row_info[row].type != RowType::Test && out->dtype != compute) return Lanes::I64;
  for (int k = 0; k < n; ++k)
    if (!fits(compute, args[k])) return Lanes::I64;
  const Lanes lanes = narrow_lanes(compute);
  return row_fn(row, lanes) ? lanes : Lanes::I64;
}

// The lanes of halves, where all operands that are no numbers are halves.
Lanes as_halves(int row, DType compute, const Value* args, int n, const Impl* out) {
  if (row_info[row].type != RowType::Test && out->dtype != compute) return Lanes::F32;
  for (int k = 0; k < n; ++k)
    if (args[k].tag == Tag::Tensor && args[k].t->dtype != compute) return Lanes::F32;
  const Lanes lanes = half_lanes(compute);
  return row_fn(row, lanes) ? lanes : Lanes::F32;
}

// Does the row tell numbers from infinities and nan? Integers are all alike to it.
bool sorts_floats(int row) {
  const Row r = static_cast<Row>(row);
  return r == Row::isnan || r == Row::isinf || r == Row::isfinite || r == Row::isposinf ||
         r == Row::isneginf;
}

bool same_layout(const Impl* a, const Impl* b) {
  if (a->rank != b->rank) return false;
  if (a->contiguous && b->contiguous) {
    for (int d = 0; d < a->rank; ++d)
      if (a->shape[d] != b->shape[d]) return false;
    return true;
  }
  for (int d = 0; d < a->rank; ++d)
    if (a->shape[d] != b->shape[d] || (a->stride[d] != b->stride[d] && a->shape[d] != 1))
      return false;
  return is_dense(a);
}

// Would boxes of the walk put elements side by side first? Not where all lie like the result, row by row, or are
// one row.
bool boxes_gather(const Walk& w) {
  const int last = w.rank - 1;
  for (int k = 0; k < w.count; ++k) {
    bool dense = w.stride[k][last] == 1, row = dense && k;
    for (int d = 0; d < last; ++d) {
      dense = dense && w.stride[k][d] == w.stride[k][d + 1] * w.size[d + 1];
      row = row && w.stride[k][d] == 0;
    }
    if (!dense && !row) return true;
  }
  return false;
}

bool is_sign_bit(int row, DType compute, const Value& v, const Impl* out) {
  return is_sign_row(row, compute) && v.tag == Tag::Tensor && v.t->dtype == compute &&
         out->dtype == compute;
}

// Comparisons happen in the promoted type: a number is rounded to it first (0.1 == half(0.1)).
Value rounded_to(DType compute, const Value& v) {
  if (v.tag != Tag::Float) return v;
  if (compute == DType::Float16) return Value(double{from_float16(to_float16(v.d))});
  if (compute == DType::BFloat16) return Value(double{from_bfloat16(to_bfloat16(v.d))});
  return v;
}

// How far apart t's elements are along dimension d of what it is broadcast to.
int64_t broadcast_stride(const Impl* t, const Impl* out, int d) {
  const int at = d - (out->rank - t->rank);
  return at < 0 || t->shape[at] == 1 ? 0 : t->stride[at];
}

// Operands that repeat what they have along some dimensions are gone through once for all of that, in room of their
// own, and the results are copied. Says whether it did so.
bool run_once(int row, DType compute, const Value* args, int n, Impl* out) {
  constexpr int64_t kLeast = 2048;
  if (out->numel < kLeast || static_cast<Row>(row) == Row::identity) return false;
  const auto is_whole = [&](int k) { return args[k].tag == Tag::Tensor && args[k].t->numel != 1; };
  Sizes shape;
  for (int d = 0; d < out->rank; ++d) {
    bool repeats = true;
    for (int k = 0; k < n && repeats; ++k)
      repeats = !is_whole(k) || broadcast_stride(args[k].t, out, d) == 0;
    shape.push_back(repeats ? 1 : out->shape[d]);
  }
  if (2 * product(shape) > out->numel) return false;
  const Tensor once = empty(shape, out->dtype, out->device);
  Tensor parts[kOperands];
  Value seen[kOperands];
  for (int k = 0; k < n; ++k) {
    seen[k] = args[k];
    if (!is_whole(k)) continue;
    Sizes stride;
    for (int d = 0; d < out->rank; ++d) stride.push_back(broadcast_stride(args[k].t, out, d));
    parts[k] = alias(Tensor(Ref<Impl>(args[k].t)), shape, stride, args[k].t->offset);
    seen[k].t = parts[k].get();
  }
  cpu::run_row(row, compute, seen, n, once.get());
  Sizes stride;
  for (int d = 0; d < out->rank; ++d)
    stride.push_back(shape[d] == out->shape[d] ? once.stride(d) : 0);
  copy_raw(Tensor(Ref<Impl>(out)), alias(once, Sizes(out->shape, out->rank), stride, once->offset));
  return true;
}

// Rows shorter than a lane of AVX-512 are AVX2's (`narrower`): whole stores take a third of the time of parts of a lane,
// which wait for lines that are in no cache (Zen 5). The same bits, where rows are short in instructions, too.
RowFn row_fn_of(int row, Lanes lanes, bool narrower) {
  const int type = static_cast<int>(lanes);
  switch (lanes) {
    case Lanes::F32:
      return narrower ? v3::row_f32(row) : level_of::row_f32(row);
    case Lanes::F64:
      return narrower ? v3::row_f64(row) : level_of::row_f64(row);
    case Lanes::I64:
      return narrower ? v3::row_i64(row) : level_of::row_i64(row);
    case Lanes::BF16:
    case Lanes::F16:
      return narrower ? v3::row_half(type, row) : level_of::row_half(type, row);
    default:
      return narrower ? v3::row_narrow(type, row) : level_of::row_narrow(type, row);
  }
}

// Does the result go past the caches? Not where it is changed in place.
bool past_caches(const Program& r, const Value* args, const Impl* out) {
  int inputs = 0;
  for (int k = 1; k <= r.n; ++k) {
    if (r.single[k]) continue;
    if (args[k - 1].t->storage.get() == out->storage.get()) return false;
    inputs += args[k - 1].t->numel == out->numel;
  }
  return r.slot[0].direct && passes_caches(out->numel * r.slot[0].bytes, inputs, 1);
}

}  // namespace

RowFn cpu::row_fn(int row, Lanes lanes) { return row_fn_of(row, lanes, false); }

int64_t cpu::row_work(int row, Lanes lanes) {
  constexpr int64_t kSlow = 4, kSlowF64 = 8;  // 0.1 to 10 ns, of which there are 0.03 in a unit
  if (level_of::is_short_row(row)) return 1;
  return lanes == Lanes::F64 ? kSlowF64 : kSlow;
}

void cpu::run_row(int row, DType compute, const Value* args, int n, Impl* out) {
  const int64_t numel = out->numel;
  const Value zero{int64_t{0}};
  if (sorts_floats(row) && !is_floating(compute)) args = &zero, compute = DType::UInt8;
  if (static_cast<Row>(row) == Row::identity && args[0].t == out) return;
  const bool sign = is_sign_bit(row, compute, args[0], out),
             flip = static_cast<Row>(row) == Row::neg;
  const Value bits[] = {args[0], int64_t{flip ? INT16_MIN : INT16_MAX}};
  if (sign) {
    row = static_cast<int>(flip ? Row::bitwise_xor : Row::bitwise_and);
    args = bits, n = 2, compute = DType::Int16;
  }
  Program r;
  r.lanes = sign ? Lanes::I16 : lanes_of(compute);
  if (r.lanes == Lanes::I64 && compute != DType::Int64)
    r.lanes = narrowest(row, compute, args, n, out);
  if (!sign && half_lanes(compute) != Lanes::F32) r.lanes = as_halves(row, compute, args, n, out);
  r.fn = row_fn(row, r.lanes);
  r.truth = row_info[row].type == RowType::Test;
  r.n = n;
  const DType lane_type = lane_type_of(r.lanes);
  const auto slot = [&](const Impl* t) {
    const DType type = sign ? lane_type : t->dtype;
    return Slot{t->data(), static_cast<int>(type), dtype_size(type), type == lane_type};
  };
  bool flat = args != &zero || is_dense(out);  // as all tensors; here there is only one
  r.slot[0] = slot(out);
  r.slot[0].direct = r.slot[0].direct || r.truth;
  for (int k = 1; k <= n; ++k) {
    const Value& v = args[k - 1];
    if (v.tag != Tag::Tensor) {
      r.single[k] = true;
      r.slot[k] = Slot{nullptr, static_cast<int>(lane_type), 0, true};
      r.number[k] = r.truth ? rounded_to(compute, v) : v;
      continue;
    }
    r.slot[k] = slot(v.t);
    r.single[k] = v.t->numel == 1 && numel != 1;
    if (r.single[k] && r.truth && v.t->dtype != compute && is_floating(v.t->dtype)) {
      r.number[k] = rounded_to(compute, Value(number_at(v.t, 0)));
      r.slot[k].data = nullptr;
    }
    flat = flat && (r.single[k] || same_layout(v.t, out));
  }

  if (flat && numel <= kTile) {  // the small case, without anything around it
    Tiles tiles;
    run_flat(r, 0, numel, tiles, false);
    return;
  }
  if (!flat && !sign && run_once(row, compute, args, n, out)) return;
  // A stop half-way would leave a tensor half-written that somebody has: one that is changed in place, or
  // given as `out`.
  const bool seen = out->count > 1 || (args[0].tag == Tag::Tensor && args[0].t == out);
  const Interrupts stop = seen ? Interrupts::Hold : Interrupts::Poll;
  const int64_t most = kGrain / row_work(row, r.lanes), grain = even_grain(numel, most);
  bool stream = past_caches(r, args, out);
  if (flat) {
    parallel_for(
        numel, grain,
        [&](int64_t begin, int64_t end) {
          Tiles tiles;
          run_flat(r, begin, end, tiles, stream);
        },
        stop);
    return;
  }
  const Impl* walkers[(kOperands + 1)] = {out};
  int walker[(kOperands + 1)] = {}, count = 1;
  for (int k = 1; k <= n; ++k)
    if (!r.single[k]) {
      walker[k] = count;
      walkers[count++] = args[k - 1].t;
    }
  Walk walk = make_walk(walkers, count);
  order_by_first(walk);
  stream = stream && walk.inner() * r.slot[0].bytes % kLine == 0;
  if (worth_a_row(walk.inner(), lane_type, level_of::is_short_row(row)) &&
      in_place(r, walk, walker) &&
      (walk.inner() * std::max(r.lane_bytes(), 4) >= kRowAlone || boxes_gather(walk))) {
    if (level() == Level::v4 && walk.inner() * r.lane_bytes() < kLine)
      r.fn = row_fn_of(row, r.lanes, true);
    parallel_for(
        numel, grain,
        [&](int64_t begin, int64_t end) {
          Tiles tiles;
          run_in_place(r, walk, walker, begin, end, tiles, stream);
        },
        stop);
    return;
  }
  if (wants_boxes(walk)) {
    int bytes = r.lane_bytes();
    for (int k = 0; k <= n; ++k) bytes = std::max(bytes, r.slot[k].bytes);
    const Boxes boxes(walk, bytes);
    parallel_for(
        boxes.count, std::max<int64_t>(1, most / boxes.numel),
        [&](int64_t begin, int64_t end) {
          Tiles tiles;
          run_boxes(r, boxes, walker, begin, end, tiles, stream);
        },
        stop);
    return;
  }
  parallel_for(
      numel, grain,
      [&](int64_t begin, int64_t end) {
        Tiles tiles;
        run_long(r, walk, walker, begin, end, tiles, stream);
      },
      stop);
}

void cpu::run_few(int row, DType type, void* const* p, int64_t n) {
  row_fn(row, lanes_of(type))(p, n, 0, kOnce);
}

bool cpu::has_zero(const Impl* t) {
  const Impl* one[] = {t};
  Walk walk = make_walk(one, 1);
  if (walk.numel == 0) return false;
  order_by_first(walk);  // as it lies in memory
  const int64_t* const stride = walk.stride[0];
  while (stride[walk.rank - 1] == 0) {  // what is repeated is looked at once
    walk.numel /= walk.size[walk.rank - 1];
    if (walk.rank == 1) break;
    --walk.rank;
  }
  if (stride[walk.rank - 1] == 0) walk.size[0] = walk.numel = 1;
  constexpr int64_t kSome = 2048;
  const int64_t bytes = dtype_size(t->dtype), last = stride[walk.rank - 1],
                next = walk.rank > 1 ? stride[walk.rank - 2] : 0;
  std::atomic<bool> zero{false};
  const auto look = [&](int64_t offset, int64_t rows, int64_t n) {
    alignas(64) char values[kSome * 8], truths[kSome];
    const char* from = t->data() + offset * bytes;
    int64_t step = next;
    if (last != 1) {
      level_of::copy_plane(static_cast<int>(bytes), values, n, int64_t{1}, from, next, last, rows,
                           n);
      from = values, step = n;
    }
    level_of::truths(static_cast<int>(bytes), is_floating(t->dtype), truths, n, from, step, rows,
                     n);
    if (std::memchr(truths, 0, static_cast<size_t>(rows * n))) zero = true;
  };
  parallel_for(walk.numel, even_grain(walk.numel, kGrain), [&](int64_t begin, int64_t end) {
    each_plane(walk, begin, end, [&](const int64_t* offset, int64_t rows, int64_t n) {
      const int64_t some_rows = std::max<int64_t>(1, kSome / n), some = std::min(n, kSome);
      for (int64_t r = 0; r < rows; r += some_rows)
        for (int64_t i = 0; i < n; i += some) {
          if (zero) return;
          look(offset[0] + r * next + i * last, std::min(some_rows, rows - r),
               std::min(some, n - i));
        }
    });
  });
  return zero;
}

}  // namespace tycho
