// Scaled dot-product attention without the matrix of scores: heads and blocks of queries are spread
// over the threads, keys and values are packed once per head. Sums run in one order whatever the
// number of threads is.
#include "engine/cpu/nn/attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/attention_inputs.h"
#include "engine/cpu/nn/attention_tiles.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

struct Forward {
  const AttentionInputs& in;
  const Tensor &out, &lse;
  AttentionStack to;

  Forward(const AttentionInputs& inputs, const Tensor& o, const Tensor& l)
      : in(inputs), out(o), lse(l), to(stack_of(o, in.lead, 1)) {}

  void group(int64_t g, bool split) const {
    const AttentionLanes& lane = in.lane;
    const int64_t first = g * in.share;
    // Packing pays off over many queries only.
    const int64_t readers = in.share * in.queries;
    const bool k_here = readers <= kFewQueries;
    // Rows of values may also stand where they are, unless they share sets of the caches.
    const bool v_here =
        in.as_stored || (in.v.col == 1 && in.v.row > 0 &&
                         (readers <= 24 * kFewQueries || in.v.row * lane.size % 4096 != 0));
    const Scratch k(k_here ? 0 : lane.bytes(up(in.keys, lane.unit_cols) * in.depth)),
        v(v_here ? 0 : lane.bytes(in.keys * up(in.width, lane.unit_cols)));
    const int64_t panels = k_here ? 0 : up(in.keys, lane.unit_cols) / lane.unit_cols;
    spread_over(split, panels, 8, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * lane.unit_cols;
      char* const to = lane.at(k.data(), from * in.depth);
      lane.turned(in.k, first, from, std::min(in.keys, end * lane.unit_cols), to);
      level_of::attention_scale(lane.type, static_cast<void*>(to),
                                (end - begin) * lane.unit_cols * in.depth, in.scale);
    });
    if (!v_here) lane.straight(in.v, first, 0, in.keys, v.data());
    const int64_t blocks = (in.queries + kAttentionRows - 1) / kAttentionRows;
    spread_over(split, in.share * blocks, 1, [&](int64_t begin, int64_t end) {
      // Straight into the result where its type and layout allow.
      const bool direct = out.dtype() == lane.dtype && (to.col == 1 || to.cols == 1);
      const int64_t step = direct ? to.row : up(in.width, lane.unit_cols) + 16;
      const int64_t out_size = direct ? 0 : std::min(in.queries, kAttentionRows) * step;
      const int64_t room = in.as_stored ? kAttentionStored * std::max(in.depth, in.width) : 0;
      const Scratch scratch(
          lane.bytes(room + out_size + kAttentionRows + level_of::attention_scratch()));
      AttentionRows a;
      a.keys = in.keys, a.depth = in.depth, a.width = in.width, a.causal = in.causal;
      a.scale = in.scale;
      a.k_turned = k_here ? nullptr : k.data();
      a.stored = in.as_stored ? static_cast<int>(in.k.t.dtype()) : -1;
      a.stored_bytes = dtype_size(in.k.t.dtype());
      a.k = in.k.matrix(first, a.stored_bytes), a.k_row = in.k.row;
      a.v = v_here ? in.v.matrix(first, a.stored_bytes) : v.data(), a.v_row = !v_here    ? 0
                                                                              : in.v.row ? in.v.row
                                                                                         : 1;
      a.q_row = in.q.row, a.out_row = step;
      a.lse = lane.at(scratch.data(), out_size);
      a.room = lane.at(scratch.data(), out_size + kAttentionRows);
      a.scratch = lane.at(scratch.data(), out_size + kAttentionRows + room);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t head = first + i / blocks;
        const int64_t place = to.at[static_cast<size_t>(head)];
        a.first = i % blocks * kAttentionRows;
        a.rows = std::min(kAttentionRows, in.queries - a.first);
        a.mask = in.mask_of(head);
        a.q = lane.at(in.q.matrix(head, lane.size), a.first * in.q.row);
        a.out = direct ? lane.at(out.data(), place + a.first * to.row) : scratch.data();
        level_of::attention_rows(lane.type, const_cast<const AttentionRows*>(&a));
        if (!direct)
          lane.store(out, place + a.first * to.row, to.row, to.col, static_cast<const char*>(a.out),
                     step, a.rows, in.width);
        std::copy_n(static_cast<const char*>(a.lse), lane.bytes(a.rows),
                    lse.data() + lane.bytes(head * in.queries + a.first));
      }
    });
  }
};

}  // namespace

