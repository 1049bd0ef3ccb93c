// Packing and rounding for products by tiles, and the processor's instructions for them; see
// engine/cpu/matmul/tiles.h. Processors with tiles have AVX-512: the lower levels have nothing here.
#ifdef TYCHO_LEVEL_v4
#include "engine/cpu/matmul/tiles.h"

#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/matmul/tile_loops.h"

namespace tycho::cpu::v4 {
namespace {

__mmask32 first(int64_t n) { return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1; }

// Sixteen numbers that lie side by side, as far as they are there.
__m256i sixteen(const uint16_t* p, __mmask16 some, TilePart) {
  return _mm256_maskz_loadu_epi16(some, p);
}
__m256i sixteen(const float* p, __mmask16 some, TilePart part) {
  const __m512 x = _mm512_maskz_loadu_ps(some, p);
  const __m256i high = rounded(Lane<float>((typename Raw<float>::V)x));
  if (part == TilePart::High) return high;
  const __m512 of_high =
      (__m512)_mm512_maskz_slli_epi32(-1, _mm512_maskz_cvtepu16_epi32(-1, high), 16);
  const __mmask16 finite =
      _mm512_cmp_ps_mask(_mm512_sub_ps(of_high, of_high), _mm512_setzero_ps(), _CMP_EQ_OQ);
  return rounded(Lane<float>((typename Raw<float>::V)_mm512_maskz_sub_ps(finite, x, of_high)));
}

// Of sixteen rows or columns and 32 terms: how many are there.
template <class T>
struct Some {
  const T* from;
  int64_t step, term, count, terms;
  TilePart part;
};

// Row after row, with its terms.
template <class T>
void load_lines(const Some<T>& p, uint32_t (*to)[16]) {
  for (int i = 0; i < kTileSide; ++i) {
    T apart[kTileTerms];
    const T* line = p.from + (i < p.count ? i * p.step : 0);
    const int64_t n = i < p.count ? p.terms : 0;
    if (p.term != 1) {
      for (int64_t k = 0; k < n; ++k) apart[k] = line[k * p.term];
      line = apart;
    }
    const __mmask32 some = first(n);
    for (int half = 0; half < 2; ++half)
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(to[i] + 8 * half),
          sixteen(line + 16 * half, static_cast<__mmask16>(some >> 16 * half), p.part));
  }
}

// Two terms after two terms, of all rows.
template <class T>
void load_pairs(const Some<T>& p, uint32_t (*to)[16]) {
  const auto line = [&](int64_t k) {
    const __mmask32 some = k < p.terms ? first(p.count) : 0;
    return _mm512_maskz_cvtepu16_epi32(
        -1, sixteen(p.from + (k < p.terms ? k * p.term : 0), static_cast<__mmask16>(some), p.part));
  };
  for (int64_t k = 0; k < kTileTerms; k += 2)
    _mm512_storeu_si512(to[k / 2],
                        _mm512_or_si512(line(k), _mm512_maskz_slli_epi32(-1, line(k + 1), 16)));
}

void turn(const uint32_t (*from)[16], uint16_t* to, int64_t step) {
  for (int q = 0; q < kTileSide; q += 4)
    transpose_lane(reinterpret_cast<const float*>(from[0]) + q, 16,
                   reinterpret_cast<float*>(to) + q * step, step);
}

template <bool pairs, class T>
void pack_of(const TilePack& t) {
  alignas(64) uint32_t block[16][16];
  for (int64_t k = 0; k < t.depth; k += kTileTerms) {
    const int64_t terms = t.terms - k < 0 ? 0 : t.terms - k < kTileTerms ? t.terms - k : kTileTerms;
    const Some<T> part{static_cast<const T*>(t.from) + (terms ? k * t.term : 0),
                       t.step,
                       t.term,
                       t.count,
                       terms,
                       t.part};
    const bool lies_in_pairs = t.step == 1 && t.term != 1;
    if (lies_in_pairs)
      load_pairs(part, block);
    else
      load_lines(part, block);
    uint16_t* const to = t.to + (pairs ? k * kTileSide : k);
    const int64_t step = pairs ? kTileTerms : t.row;
    if (lies_in_pairs != pairs)
      turn(block, to, step / 2);
    else
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * step, _mm512_loadu_si512(block[i]));
  }
}

template <bool pairs>
void pack(const TilePack& t) {
  if (t.part == TilePart::Bits) return pack_of<pairs, uint16_t>(t);
  pack_of<pairs, float>(t);
}

template <class T>
void store(const TileStore& s) {
  constexpr int size = Lane<float>::size;
  const T* const bias = static_cast<const T*>(s.bias);
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.cols; j += size) {
      const int64_t n = s.cols - j < size ? s.cols - j : size;
      Lane<float> x = get(s.sums + i * s.row + j);  // its rows are whole tiles
      T* const at = static_cast<T*>(s.to) + i * s.to_row + j;
      if (bias) x = x + get_some(bias + j, n, T(0));
      if (s.add) x = x + get_some(static_cast<const T*>(at), n, T(0));
      if (n == size)
        put(x, at);
      else
        put_some(x, at, n);
    }
}

// --- The instructions ---

struct Amx {
  template <int I>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(I));
  }
  template <int I>
  static void load(const void* from, int64_t row) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row), "i"(I) : "memory");
  }
  template <int I>
  static void store(void* to, int64_t row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row), "i"(I) : "memory");
  }
  template <int To, int A, int B>
  static void add_product() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
  }
};

// All eight registers have 16 rows of 64 bytes (palette 1).
void begin() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  static_assert(sizeof shape == 64);
  asm volatile("ldtilecfg %0" ::"m"(shape));
}
void end() { asm volatile("tilerelease"); }

}  // namespace

void tile_pack_rows(const TilePack& p) { pack<false>(p); }
void tile_pack_columns(const TilePack& p) { pack<true>(p); }

void tile_store_bfloat16(const TileStore& s) { store<uint16_t>(s); }
void tile_store_float32(const TileStore& s) { store<float>(s); }

bool tile_finite(const float* x, int64_t lines, int64_t numbers, int64_t step) {
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  __mmask16 found = 0;
  for (int64_t i = 0; i < lines && !found; ++i)
    for (int64_t j = 0; j < numbers; j += 16) {
      const auto some = static_cast<__mmask16>(first(numbers - j < 16 ? numbers - j : 16));
      const __m512i b = _mm512_maskz_loadu_epi32(some, x + i * step + j);
      found |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(b, exponent), exponent);
    }
  return !found;
}

const TileMachine tile_machine{begin, multiply_tiles<Amx>, end};

}  // namespace tycho::cpu::v4
#endif
