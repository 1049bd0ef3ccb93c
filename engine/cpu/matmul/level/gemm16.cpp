// Numbers of two bytes widened for float32's products, and their sums rounded; see
// engine/cpu/matmul/gemm.h.
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/matmul/level/gemv.h"
#include "engine/cpu/matmul/level/two_bytes.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class Format>
void widen_all(const Lines16& l, float* to, int64_t ld) {
  constexpr int size = Lane<float>::size;
  for (int64_t i = 0; i < l.lines; ++i) {
    const uint16_t* const from = l.from + i * l.step;
    float* const line = to + i * ld;
    int64_t j = 0;
    for (; j + size <= l.n; j += size) Format::from(from + j).store(line + j);
    if (j < l.n) store_part(Format::some(from + j, l.n - j), line + j, static_cast<int>(l.n - j));
  }
}

// Lines of b, a few through all panels at a time as gemm_pack_b does: whole cache lines are used.
template <class Format>
void widen_panels(const Lines16& l, float* to) {
  constexpr int size = Lane<float>::size, width = kBlockLanes * size;
  constexpr int64_t some = 16;
  for (int64_t begin = 0; begin < l.lines; begin += some) {
    const int64_t end = l.lines - begin < some ? l.lines : begin + some;
    for (int64_t j = 0; j < l.n; j += width) {
      const int64_t left = l.n - j;
      for (int64_t p = begin; p < end; ++p) {
        const uint16_t* const from = l.from + p * l.step + j;
        float* const at = to + j * l.lines + p * width;
        for (int64_t c = 0; c < width; c += size) {
          if (left - c >= size)
            Format::from(from + c).store(at + c);
          else
            (left > c ? Format::some(from + c, left - c) : Lane<float>(0)).store(at + c);
        }
      }
    }
  }
}

template <class Format>
void round_all(const Rounded16& r) {
  constexpr int size = Lane<float>::size;
  for (int64_t i = 0; i < r.lines; ++i) {
    const float* const from = r.sums + i * r.ld;
    uint16_t* const to = r.to + i * r.step;
    int64_t j = 0;
    for (; j + size <= r.n; j += size) {
      Lane<float> x = Lane<float>::load(from + j);
      if (r.bias) x = x + Format::from(r.bias + j);
      if (r.add) x = x + Format::from(to + j);
      Format::to(x, to + j);
    }
    if (const int64_t n = r.n - j; n > 0) {
      Lane<float> x = load_part(from + j, static_cast<int>(n));
      if (r.bias) x = x + Format::some(r.bias + j, n);
      if (r.add) x = x + Format::some(to + j, n);
      Format::some_to(x, to + j, n);
    }
  }
}

}  // namespace

void gemm16_widen(bool half, const Lines16* l, float* to, int64_t ld) {
  half ? widen_all<AsHalf>(*l, to, ld) : widen_all<AsBFloat16>(*l, to, ld);
}
void gemm16_panels(bool half, const Lines16* l, float* to) {
  half ? widen_panels<AsHalf>(*l, to) : widen_panels<AsBFloat16>(*l, to);
}
void gemm16_round(bool half, const Rounded16* r) {
  half ? round_all<AsHalf>(*r) : round_all<AsBFloat16>(*r);
}

void gemm16_few_rows(bool half, int64_t m, int64_t n, int64_t k, const float* a, int64_t rs,
                     const uint16_t* b, int64_t ldb, float* c, int64_t ldc) {
  for (; m > 0; m -= kRowsMost, a += kRowsMost * rs, c += kRowsMost * ldc) {
    const int64_t rows = m < kRowsMost ? m : kRowsMost;
    if (half)
      gemm_few<AsHalf, float>(rows, n, k, a, rs, 1, b, ldb, c, ldc);
    else
      gemm_few<AsBFloat16, float>(rows, n, k, a, rs, 1, b, ldb, c, ldc);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