void attention(Call& c) {
  const Tensor &out = c.out[0], &lse = c.out[1];
  if (out.numel() == 0 && lse.numel() == 0) return;
  const AttentionInputs in(c, 0);
  if (in.by_tiles) return attention_tiles(in, out, lse);
  const Forward pass(in, out, lse);
  if (in.by_group())
    parallel_for(in.groups, in.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) pass.group(g, false);
    });
  else
    for (int64_t g = 0; g < in.groups; ++g) pass.group(g, true);
}

namespace {

// One group's operands packed for the backward tiles, and its sums.
struct Gradients {
  const AttentionInputs& in;
  const AttentionStack &g, &o;
  const Tensor& lse;
  AttentionStack dq, dk, dv;

  // Where a sum is made: in the result itself where its type and layout allow, else in scratch
  // memory.
  struct Sum {
    char* data;
    int64_t row;
    bool direct;
  };
  Sum sum_in(const AttentionStack& result, int64_t head, char* scratch,
             bool from_zero = true) const {
    const bool direct = result.t.dtype() == in.lane.dtype && (result.col == 1 || result.cols <= 1);
    const Sum s = {direct ? result.matrix(head, in.lane.size) : scratch,
                   direct ? result.row : up(result.cols, 16) + 16, direct};
    for (int64_t i = 0; i < result.rows && from_zero; ++i)
      std::memset(in.lane.at(s.data, i * s.row), 0, in.lane.bytes(result.cols));
    return s;
  }
  void finish(const Sum& s, const AttentionStack& result, int64_t head) const {
    if (!s.direct)
      in.lane.store(result.t, result.at[static_cast<size_t>(head)], result.row, result.col, s.data,
                    s.row, result.rows, result.cols);
  }

