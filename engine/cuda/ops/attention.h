// Attention on a device, by one of two ways with the same results: kernels that never write scores down
// (attention.cpp), or the library's products, with the rows of some megabytes of scores between
// (attention_products.cpp).
#pragma once
#include "engine/cuda/kernels/attention.cuh"
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// Limits of the second way; tests make them small.
struct AttentionLimits {
  int64_t least_scores;  // of a head: fewer are for the first way
  int64_t piece_bytes;   // of scores that are there at a time: what the L2 cache holds
  int64_t piece_rows;    // queries of a head in a piece
};
extern AttentionLimits attention_limits;

// Queries, keys and values are of one type.
bool goes_by_products(const Attention& a, const Tensor& q);
// `a` as the kernels of the first way have it.
void attention_by_products(const Attention& a, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& out);
void attention_grads_by_products(const Attention& a, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& g, const Tensor& dq,
                                 const Tensor& dk, const Tensor& dv);

}  // namespace tycho::cuda
