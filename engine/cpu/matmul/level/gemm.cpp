// Matrix products of float, double and int64: the entries that gemm.cpp outside calls.
#include "engine/cpu/matmul/gemm.h"

#include "engine/cpu/matmul/level/gemm.h"
#include "engine/cpu/matmul/level/gemv.h"

namespace tycho::cpu::TYCHO_LEVEL {

// Calls f with a value of the element type that `type` stands for.
#define TYCHO_BY_TYPE(call)               \
  switch (type) {                         \
    case 0: {                             \
      using T [[maybe_unused]] = float;   \
      call;                               \
    } break;                              \
    case 1: {                             \
      using T [[maybe_unused]] = double;  \
      call;                               \
    } break;                              \
    default: {                            \
      using T [[maybe_unused]] = int64_t; \
      call;                               \
    } break;                              \
  }

void gemm_unit(int type, int* rows, int* cols) {
  *rows = kBlockRows;
  *cols = kBlockLanes * TYCHO_LANE_BYTES / (type == 0 ? 4 : 8);
}

void gemm_direct(int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs, int64_t cs,
                 const void* b, int64_t ldb, void* c, int64_t ldc, int begin, const void* bias,
                 bool padded) {
  if (padded) {
    TYCHO_BY_TYPE((gemm_direct<T, kManyBlocks>(m, n, k, static_cast<const T*>(a), rs, cs,
                                               static_cast<const T*>(b), ldb, static_cast<T*>(c),
                                               ldc, begin, static_cast<const T*>(bias))))
  } else {
    TYCHO_BY_TYPE(
        (gemm_direct<T, false>(m, n, k, static_cast<const T*>(a), rs, cs, static_cast<const T*>(b),
                               ldb, static_cast<T*>(c), ldc, begin, static_cast<const T*>(bias))))
  }
}

void gemm_pack_a(int type, const void* a, int64_t rs, int64_t cs, int64_t rows, int64_t k,
                 void* to) {
  TYCHO_BY_TYPE(
      (pack<T, kBlockRows>(static_cast<const T*>(a), rs, cs, rows, k, static_cast<T*>(to))))
}

void gemm_pack_b(int type, const void* b, int64_t rs, int64_t cs, int64_t cols, int64_t k,
                 void* to) {
  TYCHO_BY_TYPE((pack<T, kBlockLanes * Lane<T>::size>(static_cast<const T*>(b), rs, cs, cols, k,
                                                      static_cast<T*>(to))))
}

void gemm_packed(int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs,
                 const void* b, void* c, int64_t ldc, int begin, const void* bias) {
  TYCHO_BY_TYPE(gemm_packed<T>(m, n, k, static_cast<const T*>(a), rs ? rs : k, rs ? rs : 1,
                               rs ? 1 : kBlockRows, static_cast<const T*>(b), static_cast<T*>(c),
                               ldc, begin, static_cast<const T*>(bias)))
}

void gemv_rows(int type, int64_t m, int64_t k, const void* a, int64_t lda, const void* x, void* y,
               int64_t ys) {
  TYCHO_BY_TYPE(gemv_by_rows<T>(m, k, static_cast<const T*>(a), lda, static_cast<const T*>(x),
                                static_cast<T*>(y), ys))
}

void gemv_add(int type, int64_t m, const void* number, void* y, int64_t ys) {
  TYCHO_BY_TYPE(add_number<T>(m, *static_cast<const T*>(number), static_cast<T*>(y), ys))
}

void gemv_cols(int type, int64_t m, int64_t k, const void* a, int64_t lda, const void* x,
               int64_t xs, void* y, bool whole) {
  TYCHO_BY_TYPE(gemv_by_cols<T>(m, k, static_cast<const T*>(a), lda, static_cast<const T*>(x), xs,
                                static_cast<T*>(y), whole))
}

void gemm_few_rows(int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t rs, int64_t cs,
                   const void* b, int64_t ldb, void* c, int64_t ldc) {
  for (; m > 0; m -= kRowsMost) {
    TYCHO_BY_TYPE(
        (gemm_few<AsItIs<T>, T>(m < kRowsMost ? m : kRowsMost, n, k, static_cast<const T*>(a), rs,
                                cs, static_cast<const T*>(b), ldb, static_cast<T*>(c), ldc)))
    const int64_t size = type == 0 ? 4 : 8;
    a = static_cast<const char*>(a) + kRowsMost * rs * size;
    c = static_cast<char*>(c) + kRowsMost * ldc * size;
  }
}

void gemm_dots(int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, const void* x,
               int64_t ldx, void* y, int64_t ys, int64_t yc) {
  if (type == 0)
    gemm_by_dots(m, n, k, static_cast<const float*>(a), lda, static_cast<const float*>(x), ldx,
                 static_cast<float*>(y), ys, yc);
  else
    gemm_by_dots(m, n, k, static_cast<const double*>(a), lda, static_cast<const double*>(x), ldx,
                 static_cast<double*>(y), ys, yc);
}

void dot_part(int type, int64_t n, const void* x, const void* y, void* result) {
  TYCHO_BY_TYPE((rows_times<T, 1>(n, static_cast<const T*>(x), 0, static_cast<const T*>(y),
                                  static_cast<T*>(result), 0)))
}

}  // namespace tycho::cpu::TYCHO_LEVEL
