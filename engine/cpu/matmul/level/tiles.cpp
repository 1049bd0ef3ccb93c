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

// Of sixteen rows or columns and 32 terms: how many are there.
struct Part {
  const uint16_t* from;
  int64_t step, term, count, terms;
};

// Row after row, with its terms.
void load_lines(const Part& p, uint32_t (*to)[16]) {
  for (int i = 0; i < kTileSide; ++i) {
    __m512i x = _mm512_setzero_si512();
    if (i < p.count && p.term == 1)
      x = _mm512_maskz_loadu_epi16(first(p.terms), p.from + i * p.step);
    _mm512_storeu_si512(to[i], x);
    if (i < p.count && p.term != 1)
      for (int64_t k = 0; k < p.terms; ++k) {
        const uint16_t x16 = p.from[i * p.step + k * p.term];
        memcpy(reinterpret_cast<char*>(to[i]) + 2 * k, &x16, 2);
      }
  }
}

// Two terms after two terms, of all rows.
void load_pairs(const Part& p, uint32_t (*to)[16]) {
  const auto line = [&](int64_t k) {
    const __mmask32 some = k < p.terms ? first(p.count) : 0;
    return _mm512_maskz_cvtepu16_epi32(
        -1, _mm256_maskz_loadu_epi16(static_cast<__mmask16>(some),
                                     p.from + (k < p.terms ? k * p.term : 0)));
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

template <bool pairs>
void pack(const TilePack& t) {
  alignas(64) uint32_t block[16][16];
  for (int64_t k = 0; k < t.depth; k += kTileTerms) {
    const int64_t terms = t.terms - k < 0 ? 0 : t.terms - k < kTileTerms ? t.terms - k : kTileTerms;
    const Part part{t.from + (terms ? k * t.term : 0), t.step, t.term, t.count, terms};
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

void tile_store(int64_t rows, int64_t cols, const float* sums, int64_t row, const uint16_t* bias,
                bool add, uint16_t* to, int64_t to_row) {
  constexpr int size = Lane<float>::size;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += size) {
      const int64_t n = cols - j < size ? cols - j : size;
      Lane<float> x = get(sums + i * row + j);  // its rows are whole tiles
      uint16_t* const at = to + i * to_row + j;
      if (bias) x = x + get_some(bias + j, n, uint16_t{0});
      if (add) x = x + get_some(static_cast<const uint16_t*>(at), n, uint16_t{0});
      if (n == size)
        put(x, at);
      else
        put_some(x, at, n);
    }
}

const TileMachine tile_machine{begin, multiply_tiles<Amx>, end};

}  // namespace tycho::cpu::v4
#endif
