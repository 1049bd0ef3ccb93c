// oneDNN behind a small face. It always runs on the calling thread alone: our own pool splits the
// work, because libgomp's regions stall for milliseconds when other programs want the cores. All
// primitives and memory objects are held per thread, keyed by shapes and layouts; the library is
// first touched by the first call that needs it.
#pragma once
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/matmul/gemm.h"

namespace tycho::cpu {

// Whether the processor multiplies pairs of bfloat16 faster than float32, to which they can be widened.
bool pairs_are_quick();
bool use_pairs(bool use);  // whatever is quicker: for tests of both ways; returns what was before

// A product of bfloat16 matrices, summed in float32 and rounded once; and whether it is the quickest way.
bool pairs_pay(const Product& p);
void gemm_bf16(const Product& p);

// A convolution's weight in any dense layout: strides of out, in / groups and three kernel sizes.
struct PlainWeight {
  DType dtype;  // Float32 or BFloat16
  void* data;
  int64_t stride[5];
};

// As the functions of conv.h, for Float32 and BFloat16 where has_onednn_conv says so. False when
// oneDNN has only slow loops for this one: nothing was computed.
bool has_onednn_conv(const Convolution& c);
bool onednn_conv_forward(const Convolution& c, const void* x, const PlainWeight& w,
                         const void* bias, void* y);
bool onednn_conv_input(const Convolution& c, const void* y, const PlainWeight& w, void* x);
bool onednn_conv_weight(const Convolution& c, const void* y, const void* x, const PlainWeight& w);

}  // namespace tycho::cpu
