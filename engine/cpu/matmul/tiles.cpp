// Whether this machine has tiles that may be used, and products in blocks of them: a band of b is
// packed once for all threads, blocks of c are chunks of a parallel region, and their sums lie in
// float32 until they are rounded. See tiles.h.
#include "engine/cpu/matmul/tiles.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/linear/precision.h"

namespace tycho::cpu {
namespace {

// --- The machine ---

// The system keeps tiles of threads that are not running only for programs that asked for it.
bool allowed() {
#ifdef __x86_64__
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}

constexpr int64_t kDepth = 512;  // terms that are summed in registers: 32 columns of b are 32 KB
constexpr int64_t kBlockRows = 128, kBlockCols = 512;  // of c: with a's rows, half of 2 MB
constexpr int64_t kBandBytes = int64_t{32} << 20;      // of b, packed at a time

// What a number is the sum of, and which parts are multiplied, one product after another.
struct Parts {
  v4::TilePart part[2];
  int count, products;
  int a[3], b[3];
};
constexpr Parts kAsItIs{{v4::TilePart::Bits}, 1, 1, {0}, {0}},
    kRounded{{v4::TilePart::High}, 1, 1, {0}, {0}},
    kBothParts{{v4::TilePart::High, v4::TilePart::Low}, 2, 3, {0, 0, 1}, {0, 1, 0}};

const Parts& parts_of(const Product& p) {
  if (p.dtype == DType::BFloat16) return kAsItIs;
  return matmul_precision.load(std::memory_order_relaxed) == MatmulPrecision::High ? kBothParts
                                                                                   : kRounded;
}

const char* at(const Product& p, const void* from, int64_t elements) {
  return static_cast<const char*>(from) + elements * dtype_size(p.dtype);
}

// The part of a product whose columns lie in `packed`, by one machine.
void multiply_band(const Product& p, const TileMachine& machine, const uint16_t* packed,
                   int64_t first_col, int64_t cols) {
  const int threads = p.alone || p.m * cols * p.k < (int64_t{1} << 22) ? 1 : get_num_threads();
  int64_t block_rows = std::min(up(p.m, kTileSide), kBlockRows);
  int64_t block_cols = std::min(up(cols, kTileSide), kBlockCols);
  const int64_t want = threads == 1 ? 1 : 3 * threads;
  while (blocks(p.m, block_rows) * blocks(cols, block_cols) < want &&
         std::max(block_rows, block_cols) > 4 * kTileSide)
    (block_cols >= block_rows ? block_cols : block_rows) =
        up(std::max(block_rows, block_cols) / 2, 2 * kTileSide);
  const int64_t depth = up(p.k, kTileTerms), col_blocks = blocks(cols, block_cols);
  const Parts& parts = parts_of(p);
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch sums(static_cast<size_t>(block_rows * block_cols) * sizeof(float));
    const Scratch rows_of_a(static_cast<size_t>(block_rows * std::min(depth, kDepth)) * 2);
    const TilesReady ready(machine);
    for (int64_t chunk = from; chunk < to; ++chunk) {
      const int64_t i = chunk / col_blocks * block_rows, j = chunk % col_blocks * block_cols;
      const int64_t m = std::min(block_rows, p.m - i), n = std::min(block_cols, cols - j);
      TileBlock t;
      t.c = reinterpret_cast<float*>(sums.data());
      t.c_row = block_cols;
      t.rows = up(m, kTileSide), t.cols = up(n, kTileSide);
      t.b_panel = parts.count * depth * kTileSide;
      auto* const packed_a = reinterpret_cast<uint16_t*>(rows_of_a.data());
      for (int64_t k = 0; k < depth; k += kDepth)
        for (int q = 0; q < parts.products; ++q) {
          t.terms = std::min(kDepth, depth - k);
          t.add = k > 0 || q > 0;
          t.b = packed + j * depth * parts.count + (parts.b[q] * depth + k) * kTileSide;
          const v4::TilePart part = parts.part[parts.a[q]];
          const bool in_place = part == v4::TilePart::Bits && p.a_col == 1 && m % kTileSide == 0 &&
                                k + t.terms <= p.k;
          t.a = in_place ? static_cast<const uint16_t*>(p.a) + i * p.a_row + k : packed_a;
          t.a_row = in_place ? p.a_row : t.terms;
          const bool there = q > 0 && parts.a[q] == parts.a[q - 1];
          for (int64_t r = 0; r < m && !in_place && !there; r += kTileSide)
            v4::tile_pack_rows({part, at(p, p.a, (i + r) * p.a_row + k * p.a_col), p.a_row, p.a_col,
                                std::min<int64_t>(kTileSide, m - r), p.k - k, t.terms,
                                packed_a + r * t.terms, t.terms});
          ready.multiply(t);
        }
      (p.dtype == DType::BFloat16 ? v4::tile_store_bfloat16 : v4::tile_store_float32)(
          {m, n, t.c, t.c_row, p.bias ? at(p, p.bias, first_col + j) : nullptr, p.add,
           const_cast<char*>(at(p, p.c, i * p.c_row + first_col + j)), p.c_row});
    }
  };
  const int64_t count = blocks(p.m, block_rows) * col_blocks;
  if (threads > 1) return parallel_for(count, 1, run);
  for (int64_t chunk = 0; chunk < count; ++chunk) {
    if (!p.alone) check_interrupt();
    run(chunk, chunk + 1);
  }
}

void multiply(const Product& p, const TileMachine& machine) {
  const int64_t depth = up(p.k, kTileTerms);
  const Parts& parts = parts_of(p);
  const int64_t panel = depth * kTileSide * parts.count;
  const int64_t band =
      std::clamp<int64_t>(kBandBytes / (2 * panel), 1, blocks(p.n, kTileSide)) * kTileSide;
  const Scratch packed(static_cast<size_t>(band / kTileSide * panel) * 2);
  auto* const to = reinterpret_cast<uint16_t*>(packed.data());
  for (int64_t first = 0; first < p.n; first += band) {
    const int64_t cols = std::min(band, p.n - first);
    const auto pack = [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end; ++i)
        for (int q = 0; q < parts.count; ++q)
          v4::tile_pack_columns({parts.part[q], at(p, p.b, (first + i * kTileSide) * p.b_col),
                                 p.b_col, p.b_row,
                                 std::min<int64_t>(kTileSide, cols - i * kTileSide), p.k, depth,
                                 to + i * panel + q * depth * kTileSide, 0});
    };
    const int64_t panels = blocks(cols, kTileSide);
    if (p.alone)
      pack(0, panels);
    else
      parallel_for(panels, std::max<int64_t>(1, (1 << 16) / panel), pack);
    multiply_band(p, machine, to, first, cols);
  }
}

