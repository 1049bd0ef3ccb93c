// Running rows over tiles: operands that already are lane-typed and contiguous are read in
// place; all others pass through tiles that stay in the first-level cache.
#include "engine/cpu/elementwise/program.h"

#include <algorithm>
#include <cstring>

#include "engine/cpu/cache.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

// Where operand k's one value is: where it lies, or written to its tile.
void* single(const Program& r, int k, char* tile) {
  if (r.slot[k].data) return r.one(k, tile, r.slot[k].data);
  const Value& v = r.number[k];
  const Lanes lanes = value_lanes(r.lanes);
  const auto put = [&](auto x) {
    std::memcpy(tile, &x, sizeof x);
    return tile;
  };
  if (lanes == Lanes::F32) return put(static_cast<float>(v.number()));
  if (lanes == Lanes::F64) return put(v.number());
  const int64_t x = v.tag == Tag::Float  ? static_cast<int64_t>(v.d)
                    : v.tag == Tag::Bool ? int64_t{v.b}
                                         : v.i;
  level_of::load_tile(static_cast<int>(lanes), static_cast<int>(DType::Int64), tile, &x, 1, 1);
  return tile;
}
// Their bits, as `repeated` has them.
unsigned place_singles(const Program& r, Tiles& tiles, void** p) {
  unsigned singles = 0;
  for (int k = 1; k <= r.n; ++k)
    if (r.single[k]) p[k] = single(r, k, tiles.place[k]), singles |= 1u << k;
  return singles;
}

// Elements that are taken at a time: tiles of several operands stay in the first cache.
int64_t tile_of(const Program& r) { return r.lane_bytes() == 8 ? kTile / 2 : kTile; }

}  // namespace

void Program::store(void* to, const void* tile, int64_t stride, int64_t m) const {
  if (!truth)
    return level_of::store_tile(static_cast<int>(lanes), slot[0].dtype, to, tile, stride, m);
  for (int64_t i = 0; i < m; ++i)
    static_cast<char*>(to)[i * stride] = static_cast<const char*>(tile)[i];
}

void run_flat(const Program& r, int64_t begin, int64_t end, Tiles& tiles, bool stream) {
  void* p[kSlots];
  const int64_t tile = tile_of(r);
  bool all_direct = r.slot[0].direct;
  for (int k = 1; k <= r.n; ++k) {
    p[k] = tiles.place[k];
    all_direct = all_direct && (r.slot[k].direct || r.single[k]);
  }
  const unsigned singles = place_singles(r, tiles, p);
  const int64_t step = all_direct ? end - begin : tile;
  for (int64_t i = begin; i < end; i += step) {
    const int64_t m = std::min(step, end - i);
    for (int k = 1; k <= r.n; ++k) {
      if (r.single[k]) continue;
      char* from = r.slot[k].data + i * r.slot[k].bytes;
      if (r.slot[k].direct)
        p[k] = from;
      else
        r.load(k, tiles.place[k], from, 1, m);
    }
    char* to = r.slot[0].data + i * r.slot[0].bytes;
    const bool direct = r.slot[0].direct;
    p[0] = direct ? to : tiles.place[0];
    r.compute(p, m, singles, stream);
    if (!direct) r.store(to, p[0], 1, m);
  }
  if (stream) end_stream();
}

bool in_place(const Program& r, const Walk& walk, const int* walker) {
  const int last = walk.rank - 1;
  if (!r.slot[0].direct || walk.stride[0][last] != 1) return false;
  for (int k = 1; k <= r.n; ++k) {
    if (r.single[k]) continue;
    const int64_t s = walk.stride[walker[k]][last];
    if (!(s == 1 ? r.slot[k].direct : s == 0 && r.in_lanes(k))) return false;
  }
  return true;
}

void run_in_place(const Program& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
                  Tiles& tiles, bool stream) {
  void* p[kSlots];
  unsigned repeated = place_singles(r, tiles, p);
  Times times = stream ? kOncePast : kOnce;
  for (int k = 0; k <= r.n; ++k) {
    if (k && r.single[k]) continue;
    const int64_t* stride = walk.stride[k ? walker[k] : 0] + walk.rank - 1;
    if (*stride == 0) repeated |= 1u << k;
    if (walk.rank > 1) times.step[k] = stride[-1] * r.slot[k].bytes;
  }
  each_plane(walk, begin, end, [&](const int64_t* offset, int64_t rows, int64_t run) {
    for (int k = 0; k <= r.n; ++k)
      if (!k || !r.single[k]) p[k] = r.slot[k].data + offset[k ? walker[k] : 0] * r.slot[k].bytes;
    times.count = rows;
    r.fn(p, run, repeated, times);
  });
  if (stream) end_stream();
}

