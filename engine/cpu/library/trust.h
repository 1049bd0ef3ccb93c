// Which primitives of the libraries may compute. A library's kernel that writes outside of its
// memory is seen by no sanitizer, so one table (trust.cpp) says which versions, instruction sets
// and shapes are known to be wrong, and why; what it refuses, our own kernels compute. The random
// tests (tests/lua/guarded, in guard mode) are how its rows are found and kept.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

enum class Primitive : uint8_t { Convolution, ConvolutionInput, ConvolutionWeight, Product };

// What oneDNN is about to be asked for, the reorders around it included. `window` and what follows
// matter to convolutions only.
struct Asked {
  Primitive primitive;
  DType dtype;
  const Window* window = nullptr;
  int64_t groups = 1, out_channels = 0;
};

// nullptr when oneDNN may compute this; otherwise why it may not. The first call limits what
// instructions oneDNN uses (below AMX, or less where DNNL_MAX_CPU_ISA says so), for good.
const char* why_not_onednn(const Asked& a);
inline bool trusts_onednn(const Asked& a) { return why_not_onednn(a) == nullptr; }

// "oneDNN 2.6.3 with avx512_core_vnni", for reports.
const char* onednn_in_use();

// Names of the libraries that LAPACK may come from, best first, ended by nullptr.
extern const char* const kLapackLibraries[];

}  // namespace tycho::cpu
