// See attention_tiles.h. The blocks are those of attention.cpp; a "panel" holds 16 columns of a right
// operand, filled up to whole tiles of terms.
#include "engine/cpu/nn/attention_tiles.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/cpu/matmul/tiles.h"
#include "engine/cpu/nn/attention_inputs.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kQueryRows = 64, kKeysAtOnce = 512;   // of a forward block
constexpr int64_t kCausalRows = 32;                     // fewer, of which each sees other keys
constexpr int64_t kGradQueries = 256, kGradKeys = 128;  // of a backward block
constexpr int64_t kApart = 32;  // more than a row's length, so that rows do not share cache sets

const uint16_t* halves_of(const AttentionStack& s, int64_t head) {
  return reinterpret_cast<const uint16_t*>(s.matrix(head, 2));
}

// A matrix in panels: its rows are the right operand's columns, or (`turned`) its terms.
struct TilePanels {
  int64_t terms, cols, depth;
  Scratch all;

  TilePanels(const AttentionStack& s, bool turned)
      : terms(turned ? s.rows : s.cols),
        cols(turned ? s.cols : s.rows),
        depth(up(terms, kTileTerms)),
        all(static_cast<size_t>(up(cols, kTileSide) * depth) * 2) {}
  uint16_t* data() const { return reinterpret_cast<uint16_t*>(all.data()); }
  int64_t panel() const { return depth * kTileSide; }
  void fill(const AttentionStack& s, int64_t head, bool turned) const {
    const int64_t column = turned ? s.col : s.row, term = turned ? s.row : s.col;
    for (int64_t j = 0; j < cols; j += kTileSide)
      v4::tile_pack_columns({v4::TilePart::Bits, halves_of(s, head) + j * column, column, term,
                             std::min<int64_t>(kTileSide, cols - j), terms, depth,
                             data() + j * depth, 0});
  }
};

// Rows of a matrix, or of float32 scores (`turned`: its columns), as a left operand.
void pack_left(v4::TilePart part, const void* from, int size, int64_t step, int64_t term,
               int64_t rows, int64_t terms, uint16_t* to, int64_t row) {
  for (int64_t i = 0; i < rows; i += kTileSide)
    v4::tile_pack_rows({part, static_cast<const char*>(from) + i * step * size, step, term,
                        std::min<int64_t>(kTileSide, rows - i), terms, up(terms, kTileTerms),
                        to + i * row, row});
}
void pack_matrix(const AttentionStack& s, int64_t head, int64_t first, int64_t rows, uint16_t* to) {
  pack_left(v4::TilePart::Bits, halves_of(s, head) + first * s.row, 2, s.row, s.col, rows, s.cols,
            to, up(s.cols, kTileTerms));
}

// Working memory that is cut into parts of whole cache lines.
struct Rooms {
  Scratch all;
  size_t used = 0;
  explicit Rooms(size_t bytes) : all(bytes) {}
  template <class T>
  T* take(int64_t n) {
    T* const at = reinterpret_cast<T*>(all.data() + used);
    used += room<T>(n);
    return at;
  }
  template <class T>
  static size_t room(int64_t n) {
    return static_cast<size_t>(up(n * static_cast<int64_t>(sizeof(T)), 64));
  }
};

int64_t rows_at_once(const AttentionInputs& in) { return in.causal ? kCausalRows : kQueryRows; }

struct TiledForward {
  const AttentionInputs& in;
  const Tensor &out, &lse;
  AttentionStack to;