void run_long(const Program& r, const Walk& walk, const int* walker, int64_t begin, int64_t end,
              Tiles& tiles, bool stream) {
  void* p[kSlots];
  const int last = walk.rank - 1;
  for (int k = 0; k <= r.n; ++k) p[k] = tiles.place[k];
  unsigned repeated = place_singles(r, tiles, p);
  bool all_direct = r.slot[0].direct && walk.stride[0][last] == 1;
  for (int k = 1; k <= r.n; ++k) {
    if (r.single[k]) continue;
    const int64_t s = walk.stride[walker[k]][last];
    if (s == 0) repeated |= 1u << k;
    all_direct = all_direct && (s == 0 || (s == 1 && r.slot[k].direct));
  }
  const int64_t tile = all_direct ? walk.inner() : tile_of(r);
  each_run(walk, begin, end, [&](const int64_t* offset, int64_t run) {
    for (int64_t done = 0; done < run; done += tile) {
      const int64_t m = std::min(tile, run - done);
      for (int k = 1; k <= r.n; ++k) {
        if (r.single[k]) continue;
        const int64_t s = walk.stride[walker[k]][last];
        char* from = r.slot[k].data + (offset[walker[k]] + done * s) * r.slot[k].bytes;
        if (r.slot[k].direct && s == 1) {
          p[k] = from;
        } else if (s != 0) {
          r.load(k, tiles.place[k], from, s, m);
        } else if (done == 0) {
          p[k] = r.one(k, tiles.place[k], from);
        }
      }
      const int64_t s = walk.stride[0][last];
      char* to = r.slot[0].data + (offset[0] + done * s) * r.slot[0].bytes;
      const bool direct = r.slot[0].direct && s == 1;
      p[0] = direct ? to : tiles.place[0];
      r.compute(p, m, repeated, stream && direct);
      if (!direct) r.store(to, p[0], s, m);
    }
  });
  if (stream) end_stream();
}

void run_boxes(const Program& r, const Boxes& boxes, const int* walker, int64_t begin, int64_t end,
               Tiles& tiles, bool stream) {
  const Walk& walk = *boxes.walk;
  void* p[kSlots];
  alignas(64) char few[kTile * 8];
  // Tiles of large boxes, and the last one as in memory, before or after conversion.
  const size_t tile_bytes = static_cast<size_t>(boxes.numel) * 8;
  const Scratch many(boxes.large() ? tile_bytes * static_cast<size_t>(r.n + 2) : 0);
  const auto tile = [&](int k) {
    return boxes.large() ? many.data() + tile_bytes * static_cast<size_t>(k) : tiles.place[k];
  };
  char* const raw = boxes.large() ? tile(r.n + 1) : static_cast<char*>(few);
  BoxPart part[kWalkers];
  bool once[kSlots];
  const unsigned singles = place_singles(r, tiles, p);
  for (int k = 1; k <= r.n; ++k) once[k] = !r.single[k] && boxes.same_in_all(walker[k]);
  int64_t offset[kWalkers], size[kMaxDims];
  bool planned = false;  // for whole boxes
  const int last = walk.rank - 1;
  stream = stream && boxes.large() && boxes.extent[last] * r.slot[0].bytes % 64 == 0;
  for (int64_t i = begin; i < end; ++i) {
    const bool whole = boxes.at(i, offset, size), first = !(whole && planned);
    if (first)
      for (int k = 0; k < walk.count; ++k) part[k].plan(walk, k, size);
    planned = whole;
    const int64_t m = part[0].numel(), run = size[last];
    const Slot& result = r.slot[0];
    char* to = result.data + offset[0] * result.bytes;
    // Long runs of the result are computed one by one, from and to where they lie if they can be and
    // would have to be moved otherwise.
    bool by_runs = run * r.lane_bytes() >= 256 && run < m && result.direct && part[0].runs(),
         moved = !part[0].dense();
    for (int k = 1; by_runs && k <= r.n; ++k)
      if (const BoxPart& from = part[walker[k]]; !r.single[k] && r.slot[k].direct)
        moved = moved || (from.runs() && !from.dense());
    by_runs = by_runs && moved;
    char* runs[kSlots];
    unsigned repeated = singles;
    for (int k = 1; k <= r.n; ++k) {
      if (r.single[k]) continue;
      const Slot& slot = r.slot[k];
      const BoxPart& from = part[walker[k]];
      char* data = slot.data + offset[walker[k]] * slot.bytes;
      runs[k] = by_runs && slot.direct && from.runs() ? data : nullptr;
      if (from.one()) repeated |= 1u << k;
      if (runs[k] || (once[k] && !first)) continue;
      p[k] = tile(k);
      if (from.one()) {
        p[k] = r.one(k, p[k], data);
      } else if (slot.direct && from.dense()) {
        p[k] = data;
      } else if (slot.direct) {
        from.gather(slot.bytes, tile(k), data);
      } else if (from.dense()) {
        r.load(k, p[k], data, 1, m);
      } else {
        from.gather(slot.bytes, raw, data);
        r.load(k, p[k], raw, 1, m);
      }
    }
    if (by_runs) {
      for (int64_t at = 0; at < m; at += run) {
        for (int k = 1; k <= r.n; ++k)
          if (!(repeated >> k & 1))
            p[k] = runs[k] ? runs[k] + part[walker[k]].at(at) * r.lane_bytes()
                           : tile(k) + at * r.lane_bytes();
        p[0] = to + part[0].at(at) * result.bytes;
        r.compute(p, run, repeated, stream);
      }
      continue;
    }
    p[0] = result.direct && part[0].dense() ? to : tile(0);
    r.compute(p, m, repeated);
    if (result.direct) {
      if (!part[0].dense()) part[0].scatter(result.bytes, to, tile(0));
    } else if (part[0].dense()) {
      r.store(to, p[0], 1, m);
    } else {
      r.store(raw, p[0], 1, m);
      part[0].scatter(result.bytes, to, raw);
    }
  }
  if (stream) end_stream();
}

}  // namespace tycho::cpu
