// The tile executor: runs a row of the elementwise table over broadcast operands of any layout and
// type. Operands that already are lane-typed and contiguous are read in place; all others pass
// through tiles of a few KB that stay in the first-level cache.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/tensor/half.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

using namespace cpu;

constexpr int64_t kTile = 1024;  // elements: 4 or 8 KB a tile
constexpr int64_t kGrain = 32768;
// Results from here on go to memory past the caches, where a row reads two tensors or more: there
// it saves 15 to 20 %, while rows that read one are up to 1.6 times slower with it.
constexpr int64_t kStreamBytes = 32 << 20;

Lanes lanes_of(DType t) {
  return t == DType::Float64 ? Lanes::F64 : is_floating(t) ? Lanes::F32 : Lanes::I64;
}
constexpr DType kLaneType[] = {DType::Float32, DType::Float64, DType::Int64};

RowFn row_fn(int row, Lanes lanes) {
  switch (lanes) {
    case Lanes::F32:
      return level_of::row_f32(row);
    case Lanes::F64:
      return level_of::row_f64(row);
    default:
      return level_of::row_i64(row);
  }
}

// One operand (or the result) as the executor sees it.
struct Slot {
  char* data;
  int dtype;
  int bytes;    // per element
  bool direct;  // lane-typed: a contiguous run needs no tile
};

constexpr int kSlots = kOperands + 1;

struct alignas(64) Tiles {
  char scratch[kSlots][kTile * 8];
};

// A row, its lanes, and the operands it runs over: slot 0 is the result.
struct Run {
  RowFn fn;
  Lanes lanes;
  bool truth;  // the row writes bytes 0 and 1
  int n;       // operands
  Slot slot[kSlots];
  bool single[kSlots];  // one value for all elements: a number, or a tensor of one element
  Value number[kSlots];

  void load(int k, void* tile, const void* from, int64_t stride, int64_t count) const {
    level_of::load_tile(static_cast<int>(lanes), slot[k].dtype, tile, from, stride, count);
  }
  void store(void* to, const void* tile, int64_t stride, int64_t count) const {
    if (!truth)
      return level_of::store_tile(static_cast<int>(lanes), slot[0].dtype, to, tile, stride, count);
    for (int64_t i = 0; i < count; ++i)
      static_cast<char*>(to)[i * stride] = static_cast<const char*>(tile)[i];
  }
  int lane_bytes() const { return lanes == Lanes::F32 ? 4 : 8; }
  int result_bytes() const { return truth ? 1 : lane_bytes(); }

  // Fills operand k's tile with its one value.
  void fill(int k, char* tile, int64_t count) const {
    if (slot[k].data) return load(k, tile, slot[k].data, 0, count);
    // Through the conversion's own loop for one repeated element, which is compiled for the lanes.
    const Value& v = number[k];
    const int type = static_cast<int>(lanes);
    const int dtype = static_cast<int>(kLaneType[type]);
    const auto spread = [&](auto x) { level_of::load_tile(type, dtype, tile, &x, 0, count); };
    if (lanes == Lanes::F32)
      spread(static_cast<float>(v.number()));
    else if (lanes == Lanes::F64)
      spread(v.number());
    else
      spread(v.tag == Tag::Float  ? static_cast<int64_t>(v.d)
             : v.tag == Tag::Bool ? int64_t{v.b}
                                  : v.i);
  }
  void fill_singles(Tiles& tiles, int64_t count) const {
    for (int k = 1; k <= n; ++k)
      if (single[k]) fill(k, tiles.scratch[k], count);
  }
};

// Elements [begin, end) of operands that all are contiguous runs or single values.
void run_flat(const Run& r, int64_t begin, int64_t end, Tiles& tiles, bool stream) {
  void* p[kSlots];
  r.fill_singles(tiles, std::min(kTile, end - begin));
  bool all_direct = r.slot[0].direct && !stream;
  for (int k = 1; k <= r.n; ++k) {
    p[k] = tiles.scratch[k];
    all_direct = all_direct && r.slot[k].direct && !r.single[k];
  }
  const int64_t step = all_direct ? end - begin : kTile;
  for (int64_t i = begin; i < end; i += step) {
    const int64_t m = std::min(step, end - i);
    for (int k = 1; k <= r.n; ++k) {
      if (r.single[k]) continue;
      char* from = r.slot[k].data + i * r.slot[k].bytes;
      if (r.slot[k].direct)
        p[k] = from;
      else
        r.load(k, tiles.scratch[k], from, 1, m);
    }
    char* to = r.slot[0].data + i * r.slot[0].bytes;
    const bool direct = r.slot[0].direct && !stream;
    p[0] = direct ? to : tiles.scratch[0];
    r.fn(p, m);
    if (stream)
      level_of::stream_bytes(to, tiles.scratch[0], m * r.slot[0].bytes);
    else if (!direct)
      r.store(to, p[0], 1, m);
  }
}

