// cuBLASLt as a table of functions: loaded by the first matrix product, replaced by tests. One product
// goes through `multiply`, which keeps the plans of sizes that were seen.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cuda/driver.h"
#include "engine/ops/linear/precision.h"
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// Values of cublasLt.h and library_types.h.
namespace lt {
using Status = int;
using Handle = void*;
using Desc = void*;
using Layout = void*;
using Preference = void*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};
enum : int { kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14 };
enum : int { kCompute32 = 68, kCompute64 = 70, kCompute32By16 = 75, kCompute32ByTf32 = 77 };
enum : int { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8 };  // of a Desc
enum : int { kAuxPointer = 11, kAuxLd = 12 };
enum : int { kBatchCount = 5, kBatchStride = 6 };                   // of a Layout
enum : int { kMaxWorkspace = 1, kReductionMask = 3, kAlignA = 5 };  // of a Preference; A B C D
enum : int { kNone = 0, kTransposed = 1 };
constexpr uint32_t kReduceInComputeType = 2;
// Epilogues are sums of these.
constexpr uint32_t kWithRelu = 2, kWithBias = 4, kWithGelu = 32, kWithAux = 128;
constexpr uint32_t kWithGeluGrad = 64 + kWithAux, kWithBiasGrad = 512;
}  // namespace lt

#define TYCHO_BLAS(F)                                                                           \
  F(create, cublasLtCreate, (lt::Handle*))                                                      \
  F(new_desc, cublasLtMatmulDescCreate, (lt::Desc*, int compute, int scale))                    \
  F(set_desc, cublasLtMatmulDescSetAttribute, (lt::Desc, int, const void*, size_t))             \
  F(end_desc, cublasLtMatmulDescDestroy, (lt::Desc))                                            \
  F(new_layout, cublasLtMatrixLayoutCreate,                                                     \
    (lt::Layout*, int type, uint64_t rows, uint64_t cols, int64_t ld))                          \
  F(set_layout, cublasLtMatrixLayoutSetAttribute, (lt::Layout, int, const void*, size_t))       \
  F(end_layout, cublasLtMatrixLayoutDestroy, (lt::Layout))                                      \
  F(new_preference, cublasLtMatmulPreferenceCreate, (lt::Preference*))                          \
  F(set_preference, cublasLtMatmulPreferenceSetAttribute,                                       \
    (lt::Preference, int, const void*, size_t))                                                 \
  F(end_preference, cublasLtMatmulPreferenceDestroy, (lt::Preference))                          \
  F(choose, cublasLtMatmulAlgoGetHeuristic,                                                     \
    (lt::Handle, lt::Desc, lt::Layout, lt::Layout, lt::Layout, lt::Layout, lt::Preference, int, \
     lt::Heuristic*, int*))                                                                     \
  F(multiply, cublasLtMatmul,                                                                   \
    (lt::Handle, lt::Desc, const void* alpha, const void* a, lt::Layout, const void* b,         \
     lt::Layout, const void* beta, const void* c, lt::Layout, void* d, lt::Layout,              \
     const lt::Algorithm*, void* workspace, size_t, Stream))

struct Blas {
#define FUNCTION(name, symbol, args) lt::Status(*name) args = nullptr;
  TYCHO_BLAS(FUNCTION)
#undef FUNCTION
};

void set_blas(const Blas* table);  // for tests; null: the library itself

uint32_t alignment(const void* p);  // of an address, at most 256

// One side of a product, as the last two dimensions of a stack: one of its strides is 1.
struct Matrix {
  const void* data;
  bool by_columns;   // element (i, j) at i + j ld, else at i ld + j
  int64_t ld, step;  // between matrices of the stack; 0: the same for all
};
// out [batch, m, n], row-major = a [m, k] b [k, n] (+ bias [n]); the types are one.
struct Multiplication {
  DType type;
  MatmulPrecision precision;  // of float32
  int64_t batch, m, n, k;
  Matrix a, b;
  void* out;
  int64_t out_ld, out_step;  // 0: its matrices lie behind each other
  bool out_float32;          // also of 16-bit numbers
  const void* bias;
  bool add;  // to what stands in `out`
  // What is done to each element before it is rounded, for one matrix (batch 1): gelu (with tanh) also
  // writes what it reads to `aux`, where that is given; the slope of gelu at `aux` is a factor. Or the
  // sums of a's rows go to `sums` [m].
  enum class Then : uint8_t { Nothing, Relu, Gelu, GeluSlope, Sums } then;
  void* aux;
  void* sums;
};
// Raises Kind::Device when the library is missing, or refuses. False where it has no way to do what
// follows in the same pass.
bool multiply(Device device, const Multiplication& p);
// Whether relu makes nan of nan there, as it should; found out when it is first asked.
bool relu_keeps_nan(Device device, DType type);

}  // namespace tycho::cuda
