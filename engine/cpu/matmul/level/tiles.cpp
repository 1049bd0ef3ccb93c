// Packing and rounding for products by tiles, and the processor's instructions for them; see
// engine/cpu/matmul/tiles.h. Processors with tiles have AVX-512: the lower levels have nothing
// here.
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

// Two terms after two terms, of 32 columns that lie side by side, as two tiles.
void pack_two_tiles(const uint16_t* from, int64_t term, uint16_t* to, uint16_t* next) {
  alignas(64) static constexpr uint16_t kInTurns[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i first = _mm512_load_si512(kInTurns[0]), second = _mm512_load_si512(kInTurns[1]);
  for (int64_t k = 0; k < kTileTerms; k += 2) {
    const __m512i x = _mm512_loadu_si512(from + k * term),
                  y = _mm512_loadu_si512(from + (k + 1) * term);
    _mm512_storeu_si512(to + k * kTileSide, _mm512_permutex2var_epi16(x, first, y));
    _mm512_storeu_si512(next + k * kTileSide, _mm512_permutex2var_epi16(x, second, y));
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

// Sixteen lines of sixteen pairs, `line` pairs apart, so that the first pairs of all come first.
void turn(const void* from, int64_t line, uint16_t* to, int64_t step) {
  for (int q = 0; q < kTileSide; q += 4)
    transpose_lane(static_cast<const float*>(from) + q, line,
                   reinterpret_cast<float*>(to) + q * step, step);
}

// Rows whose terms lie side by side as they are wanted.
void copy_rows(const TilePack& t) {
  const int64_t terms = t.terms < 0 ? 0 : t.terms < t.depth ? t.terms : t.depth;
  for (int64_t i = 0; i < kTileSide; ++i) {
    const int64_t there = i < t.count ? terms : 0;
    if (there)
      __builtin_memcpy(t.to + i * t.row, static_cast<const uint16_t*>(t.from) + i * t.step,
                       static_cast<size_t>(there) * 2);
    if (there < t.depth)
      __builtin_memset(t.to + i * t.row + there, 0, static_cast<size_t>(t.depth - there) * 2);
  }
}

template <bool pairs, class T>
void pack_of(const TilePack& t) {
  if constexpr (!pairs && sizeof(T) == 2)
    if (t.term == 1) return copy_rows(t);
  alignas(64) uint32_t block[16][16];
  const bool lies_in_pairs = t.step == 1 && t.term != 1;
  const bool in_place = sizeof(T) == 2 && pairs && t.term == 1 && t.step % 2 == 0 &&
                        t.count == kTileSide;  // lines are turned from where they lie
  for (int64_t k = 0; k < t.depth; k += kTileTerms) {
    const int64_t terms = t.terms - k < 0 ? 0 : t.terms - k < kTileTerms ? t.terms - k : kTileTerms;
    const Some<T> part{static_cast<const T*>(t.from) + (terms ? k * t.term : 0),
                       t.step,
                       t.term,
                       t.count,
                       terms,
                       t.part};
    uint16_t* const to = t.to + (pairs ? k * kTileSide : k);
    const int64_t step = pairs ? kTileTerms : t.row;
    if (in_place && terms == kTileTerms) {
      turn(part.from, t.step / 2, to, step / 2);
      continue;
    }
    auto* const at = pairs && lies_in_pairs ? reinterpret_cast<uint32_t(*)[16]>(to) : block;
    if (lies_in_pairs)
      load_pairs(part, at);
    else
      load_lines(part, at);
    if (lies_in_pairs != pairs)
      turn(block, kTileSide, to, step / 2);
    else if (at == block)
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * step, _mm512_loadu_si512(block[i]));
  }
}

template <bool pairs>
void pack(const TilePack& t) {
  if (t.part == TilePart::Bits) return pack_of<pairs, uint16_t>(t);
  pack_of<pairs, float>(t);
}

void pack_columns(TilePack t) {
  if (t.count <= kTileSide) return pack<true>(t);
  TilePack next = t;
  t.count = kTileSide;
  next.count -= kTileSide;
  next.to += t.row;
  const int64_t size = t.part == TilePart::Bits ? 2 : 4;
  if (t.part == TilePart::Bits && t.step == 1 && next.count == kTileSide)
    for (; t.depth > 0 && t.terms >= kTileTerms;) {
      pack_two_tiles(static_cast<const uint16_t*>(t.from), t.term, t.to, next.to);
      for (TilePack* p : {&t, &next}) {
        p->from = static_cast<const uint16_t*>(p->from) + kTileTerms * p->term;
        p->to += kTileTerms * kTileSide;
        p->depth -= kTileTerms, p->terms -= kTileTerms;
      }
    }
  next.from = static_cast<const char*>(next.from) + kTileSide * t.step * size;
  pack<true>(t);
  pack<true>(next);
}

void store(const TileStore& s) {
  constexpr int size = Lane<float>::size;
  const auto* const bias = static_cast<const float*>(s.bias);
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.cols; j += size) {
      const int64_t n = s.cols - j < size ? s.cols - j : size;
      Lane<float> x = get(s.sums + i * s.row + j);  // its rows are whole tiles
      auto* const at = static_cast<float*>(s.to) + i * s.to_row + j;
      if (bias) x = x + get_some(bias + j, n, 0.f);
      if (s.add) x = x + get_some(static_cast<const float*>(at), n, 0.f);
      put_some(x, at, n);
    }
}

// Bits of bfloat16 as numbers, the first sixteen or the others.
__m512 widened(__m512i halves, int which) {
  const __m256i some =
      which ? _mm512_maskz_extracti64x4_epi64(-1, halves, 1) : _mm512_castsi512_si256(halves);
  return (__m512)_mm512_maskz_slli_epi32(-1, _mm512_maskz_cvtepu16_epi32(-1, some), 16);
}

// To nearest, ties to even, in the upper half of each number's bits.
__m512i rounded_above(__m512 x) {
  const __m512i b = (__m512i)x, one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(-1, b, 16), one);
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(b, odd), _mm512_set1_epi32(0x7fff));
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), b,
                              _mm512_set1_epi32(0x400000));
}

