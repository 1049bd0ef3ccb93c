// The tile executor: runs a row of the elementwise table over broadcast operands of any layout and
// type. Operands that already are lane-typed and contiguous are read in place; all others pass
// through tiles of a few KB that stay in the first-level cache.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/walk.h"
#include "engine/ops/elementwise.h"

namespace tycho {
namespace {

using namespace cpu;

constexpr int64_t kTile = 1024;  // elements: 4 or 8 KB a tile
constexpr int64_t kGrain = 32768;

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

struct alignas(64) Tiles {
  char room[4][kTile * 8];
};

void fill(char* tile, Lanes lanes, const Value& v, int64_t n) {
  if (lanes == Lanes::F32)
    std::fill_n(reinterpret_cast<float*>(tile), n, static_cast<float>(v.number()));
  else if (lanes == Lanes::F64)
    std::fill_n(reinterpret_cast<double*>(tile), n, v.number());
  else
    std::fill_n(reinterpret_cast<int64_t*>(tile), n,
                v.tag == Tag::Float  ? static_cast<int64_t>(v.d)
                : v.tag == Tag::Bool ? v.b
                                     : v.i);
}

// Elements [begin, end) of operands that all are contiguous runs (or single values, step 0).
void run_flat(RowFn fn, Lanes lanes, const Slot* slots, const bool* single, int n, int64_t begin,
              int64_t end, Tiles& tiles, const bool* number) {
  void* p[4] = {};
  for (int k = 1; k <= n; ++k)  // single values fill a tile once
    if (single[k]) {
      p[k] = tiles.room[k];
      if (!number[k])
        level_of::load_tile(static_cast<int>(lanes), slots[k].dtype, p[k], slots[k].data, 0,
                            std::min(kTile, end - begin));
    }
  bool all_direct = slots[0].direct;
  for (int k = 1; k <= n; ++k) all_direct = all_direct && slots[k].direct && !single[k];
  const int64_t step = all_direct ? end - begin : kTile;
  for (int64_t i = begin; i < end; i += step) {
    const int64_t m = std::min(step, end - i);
    for (int k = 1; k <= n; ++k) {
      if (single[k]) continue;
      char* from = slots[k].data + i * slots[k].bytes;
      if (slots[k].direct) {
        p[k] = from;
      } else {
        p[k] = tiles.room[k];
        level_of::load_tile(static_cast<int>(lanes), slots[k].dtype, p[k], from, 1, m);
      }
    }
    char* to = slots[0].data + i * slots[0].bytes;
    p[0] = slots[0].direct ? to : tiles.room[0];
    fn(p, m);
    if (!slots[0].direct)
      level_of::store_tile(static_cast<int>(lanes), slots[0].dtype, to, p[0], 1, m);
  }
}

// Elements [begin, end) of any walk: runs are gathered into tiles, computed, and stored run by run.
void run_strided(RowFn fn, Lanes lanes, const Slot* slots, const bool* number, int n,
                 const Walk& walk, const int* walker, int64_t begin, int64_t end, Tiles& tiles) {
  void* p[4] = {};
  const int last = walk.rank - 1;
  if (walk.inner() >= 128) {
    // Long runs: read in place what can be.
    each_run(walk, begin, end, [&](const int64_t* offset, int64_t run) {
      for (int64_t done = 0; done < run; done += kTile) {
        const int64_t m = std::min(kTile, run - done);
        for (int k = 1; k <= n; ++k) {
          if (number[k]) {
            p[k] = tiles.room[k];
            continue;
          }
          const int64_t s = walk.stride[walker[k]][last];
          char* from = slots[k].data + (offset[walker[k]] + done * s) * slots[k].bytes;
          if (slots[k].direct && s == 1) {
            p[k] = from;
            continue;
          }
          p[k] = tiles.room[k];
          level_of::load_tile(static_cast<int>(lanes), slots[k].dtype, p[k], from, s, m);
        }
        const int64_t s = walk.stride[0][last];
        char* to = slots[0].data + (offset[0] + done * s) * slots[0].bytes;
        const bool direct = slots[0].direct && s == 1;
        p[0] = direct ? to : tiles.room[0];
        fn(p, m);
        if (!direct) level_of::store_tile(static_cast<int>(lanes), slots[0].dtype, to, p[0], s, m);
      }
    });
    return;
  }
  const int lane_bytes = lanes == Lanes::F32 ? 4 : 8;
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t stop = std::min(end, i + kTile);
    int64_t at = 0;
    each_run(walk, i, stop, [&](const int64_t* offset, int64_t run) {
      for (int k = 1; k <= n; ++k) {
        if (number[k]) continue;
        const int w = walker[k];
        level_of::load_tile(static_cast<int>(lanes), slots[k].dtype,
                            tiles.room[k] + at * lane_bytes,
                            slots[k].data + offset[w] * slots[k].bytes, walk.stride[w][last], run);
      }
      at += run;
    });
    for (int k = 0; k <= n; ++k) p[k] = tiles.room[k];
    fn(p, stop - i);
    at = 0;
    each_run(walk, i, stop, [&](const int64_t* offset, int64_t run) {
      level_of::store_tile(static_cast<int>(lanes), slots[0].dtype,
                           slots[0].data + offset[0] * slots[0].bytes,
                           tiles.room[0] + at * lane_bytes, walk.stride[0][last], run);
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

}  // namespace

void run_row(int row, DType compute, const Value* args, int n, Impl* out) {
  if (out->numel == 0) return;
  const Lanes lanes = lanes_of(compute);
  const RowFn fn = row_fn(row, lanes);
  const DType lane_type = kLaneType[static_cast<int>(lanes)];
  Slot slots[4];
  bool single[4] = {}, number[4] = {}, flat = true;
  const auto slot = [&](const Impl* t) {
    return Slot{t->data(), static_cast<int>(t->dtype), dtype_size(t->dtype), t->dtype == lane_type};
  };
  slots[0] = slot(out);
  for (int k = 1; k <= n; ++k) {
    const Value& v = args[k - 1];
    if (v.tag != Tag::Tensor) {
      single[k] = number[k] = true;
      slots[k] = Slot{nullptr, static_cast<int>(lane_type), 0, true};
    } else {
      slots[k] = slot(v.t);
      single[k] = v.t->numel == 1 && out->numel != 1;
      flat = flat && (single[k] || same_layout(v.t, out));
    }
  }

  if (flat && out->numel <= kTile) {  // the small case, without anything around it
    Tiles tiles;
    for (int k = 1; k <= n; ++k)
      if (number[k]) fill(tiles.room[k], lanes, args[k - 1], out->numel);
    run_flat(fn, lanes, slots, single, n, 0, out->numel, tiles, number);
    return;
  }
  // In place, a stop half-way would leave the tensor half-written.
  const Interrupts stop =
      args[0].tag == Tag::Tensor && args[0].t == out ? Interrupts::Hold : Interrupts::Poll;
  if (flat) {
    parallel_for(
        out->numel, kGrain,
        [&](int64_t begin, int64_t end) {
          Tiles tiles;
          for (int k = 1; k <= n; ++k)
            if (number[k]) fill(tiles.room[k], lanes, args[k - 1], kTile);
          run_flat(fn, lanes, slots, single, n, begin, end, tiles, number);
        },
        stop);
    return;
  }
  const Impl* walkers[4] = {out};
  int walker[4] = {}, count = 1;
  for (int k = 1; k <= n; ++k)
    if (!number[k]) {
      walker[k] = count;
      walkers[count++] = args[k - 1].t;
    }
  const Walk walk = make_walk(walkers, count);
  parallel_for(
      out->numel, kGrain,
      [&](int64_t begin, int64_t end) {
        Tiles tiles;
        for (int k = 1; k <= n; ++k)
          if (number[k]) fill(tiles.room[k], lanes, args[k - 1], kTile);
        run_strided(fn, lanes, slots, number, n, walk, walker, begin, end, tiles);
      },
      stop);
}

}  // namespace tycho