  void group(int64_t index, bool split) const {
    const AttentionLanes& lane = in.lane;
    const int64_t first = index * in.share, queries = in.queries, keys = in.keys;
    // For few queries, as forward, keys and values are read as they lie.
    const bool here = in.share * queries <= kFewQueries && in.v.col == 1;
    const int64_t k_rows = here ? 0 : up(keys, lane.unit_cols);
    const int64_t qs = up(in.depth, 16) + 16, vs = up(in.width, 16) + 16;
    const bool rooms = dq.t.dtype() != lane.dtype || dq.col != 1 || dk.col != 1 || dv.col != 1;
    // k and v turned, delta, the three sums, and the gaps between them.
    const Scratch scratch(lane.bytes(k_rows * (in.depth + in.width) + queries + 8 * 16 +
                                     (rooms ? queries * qs + keys * (qs + vs) : 0)));
    char* next = scratch.data();
    const auto take = [&](int64_t elements) {
      char* p = next;
      next = lane.at(next, up(elements, 16));  // whole cache lines
      return p;
    };
    char* const k_turned = take(k_rows * in.depth);
    char* const v_turned = take(k_rows * in.width);
    char* const delta = take(queries);
    char* const dq_scratch = take(rooms ? queries * qs : 0);
    const int64_t row_blocks = (queries + kAttentionGradRows - 1) / kAttentionGradRows;
    // One tile writes all that there is of a key.
    const bool once = in.share == 1 && row_blocks == 1 && !in.causal;
    const Sum dk_sum = sum_in(dk, first, take(rooms ? keys * qs : 0), !once);
    const Sum dv_sum = sum_in(dv, first, take(rooms ? keys * vs : 0), !once);
    if (!here) {
      lane.turned(in.k, first, 0, keys, k_turned);
      level_of::attention_scale(lane.type, static_cast<void*>(k_turned), k_rows * in.depth,
                                in.scale);
      lane.turned(in.v, first, 0, keys, v_turned);
    }
    const int64_t key_blocks = (keys + kAttentionGradKeys - 1) / kAttentionGradKeys;
    for (int64_t head = first; head < first + in.share; ++head) {
      // Of one tile's rows delta is summed inside, without the rounding of the result.
      for (int64_t i = 0; i < queries && key_blocks > 1; ++i)
        level_of::dot_part(lane.type, in.width,
                           static_cast<const void*>(lane.at(g.matrix(head, lane.size), i * g.row)),
                           static_cast<const void*>(lane.at(o.matrix(head, lane.size), i * o.row)),
                           static_cast<void*>(lane.at(delta, i)));
      const Sum dq_sum = sum_in(dq, head, dq_scratch);
      const auto tile = [&](int64_t rb, int64_t kb, bool by_rows, bool by_keys, char* work) {
        AttentionTile a;
        a.first = rb * kAttentionGradRows, a.rows = std::min(kAttentionGradRows, queries - a.first);
        a.key = kb * kAttentionGradKeys, a.keys = std::min(kAttentionGradKeys, keys - a.key);
        if (in.causal && a.first + a.rows <= a.key) return;
        a.depth = in.depth, a.width = in.width, a.causal = in.causal, a.mask = in.mask_of(head);
        a.scale = in.scale;
        a.q_row = in.q.row, a.g_row = g.row, a.k_row = in.k.row;
        a.k = lane.at(in.k.matrix(head, lane.size), a.key * in.k.row);
        a.q = lane.at(in.q.matrix(head, lane.size), a.first * in.q.row);
        a.g = lane.at(g.matrix(head, lane.size), a.first * g.row);
        a.v = lane.at(in.v.matrix(first, lane.size), a.key * in.v.row), a.v_row = in.v.row;
        a.k_turned = here ? nullptr : lane.at(k_turned, a.key * in.depth);
        a.v_turned = here ? nullptr : lane.at(v_turned, a.key * in.width);
        a.begins = once;
        a.lse = lse.data() + lane.bytes(head * queries + a.first);
        a.delta = key_blocks > 1 ? lane.at(delta, a.first) : nullptr;
        a.dq_row = dq_sum.row, a.dk_row = dk_sum.row, a.dv_row = dv_sum.row;
        a.dq = by_rows ? lane.at(dq_sum.data, a.first * a.dq_row) : nullptr;
        a.dk = by_keys ? lane.at(dk_sum.data, a.key * a.dk_row) : nullptr;
        a.dv = by_keys ? lane.at(dv_sum.data, a.key * a.dv_row) : nullptr;
        a.scratch = work;
        level_of::attention_grad(lane.type, const_cast<const AttentionTile*>(&a));
      };
      const size_t working = lane.bytes(level_of::attention_scratch());
      if (split && get_num_threads() > 1) {
        parallel_for(row_blocks, 1, [&](int64_t begin, int64_t end) {
          const Scratch work(working);
          for (int64_t rb = begin; rb < end; ++rb)
            for (int64_t kb = 0; kb < key_blocks; ++kb) tile(rb, kb, true, false, work.data());
        });
        parallel_for(key_blocks, 1, [&](int64_t begin, int64_t end) {
          const Scratch work(working);
          for (int64_t kb = begin; kb < end; ++kb)
            for (int64_t rb = 0; rb < row_blocks; ++rb) tile(rb, kb, false, true, work.data());
        });
      } else {
        const Scratch work(working);
        spread_over(split, key_blocks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t kb = begin; kb < end; ++kb)
            for (int64_t rb = 0; rb < row_blocks; ++rb) tile(rb, kb, true, true, work.data());
        });
      }
      finish(dq_sum, dq, head);
    }
    finish(dk_sum, dk, first);
    finish(dv_sum, dv, first);
  }
};

}  // namespace

void attention_backward(Call& c) {
  if (c.out[0].numel() == 0 && c.out[1].numel() == 0 && c.out[2].numel() == 0) return;
  const AttentionInputs in(c, 1);
  if (in.by_tiles) return attention_tiles_backward(in, c);
  const AttentionStack g = in.lines(c.tensor(0), 1, false), o = in.lines(c.tensor(7), 1, false);
  const Gradients pass{in,
                       g,
                       o,
                       c.tensor(8),
                       stack_of(c.out[0], in.lead, 1),
                       stack_of(c.out[1], in.lead, in.share),
                       stack_of(c.out[2], in.lead, in.share)};
  if (in.by_group())
    parallel_for(in.groups, in.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pass.group(i, false);
    });
  else
    for (int64_t i = 0; i < in.groups; ++i) pass.group(i, true);
}

BIND_KERNEL(Cpu, "fused_attention", attention);
BIND_KERNEL(Cpu, "fused_attention_backward", attention_backward);

}  // namespace tycho::cpu
