// What attention reads, forward and backward: a matrix of queries, keys and values for each head, and
// the mask as each head sees it.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/nn/attention.h"
#include "engine/cpu/nn/attention_tiles.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

constexpr int64_t kFewQueries = 2;  // for whom the keys are read as they lie

// A stack of matrices in the lanes' type, one per head; `share` heads of the index read one matrix.
struct AttentionStack {
  Tensor t;
  std::vector<int64_t> at;  // per head, in elements
  int64_t rows = 0, cols = 0, row = 0, col = 0;

  char* matrix(int64_t head, int size) const { return t.data() + at[head] * size; }
};

inline AttentionStack stack_of(const Tensor& t, const Sizes& lead, int64_t share) {
  AttentionStack s;
  s.t = t;
  s.rows = t.size(-2), s.cols = t.size(-1), s.row = t.stride(-2), s.col = t.stride(-1);
  const int64_t heads = product(lead);
  const int own = t.rank() - 2;
  s.at.resize(static_cast<size_t>(heads));
  for (int64_t i = 0; i < heads; ++i) {
    int64_t rest = i, place = 0;
    for (int d = lead.n - 1; d >= 0; --d) {
      int64_t index = rest % lead[d];
      rest /= lead[d];
      const int mine = d - (lead.n - own);
      if (mine < 0 || t.size(mine) == 1) continue;
      if (d == lead.n - 1) index /= share;
      place += index * t.stride(mine);
    }
    s.at[static_cast<size_t>(i)] = place;
  }
  return s;
}

struct AttentionLanes {
  int type, size, unit_rows, unit_cols;
  DType dtype;
  explicit AttentionLanes(DType t) {
    dtype = t == DType::Float64 ? t : DType::Float32;
    type = dtype == DType::Float64;
    size = dtype_size(dtype);
    level_of::gemm_unit(type, &unit_rows, &unit_cols);
  }
  Tensor typed(const Tensor& t) const {
    if (t.dtype() == dtype) return t;
    Tensor to = empty(t.shape(), dtype, t.device());
    copy_raw(to, t);
    return to;
  }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * size); }
  char* at(char* p, int64_t elements) const { return p + elements * size; }

  // Rows [from, to) of a matrix as the columns of a right operand, and as its rows.
  void turned(const AttentionStack& s, int64_t head, int64_t from, int64_t to,
              char* scratch) const {
    level_of::gemm_pack_b(type, static_cast<const void*>(at(s.matrix(head, size), from * s.row)),
                          s.row, s.col, to - from, s.cols, static_cast<void*>(scratch));
  }
  void straight(const AttentionStack& s, int64_t head, int64_t from, int64_t to,
                char* scratch) const {
    level_of::gemm_pack_b(type, static_cast<const void*>(at(s.matrix(head, size), from * s.row)),
                          s.col, s.row, s.cols, to - from, static_cast<void*>(scratch));
  }
  // Rows in the lanes' type into a tensor of any type.
  void store(const Tensor& to, int64_t place, int64_t row, int64_t col, const char* from,
             int64_t step, int64_t rows, int64_t cols) const {
    const int width = dtype_size(to.dtype()), lanes = type, kind = static_cast<int>(to.dtype());
    char* const at = to.data() + place * width;
    if (col == 1)
      return level_of::store_rows(lanes, kind, at, row * width, from, step * size, rows, cols);
    for (int64_t i = 0; i < rows; ++i)
      level_of::store_tile(lanes, kind, static_cast<void*>(at + i * row * width),
                           static_cast<const void*>(from + i * step * size), col, cols);
  }
};

// What both passes read: query, key, value, and the mask seen from each head.
struct AttentionInputs {
  AttentionLanes lane;
  Sizes lead;
  int64_t heads, groups, share, queries, keys, depth, width, work;
  AttentionStack q, k, v;
  Tensor mask;
  std::vector<int64_t> mask_at;
  AttentionMask mask_of_all;
  bool causal;
  bool by_tiles;   // all matrices stay in bfloat16
  bool as_stored;  // keys and values stay in the type they have, for few queries
  double scale;