  void group(int64_t g, bool split) const {
    const int64_t first = g * in.share;
    const TilePanels k(in.k, false), v(in.v, true);
    k.fill(in.k, first, false);
    v.fill(in.v, first, true);
    const int64_t at_once = rows_at_once(in), blocks_of_rows = blocks(in.queries, at_once);
    spread_over(split, in.share * blocks_of_rows, 1, [&](int64_t begin, int64_t end) {
      const int64_t rows = up(std::min(in.queries, at_once), kTileSide);
      const int64_t keys = up(std::min(in.keys, kKeysAtOnce), kTileTerms) + kApart;
      const int64_t width = up(in.width, kTileSide);
      using R = Rooms;
      R room(R::room<uint16_t>(rows * k.depth) + R::room<float>(rows * keys) +
             R::room<uint16_t>(rows * keys) + R::room<float>(rows * width) + R::room<float>(keys) +
             3 * R::room<float>(rows));
      auto* const q = room.take<uint16_t>(rows * k.depth);
      auto* const scores = room.take<float>(rows * keys);
      auto* const weights = room.take<uint16_t>(rows * keys);
      auto* const sums = room.take<float>(rows * width);
      auto* const line = room.take<float>(keys);
      auto *const top = room.take<float>(rows), *const sum = room.take<float>(rows),
                  *const logs = room.take<float>(rows);
      const TilesReady ready(*tiles_or_pairs());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t head = first + i / blocks_of_rows;
        AttentionWeights a{};
        a.first = i % blocks_of_rows * at_once;
        a.rows = std::min(at_once, in.queries - a.first);
        a.width = in.width, a.causal = in.causal, a.mask = in.mask_of(head), a.scale = in.scale;
        a.scores = scores, a.weights = weights, a.out = sums;
        a.scores_row = keys, a.weights_row = keys, a.out_row = width;
        a.top = top, a.sum = sum, a.line = line;
        std::fill_n(top, a.rows, -__builtin_inff());
        std::fill_n(sum, a.rows, 0.f);
        pack_matrix(in.q, head, a.first, a.rows, q);
        const int64_t all_rows = up(a.rows, kTileSide);
        const int64_t seen = in.causal ? std::min(in.keys, a.first + a.rows) : in.keys;
        for (a.key = 0; a.key < seen; a.key += kKeysAtOnce) {
          a.keys = std::min(kKeysAtOnce, seen - a.key), a.filled = up(a.keys, kTileTerms);
          ready.multiply({q, k.depth, k.data() + a.key * k.depth, k.panel(), scores, keys, all_rows,
                          up(a.keys, kTileSide), k.depth, false});
          v4::attention_weights(a);
          ready.multiply({weights, keys, v.data() + a.key * kTileSide, v.panel(), sums, width,
                          all_rows, width, a.filled, a.key > 0});
        }
        v4::attention_rows_end(a.rows, top, sum, logs, sums, width, in.width);
        in.lane.store(out, to.at[static_cast<size_t>(head)] + a.first * to.row, to.row, to.col,
                      reinterpret_cast<const char*>(sums), width, a.rows, in.width);
        std::copy_n(logs, a.rows, lse.data<float>() + head * in.queries + a.first);
      }
    });
  }
};

// As `Gradients` in attention.cpp: for few keys one block has all of a query's.
struct TiledGradients {
  const AttentionInputs& in;
  AttentionStack g, o;
  const Tensor& lse;
  AttentionStack dq, dk, dv;

  struct Sums {  // float32, whole tiles
    int64_t row;
    Scratch all;
    Sums(int64_t rows, int64_t cols)
        : row(up(cols, kTileSide)),
          all(static_cast<size_t>(up(rows, kGradKeys) * row) * sizeof(float)) {
      clear(rows);
    }
    float* data() const { return reinterpret_cast<float*>(all.data()); }
    void clear(int64_t rows) const {
      std::memset(all.data(), 0, static_cast<size_t>(up(rows, kTileSide) * row) * sizeof(float));
    }
  };
  void finish(const Sums& s, const AttentionStack& result, int64_t head) const {
    in.lane.store(result.t, result.at[static_cast<size_t>(head)], result.row, result.col,
                  s.all.data(), s.row, result.rows, result.cols);
  }

  // sum(g o) of each query.
  void find_delta(int64_t head, float* delta) const {
    std::vector<float> a(static_cast<size_t>(in.width)), b(a);
    const auto bf16 = static_cast<int>(DType::BFloat16);
    for (int64_t i = 0; i < in.queries; ++i) {
      v4::load_tile(in.lane.type, bf16, a.data(), halves_of(g, head) + i * g.row, g.col, in.width);
      v4::load_tile(in.lane.type, bf16, b.data(), halves_of(o, head) + i * o.row, o.col, in.width);
      v4::dot_part(in.lane.type, in.width, a.data(), b.data(), delta + i);
    }
  }