// Elements [begin, end) of any walk: runs are gathered into tiles, computed, and stored run by run.
void run_strided(const Run& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
                 Tiles& tiles) {
  void* p[kSlots];
  const int last = walk.rank - 1;
  r.fill_singles(tiles, std::min(kTile, end - begin));
  for (int k = 0; k <= r.n; ++k) p[k] = tiles.scratch[k];
  if (walk.inner() >= 128) {
    // Long runs: read in place what can be.
    each_run(walk, begin, end, [&](const int64_t* offset, int64_t run) {
      for (int64_t done = 0; done < run; done += kTile) {
        const int64_t m = std::min(kTile, run - done);
        for (int k = 1; k <= r.n; ++k) {
          if (r.single[k]) continue;
          const int64_t s = walk.stride[walker[k]][last];
          char* from = r.slot[k].data + (offset[walker[k]] + done * s) * r.slot[k].bytes;
          if (r.slot[k].direct && s == 1) {
            p[k] = from;
          } else {
            p[k] = tiles.scratch[k];
            r.load(k, p[k], from, s, m);
          }
        }
        const int64_t s = walk.stride[0][last];
        char* to = r.slot[0].data + (offset[0] + done * s) * r.slot[0].bytes;
        const bool direct = r.slot[0].direct && s == 1;
        p[0] = direct ? to : tiles.scratch[0];
        r.fn(p, m);
        if (!direct) r.store(to, p[0], s, m);
      }
    });
    return;
  }
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t stop = std::min(end, i + kTile);
    int64_t at = 0;
    each_run(walk, i, stop, [&](const int64_t* offset, int64_t run) {
      for (int k = 1; k <= r.n; ++k) {
        if (r.single[k]) continue;
        const int w = walker[k];
        r.load(k, tiles.scratch[k] + at * r.lane_bytes(),
               r.slot[k].data + offset[w] * r.slot[k].bytes, walk.stride[w][last], run);
      }
      at += run;
    });
    r.fn(p, stop - i);
    at = 0;
    each_run(walk, i, stop, [&](const int64_t* offset, int64_t run) {
      r.store(r.slot[0].data + offset[0] * r.slot[0].bytes,
              tiles.scratch[0] + at * r.result_bytes(), walk.stride[0][last], run);
      at += run;
    });
  }
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

// Comparisons happen in the promoted type: a number is rounded to it first (0.1 == half(0.1)).
Value rounded_to(DType compute, const Value& v) {
  if (v.tag != Tag::Float) return v;
  if (compute == DType::Float16) return Value(double{from_float16(to_float16(v.d))});
  if (compute == DType::BFloat16) return Value(double{from_bfloat16(to_bfloat16(v.d))});
  return v;
}

}  // namespace

void run_row(int row, DType compute, const Value* args, int n, Impl* out) {
  const int64_t numel = out->numel;
  if (numel == 0 || shapes_only) return;
  Run r;
  r.lanes = lanes_of(compute);
  r.fn = row_fn(row, r.lanes);
  r.truth = row_info[row].type == RowType::Test;
  r.n = n;
  const DType lane_type = kLaneType[static_cast<int>(r.lanes)];
  const auto slot = [&](const Impl* t) {
    return Slot{t->data(), static_cast<int>(t->dtype), dtype_size(t->dtype), t->dtype == lane_type};
  };
  bool flat = true;
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
  // In place, a stop half-way would leave the tensor half-written.
  const Interrupts stop =
      args[0].tag == Tag::Tensor && args[0].t == out ? Interrupts::Hold : Interrupts::Poll;
  if (flat) {
    int streams = 0;
    for (int k = 1; k <= n; ++k) streams += !r.single[k];
    const bool stream = stop == Interrupts::Poll && r.slot[0].direct && streams > 1 &&
                        numel * r.slot[0].bytes >= kStreamBytes;
    parallel_for(
        numel, kGrain,
        [&](int64_t begin, int64_t end) {
          Tiles tiles;
          run_flat(r, begin, end, tiles, stream);
        },
        stop);
    return;
  }
  const Impl* walkers[kSlots] = {out};
  int walker[kSlots] = {}, count = 1;
  for (int k = 1; k <= n; ++k)
    if (!r.single[k]) {
      walker[k] = count;
      walkers[count++] = args[k - 1].t;
    }
  const Walk walk = make_walk(walkers, count);
  parallel_for(
      numel, kGrain,
      [&](int64_t begin, int64_t end) {
        Tiles tiles;
        run_strided(r, walk, walker, begin, end, tiles);
      },
      stop);
}

void run_lanes(int row, DType type, void* const* p, int64_t n) {
  row_fn(row, lanes_of(type))(p, n);
}

bool has_zero(const Impl* t) {
  const Impl* one[] = {t};
  const Walk walk = make_walk(one, 1);
  bool zero = false;
  alignas(64) int64_t tile[kTile];
  each_run(walk, 0, walk.numel, [&](const int64_t* offset, int64_t run) {
    const int64_t s = walk.stride[0][walk.rank - 1];
    for (int64_t done = 0; done < run; done += kTile) {
      const int64_t m = std::min(kTile, run - done);
      const char* from = t->data() + (offset[0] + done * s) * dtype_size(t->dtype);
      level_of::load_tile(static_cast<int>(Lanes::I64), static_cast<int>(t->dtype), tile, from, s,
                          m);
      for (int64_t i = 0; i < m; ++i) zero |= tile[i] == 0;
    }
  });
  return zero;
}

}  // namespace tycho