  AttentionInputs(const Call& c, int first)
      : lane(c.tensor(first).dtype()), causal(c.flag(first + 4)), scale(c.number(first + 5)) {
    const Tensor &query = c.tensor(first), &key = c.tensor(first + 1);
    for (int d = 0; d < query.rank() - 2; ++d) lead.push_back(query.size(d));
    heads = product(lead);
    share = lead.n && key.size(-3) ? query.size(-3) / key.size(-3) : 1;
    if (share < 1) share = 1;
    groups = heads / share;
    Tensor value = c.tensor(first + 2);
    const bool few = share * query.size(-2) <= kFewQueries;
    by_tiles = !few && attention_tiles_pay(query, key, value);
    as_stored = few && first == 0 && key.dtype() != lane.dtype && key.dtype() == value.dtype();
    // Values that stay are read in rows of neighbours.
    if (as_stored && (value.stride(-1) != 1 || value.stride(-2) == 0)) value = packed(value);
    q = lines(query, 1, by_tiles);
    k = lines(key, share, by_tiles || as_stored);
    v = as_stored || by_tiles ? lines(value, share, true)
                              : stack_of(lane.typed(value), lead, share);
    queries = q.rows, keys = k.rows, depth = q.cols, width = v.cols;
    if (depth == 0) scale = 0;  // not 1 / sqrt(0): scores of nothing are 0
    // Multiply-adds of a group's forward pass.
    work = std::max<int64_t>(1, share * queries * keys * (depth + width) / (causal ? 2 : 1));
    mask = c.tensor(first + 3);
    if (!mask) return;
    // What many heads share is made into numbers to add once (as PyTorch's "math" way does).
    if (mask.dtype() == DType::Bool && 2 * mask.numel() <= heads * queries * keys)
      mask = op<"masked_fill">(op<"zeros">(mask.shape(), lane.dtype, mask.device()),
                               op<"logical_not">(mask), -__builtin_inf());
    const AttentionStack m = stack_of(mask, lead, 1);
    mask_at = m.at;
    mask_of_all.dtype = static_cast<int>(mask.dtype());
    mask_of_all.bytes = dtype_size(mask.dtype());
    mask_of_all.truth = mask.dtype() == DType::Bool;
    mask_of_all.row = m.rows == 1 ? 0 : m.row;
    mask_of_all.col = m.cols == 1 ? 0 : m.col;
  }
  // Matrices in the lanes' type, or as they are `kept`, the elements of a row side by side.
  AttentionStack lines(const Tensor& t, int64_t heads_each, bool kept) const {
    Tensor typed = kept ? t : lane.typed(t);
    if (typed.stride(-1) != 1 && typed.size(-1) > 1) typed = packed(typed);
    return stack_of(typed, lead, heads_each);
  }
  AttentionMask mask_of(int64_t head) const {
    AttentionMask m = mask_of_all;
    if (mask) m.data = mask.data() + mask_at[static_cast<size_t>(head)] * m.bytes;
    return m;
  }
  // Whole groups to the threads where there are enough of them; else each group is split inside,
  // as a long one must be for an interrupt to be seen soon.
  bool by_group() const {
    return work < (int64_t{1} << 26) && (get_num_threads() == 1 || groups >= 4 * get_num_threads());
  }
  int64_t grain() const { return std::max<int64_t>(1, (int64_t{1} << 19) / work); }
};

// f(begin, end): over the threads, or here.
template <class F>
void spread_over(bool over, int64_t n, int64_t grain, F&& f) {
  if (over)
    parallel_for(n, grain, f);
  else if (n > 0)
    f(int64_t{0}, n);
}

}  // namespace tycho::cpu