  void group(int64_t index, bool split) const {
    const int64_t first = index * in.share, queries = in.queries, keys = in.keys;
    const TilePanels k(in.k, false), v(in.v, false), k_terms(in.k, true), q_terms(in.q, true),
        g_terms(g, true);
    k.fill(in.k, first, false);
    v.fill(in.v, first, false);
    k_terms.fill(in.k, first, true);
    const Sums dk_sums(keys, in.depth), dv_sums(keys, in.width), dq_sums(queries, in.depth);
    const int64_t all_queries = up(queries, kQueryRows);
    Rooms whole(Rooms::room<uint16_t>(all_queries * k.depth) +
                Rooms::room<uint16_t>(all_queries * v.depth) + Rooms::room<float>(queries));
    auto* const q_rows = whole.take<uint16_t>(all_queries * k.depth);
    auto* const g_rows = whole.take<uint16_t>(all_queries * v.depth);
    auto* const delta = whole.take<float>(queries);
    const int64_t at_once = rows_at_once(in);
    const int64_t key_blocks = blocks(keys, kGradKeys), row_blocks = blocks(queries, kGradQueries);
    for (int64_t head = first; head < first + in.share; ++head) {
      if (key_blocks > 1) find_delta(head, delta);
      if (head > first) dq_sums.clear(queries);
      pack_matrix(in.q, head, 0, queries, q_rows);
      pack_matrix(g, head, 0, queries, g_rows);
      q_terms.fill(in.q, head, true);
      g_terms.fill(g, head, true);
      const auto work = [&](int64_t rb, int64_t kb, bool by_rows, bool by_keys, Rooms& room,
                            const TilesReady& ready) {
        AttentionTile a{};
        a.first = rb * kGradQueries, a.rows = std::min(kGradQueries, queries - a.first);
        a.key = kb * kGradKeys, a.keys = std::min(kGradKeys, keys - a.key);
        if (in.causal && a.first + a.rows <= a.key) return;
        a.causal = in.causal, a.mask = in.mask_of(head), a.scale = in.scale;
        a.lse = lse.data<float>() + head * queries + a.first;
        a.delta = key_blocks > 1 ? delta + a.first : nullptr;
        room.used = 0;
        const int64_t step = kGradKeys + kApart, turned_row = kGradQueries + kApart;
        auto* const s = room.take<float>(kQueryRows * step);
        auto* const d = room.take<float>(kQueryRows * step);
        auto* const line = room.take<float>(kGradKeys);
        auto* const ds = room.take<uint16_t>(kQueryRows * step);
        auto* const p_turned = room.take<uint16_t>(kGradKeys * turned_row);
        auto* const ds_turned = room.take<uint16_t>(kGradKeys * turned_row);
        const int64_t key_cols = up(a.keys, kTileSide);
        for (int64_t r = 0; r < a.rows; r += at_once) {
          const int64_t m = std::min(at_once, a.rows - r), row = a.first + r;
          const int64_t seen = in.causal ? std::min(a.keys, row + m - a.key) : a.keys;
          const int64_t n = std::max<int64_t>(seen, 0), all_rows = up(m, kTileSide);
          if (n > 0) {
            ready.multiply({q_rows + row * k.depth, k.depth, k.data() + a.key * k.depth, k.panel(),
                            s, step, all_rows, up(n, kTileSide), k.depth, false});
            ready.multiply({g_rows + row * v.depth, v.depth, v.data() + a.key * v.depth, v.panel(),
                            d, step, all_rows, up(n, kTileSide), v.depth, false});
          }
          v4::attention_slopes(a, r, m, n, s, d, step, line);
          if (by_rows && n > 0) {
            pack_left(v4::TilePart::High, d, 4, step, 1, m, n, ds, step);
            ready.multiply({ds, step, k_terms.data() + a.key * kTileSide, k_terms.panel(),
                            dq_sums.data() + row * dq_sums.row, dq_sums.row, all_rows, dq_sums.row,
                            up(n, kTileTerms), true});
          }
          if (!by_keys) continue;
          pack_left(v4::TilePart::High, s, 4, 1, step, a.keys, m, p_turned + r, turned_row);
          pack_left(v4::TilePart::High, d, 4, 1, step, a.keys, m, ds_turned + r, turned_row);
        }
        if (!by_keys) return;
        const int64_t terms = up(a.rows, kTileTerms);
        const int64_t some =
            in.causal ? 2 * kTileSide : key_cols;  // keys that the same queries see
        for (int64_t j = 0; j < key_cols; j += some) {
          const int64_t hidden = in.causal ? std::max<int64_t>(0, a.key + j - a.first) : 0;
          const int64_t from = hidden / kTileTerms * kTileTerms,
                        cols = std::min(some, key_cols - j);
          if (from >= terms) break;
          const auto sum = [&](const uint16_t* left, const TilePanels& right, const Sums& to) {
            ready.multiply({left + j * turned_row + from, turned_row,
                            right.data() + (a.first + from) * kTileSide, right.panel(),
                            to.data() + (a.key + j) * to.row, to.row, cols, to.row, terms - from,
                            true});
          };
          sum(p_turned, g_terms, dv_sums);
          sum(ds_turned, q_terms, dk_sums);
        }
      };
      const auto over = [&](bool threads, int64_t n, auto&& body) {
        spread_over(threads, n, 1, [&](int64_t begin, int64_t end) {
          Rooms room(static_cast<size_t>(12 * kQueryRows * (kGradKeys + kApart) + 4 * kGradKeys +
                                         4 * kGradKeys * (kGradQueries + kApart) + 6 * 64));
          const TilesReady ready(*tiles_or_pairs());
          for (int64_t i = begin; i < end; ++i) body(i, room, ready);
        });
      };
      if (split && get_num_threads() > 1) {
        over(true, row_blocks, [&](int64_t rb, Rooms& room, const TilesReady& ready) {
          for (int64_t kb = 0; kb < key_blocks; ++kb) work(rb, kb, true, false, room, ready);
        });
        over(true, key_blocks, [&](int64_t kb, Rooms& room, const TilesReady& ready) {
          for (int64_t rb = 0; rb < row_blocks; ++rb) work(rb, kb, false, true, room, ready);
        });
      } else {
        over(split, key_blocks, [&](int64_t kb, Rooms& room, const TilesReady& ready) {
          for (int64_t rb = 0; rb < row_blocks; ++rb) work(rb, kb, true, true, room, ready);
        });
      }
      finish(dq_sums, dq, head);
    }
    finish(dk_sums, dk, first);
    finish(dv_sums, dv, first);
  }
};

