// Attention on a device, by ways that have the same results: kernels that never write scores down
// (attention.cpp), or the library's products, with the rows of some megabytes of scores between
// (attention_products.cpp).
#pragma once
#include "engine/cuda/kernels/attention.cuh"
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// Which way; tests make the limits small.
struct AttentionLimits {
  bool flash;            // the kernel of whole chunks, where it can be had
  int64_t least_scores;  // of a head: fewer are not for products
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