// A product of small integers, which is exact, must come out right before any other is trusted.
bool multiplies_right(const TileMachine& machine) {
  constexpr int m = 37, n = 45, k = 70;
  const auto bits = [](int x) {  // of a small integer
    const float f = static_cast<float>(x);
    uint32_t b;
    std::memcpy(&b, &f, sizeof b);
    return static_cast<uint16_t>(b >> 16);
  };
  const auto x = [](int i, int j) { return (i * 5 + j * 3) % 7 - 3; };
  const auto y = [](int i, int j) { return (i * 2 + j * 11) % 5 - 2; };
  uint16_t a[m * k], b[k * n], c[m * n];
  for (int i = 0; i < m * k; ++i) a[i] = bits(x(i / k, i % k));
  for (int i = 0; i < k * n; ++i) b[i] = bits(y(i / n, i % n));
  Product p{DType::BFloat16, m, n, k, a, b, c, k, 1, n, 1, n};
  p.alone = true;
  multiply(p, machine);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int q = 0; q < k; ++q) sum += x(i, q) * y(q, j);
      if (c[i * n + j] != bits(sum)) return false;
    }
  return true;
}

const char* why_not() {
  if (level() != Level::v4) return "the kernels in use are of a lower level";
  if (!has_tiles()) return "this processor has none";
  const char* const asked = std::getenv("TYCHO_TILES");
  if (asked && std::strcmp(asked, "0") == 0) return "TYCHO_TILES is 0";
  if (!allowed()) return "the system does not let programs use them";
  return multiplies_right(v4::tile_machine) ? nullptr : "they gave wrong numbers";
}

const TileMachine* other_machine = nullptr;

}  // namespace

const char* why_no_tiles() {
  static const char* const why = why_not();
  return why;
}

const TileMachine* tiles() {
  if (other_machine) return level() == Level::v4 ? other_machine : nullptr;
  return level() == Level::v4 && !why_no_tiles() ? &v4::tile_machine : nullptr;
}

void use_tiles(const TileMachine* machine) { other_machine = machine; }

// Infinity times the rest of a number would be no number: such products are taken as they are.
static bool finite(const Product& p) {
  const auto lines = [](const void* x, int64_t m, int64_t n, int64_t row, int64_t col) {
    if (row == 1) std::swap(m, n), std::swap(row, col);
    return col == 1 && v4::tile_finite(static_cast<const float*>(x), m, n, row);
  };
  return lines(p.a, p.m, p.k, p.a_row, p.a_col) && lines(p.b, p.k, p.n, p.b_row, p.b_col);
}

// Estimated cycles of both ways. Tiles: 512 multiply-adds a cycle at their peak, of which two thirds
// (loads of sums, short rows of tiles), and packing at 8 numbers a cycle. Else float32's multiply-adds, to
// which bfloat16 is widened: 32 at their peak.
bool tiles_pay(const Product& p) {
  const bool pairs = p.dtype == DType::BFloat16;
  if (!pairs && p.dtype != DType::Float32) return false;
  if (!pairs && matmul_precision.load(std::memory_order_relaxed) == MatmulPrecision::Highest)
    return false;
  if (!tiles()) return false;
  const Parts& parts = parts_of(p);
  const auto m = static_cast<double>(up(p.m, kTileSide)),
             n = static_cast<double>(up(p.n, kTileSide)),
             k = static_cast<double>(up(p.k, kTileTerms));
  const double by_tiles = m * n * k / 340 * parts.products + n * k / 8 * parts.count + m * n / 8 +
                          (pairs && p.a_col == 1 ? 0 : m * k / 8 * parts.count);
  const double else_by = static_cast<double>(p.m * p.n) * static_cast<double>(p.k) / 26;
  return 200 + by_tiles < else_by && (pairs || finite(p));
}

void gemm_tiles(const Product& p) { multiply(p, *tiles()); }

}  // namespace tycho::cpu