// Whole groups to the threads, or the inside of each.
template <class Pass>
void each_group(const AttentionInputs& in, const Pass& pass) {
  if (in.by_group())
    parallel_for(in.groups, in.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) pass.group(g, false);
    });
  else
    for (int64_t g = 0; g < in.groups; ++g) pass.group(g, true);
}

}  // namespace

bool attention_tiles_pay(const Tensor& query, const Tensor& key, const Tensor& value) {
  constexpr int64_t kSomeQueries = 1, kSomeKeys = 8, kSomeDepth = 8;
  for (const Tensor* t : {&query, &key, &value})
    if (t->dtype() != DType::BFloat16 || t->numel() == 0) return false;
  const int64_t queries = query.size(-2), keys = key.size(-2), depth = query.size(-1),
                width = value.size(-1);
  if (queries < kSomeQueries || keys < kSomeKeys || depth < kSomeDepth) return false;
  if (tiles()) return true;
  // Products of pairs are twice as quick as float32's, which fill no tiles up. (18 shapes of 16 to 1000
  // queries: 1.26 times as quick as those in the mean, and 0.98 at worst, where this lets them; elsewhere 0.9.)
  constexpr double kFilled = 1.7;
  const auto work = [](int64_t a, int64_t b, int64_t c) { return static_cast<double>(a * b * c); };
  return tiles_or_pairs() && work(up(queries, kTileSide), up(keys, kTileTerms),
                                  up(depth, kTileTerms) + up(width, kTileTerms)) <=
                                 kFilled * work(queries, keys, depth + width);
}

void attention_tiles(const AttentionInputs& in, const Tensor& out, const Tensor& lse) {
  each_group(in, TiledForward{in, out, lse, stack_of(out, in.lead, 1)});
}

void attention_tiles_backward(const AttentionInputs& in, const Call& c) {
  each_group(in, TiledGradients{in, in.lines(c.tensor(0), 1, true), in.lines(c.tensor(7), 1, true),
                                c.tensor(8), stack_of(c.out[0], in.lead, 1),
                                stack_of(c.out[1], in.lead, in.share),
                                stack_of(c.out[2], in.lead, in.share)});
}

}  // namespace tycho::cpu