// 32 columns at a time, a line of bfloat16.
template <bool add>
void store_halves(const TileStore& s) {
  alignas(64) static constexpr uint16_t kUpper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                      23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                      45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i upper = _mm512_load_si512(kUpper);
  for (int64_t j = 0; j < s.cols; j += 32) {
    const __mmask32 some = first(s.cols - j);
    const auto low = static_cast<__mmask16>(some), high = static_cast<__mmask16>(some >> 16);
    __m512i more = _mm512_setzero_si512();
    if (s.bias) more = _mm512_maskz_loadu_epi16(some, static_cast<const uint16_t*>(s.bias) + j);
    const __m512 bias[2] = {widened(more, 0), widened(more, 1)};
    const float* from = s.sums + j;
    uint16_t* to = static_cast<uint16_t*>(s.to) + j;
    for (int64_t i = 0; i < s.rows; ++i, from += s.row, to += s.to_row) {
      __m512 x = _mm512_maskz_loadu_ps(low, from), y = _mm512_maskz_loadu_ps(high, from + 16);
      if (s.bias) x = _mm512_add_ps(x, bias[0]), y = _mm512_add_ps(y, bias[1]);
      if constexpr (add) {
        const __m512i old = _mm512_maskz_loadu_epi16(some, to);
        x = _mm512_add_ps(x, widened(old, 0)), y = _mm512_add_ps(y, widened(old, 1));
      }
      _mm512_mask_storeu_epi16(
          to, some, _mm512_permutex2var_epi16(rounded_above(x), upper, rounded_above(y)));
    }
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
void tile_pack_columns(const TilePack& p) { pack_columns(p); }

void tile_turn(const float* from, int64_t row, int64_t rows, int64_t cols, float* to,
               int64_t to_row) {
  for (int64_t i = 0; i < rows; i += kTileSide)
    for (int64_t j = 0; j < cols; j += 4)
      transpose_lane(from + i * row + j, row, to + j * to_row + i, to_row);
}

void tile_store_bfloat16(const TileStore& s) {
  s.add ? store_halves<true>(s) : store_halves<false>(s);
}
void tile_store_float32(const TileStore& s) { store(s); }

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

bool tile_finite_halves(const uint16_t* x, int64_t numbers) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 found = 0;
  for (int64_t i = 0; i < numbers; i += 32) {
    const __m512i b = _mm512_maskz_loadu_epi16(first(numbers - i), x + i);
    found |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(b, exponent), exponent);
  }
  return !found;
}

const TileMachine tile_machine{begin, multiply_tiles<Amx>, end};

}  // namespace tycho::cpu::v4
#endif
