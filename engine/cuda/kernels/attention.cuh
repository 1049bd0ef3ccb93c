// Attention, as the host hands it to the kernels of attention.cu: matrices of heads at any strides.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kLeadDims = 6;
constexpr int kAttentionRows = 64;  // of a block: 16 for each of its four warps

// A matrix for each head; strides are in elements.
struct Heads {
  void* data;
  int64_t lead[kLeadDims], row, col;
  int32_t dtype;
  int32_t
      whole;  // packs of a row's elements may be read as one: no gaps, and begun where packs begin
};

// Blocks are 32 x 4 threads; block x is a head's rows, of which the last come first, y a part of the
// columns that are summed up. The gradient's two kernels run one after the other: that of the query
// leaves delta, the sums of grad times out of each row, for that of key and value.
struct Attention {
  Heads q, k, v, mask, out, grad, dq, dk, dv;  // mask.data null: none
  void *lse, *delta;                           // per head and query, in lanes
  int64_t lead[kLeadDims];                     // heads by their dimensions
  int32_t lead_count, causal;
  int64_t share;  // heads that read one key and value
  int64_t queries, keys, depth, width;
  double scale;
  // Dropout: the weight of element i of [head, query, key] stays where word i % 4 of Philox's block
  // first + i / 4 is below `limit`, times `gain`; as dropout_mask draws it. limit 0: none.
  uint64_t seed, first, limit;
  double gain;
};

// A piece of the matrices of scores, in lanes: `rows` queries from `first` on of every `head_step`th head
// from `head` on, and the keys before `seen`. Rows lie `pitch` elements apart, a multiple of 8, and at
// whole 16 bytes; a head's rows lie behind those of the one before. A block of 32 x n threads has a row.
struct AttentionRows {
  Attention a;
  void *scores, *grads;    // queries times keys; the gradients of the weights
  void *weights, *slopes;  // what is made of them, in the type of queries and keys
  int64_t head, head_step, first, seen, pitch;
  int32_t rows;
};

}  // namespace tycho::cuda
