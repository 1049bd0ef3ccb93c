// Whether this machine has tiles that may be used, and products in blocks of them: a band of b is
// packed once for all threads, blocks of c are chunks of a parallel region, and their sums lie in
// float32 until they are rounded. See tiles.h.
#include "engine/cpu/matmul/tiles.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/library/onednn.h"
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

constexpr int64_t kPanel = 2 * kTileSide;  // columns that are summed in registers at once
constexpr int64_t kDepth = 512;            // terms at once: a panel of b is 32 KB
constexpr int64_t kSlab = 4 * kDepth;      // terms whose rows of a stay near: 1 MB of a block
constexpr int64_t kBlockRows = 256, kBlockCols = 512;  // of c
constexpr int64_t kFewRows = 256, kFewRowsCols = 256;
constexpr int64_t kPackedTerms = 64;               // of b's lines at a time, line after line
constexpr int64_t kBandBytes = int64_t{32} << 20;  // of b, packed at a time
constexpr int64_t kSliceSums = 1 << 18;            // of all slices of the terms: 1 MB

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

// A product as it is taken: where b's columns have their terms side by side and are more than a's
// rows, c's transpose is made of theirs, so that the larger matrix is read where it lies.
struct Taken {
  Product p;
  bool turned = false;
  const Parts& parts;
  int64_t depth;  // terms, in whole tiles

  explicit Taken(const Product& given)
      : p(given), parts(parts_of(given)), depth(up(given.k, kTileTerms)) {
    turned = p.dtype == DType::BFloat16 && p.b_row == 1 && p.n > p.m;
    if (!turned) return;
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::tie(p.a_row, p.a_col, p.b_row, p.b_col) =
        std::make_tuple(given.b_col, given.b_row, given.a_col, given.a_row);
  }

  // A panel's columns, or as many as there are, and all parts of some of their terms.
  void pack_panel(int64_t j, int64_t cols, int64_t k, int64_t terms, uint16_t* to, int64_t tile,
                  int64_t part) const {
    for (int q = 0; q < parts.count; ++q)
      v4::tile_pack_columns({parts.part[q], at(p, p.b, j * p.b_col + k * p.b_row), p.b_col, p.b_row,
                             std::min(kPanel, cols), p.k - k, terms, to + q * part, tile});
  }
};

// b's columns of a block, from one term on: tile after tile, and in each one part after another.
struct PackedColumns {
  const uint16_t* at;
  int64_t tile, part;
};

// Blocks of c by one thread: its memory, and the machine in its hands. A block is summed panel
// after panel, all its rows for one piece of b after another. Panels lie apart, whole rows side by
// side.
class BlockSums {
 public:
  BlockSums(const Taken& t, const TileMachine& machine, int64_t rows, int64_t cols, int64_t slab,
            bool keep = false)
      : t_(t),
        ready_(machine),
        rows_(rows),
        slab_(std::min(slab, t.depth)),
        panel_(keep || slab_ < t.depth ? rows * kPanel : 0),
        pitch_(slab_ + kTileTerms),
        whole_(rows_lie(t) ? t.p.k / kTileTerms * kTileTerms : 0),
        most_packed_(whole_ ? kPanel : rows),
        sums_(keep ? 0 : size_of(panel_ ? rows * up(cols, kPanel) : rows * kPanel)),
        turned_(t.turned ? size_of(rows * kPanel) : 0),
        rest_(whole_ && whole_ < t.depth ? static_cast<size_t>(rows * kTileTerms) * 2 : 0),
        packed_(static_cast<size_t>(most_packed_ * pitch_ * t.parts.count) * 2) {}

  float* sums() { return reinterpret_cast<float*>(sums_.data()); }

  // Of m rows from i on, n columns and the terms from k0 to k1, into c; columns(k, terms) gives
  // b's. A panel that is complete is done(its first column, its sums).
  template <class F, class G>
  void sum(int64_t i, int64_t m, int64_t n, int64_t k0, int64_t k1, float* c, const F& columns,
           const G& done) {
    for (int64_t k = k0; k < k1; k += slab_) {
      const int64_t terms = std::min(slab_, k1 - k);
      const PackedColumns b = columns(k, terms);
      const int64_t there = take_rows(i, m, k, terms);
      for (int64_t col = 0; col < n; col += kPanel) {
        float* const to = c + col / kPanel * panel_;
        for (int64_t from = 0; from < terms; from += kDepth) {
          TileBlock block;
          block.b_panel = b.tile;
          block.c_row = kPanel;
          block.cols = std::min(up(n - col, kTileSide), kPanel);
          for (int q = 0; q < t_.parts.products; ++q) {
            block.b = b.at + col / kTileSide * b.tile + t_.parts.b[q] * b.part + from * kTileSide;
            block.add = k + from > k0 || q > 0;
            block.terms = std::min(kDepth, terms - from);
            if (there < m) {
              block.a = packed(t_.parts.a[q]) + from, block.a_row = pitch_;
              block.c = to + there * kPanel, block.rows = up(m - there, kTileSide);
              ready_.multiply(block);
            }
            if (there) {
              block.a = static_cast<const uint16_t*>(t_.p.a) + i * t_.p.a_row + k + from;
              block.a_row = t_.p.a_row;
              block.c = to, block.rows = there;
              if (k + from + block.terms > whole_) {
                block.terms = whole_ - k - from;
                block.rest = reinterpret_cast<const uint16_t*>(rest_.data());
              }
              ready_.multiply(block);
            }
          }
        }
        if (k + terms == k1) done(col, to);
      }
    }
  }

  // The sums of a panel, which begins at (i, j), into c.
  void store(const float* sums, int64_t i, int64_t j, int64_t m, int64_t n) {
    const Product& p = t_.p;
    int64_t row = kPanel;
    if (t_.turned) {
      auto* const turned = reinterpret_cast<float*>(turned_.data());
      v4::tile_turn(sums, row, up(m, kTileSide), up(n, kTileSide), turned, rows_);
      sums = turned, row = rows_;
      std::swap(i, j);
      std::swap(m, n);
    }
    (p.dtype == DType::BFloat16 ? v4::tile_store_bfloat16 : v4::tile_store_float32)(
        {m, n, sums, row, p.bias ? at(p, p.bias, j) : nullptr, p.add,
         const_cast<char*>(at(p, p.c, i * p.c_row + j)), p.c_row});
  }

 private:
  static size_t size_of(int64_t sums) { return static_cast<size_t>(sums) * sizeof(float); }
  // Whether a's rows can be multiplied where they lie; a tile's lines that are of two of the
  // cache's cost more than a copy where many columns meet them.
  static bool rows_lie(const Taken& t) {
    const Product& p = t.p;
    if (p.dtype != DType::BFloat16 || p.a_col != 1) return false;
    return p.n <= 4 * kPanel ||
           (reinterpret_cast<uintptr_t>(p.a) % 64 == 0 && p.a_row % kTileTerms == 0);
  }
  uint16_t* packed(int part) {
    return reinterpret_cast<uint16_t*>(packed_.data()) + part * most_packed_ * pitch_;
  }

  // Rows of a and some of their terms: how many of the rows are read where they lie; the others,
  // and what these have behind their last whole tile, are packed.
  int64_t take_rows(int64_t i, int64_t m, int64_t k, int64_t terms) {
    const Product& p = t_.p;
    const int64_t there = k < whole_ ? m / kPanel * kPanel : 0;
    if (i == taken_row_ && k == taken_term_) return there;
    taken_row_ = i, taken_term_ = k;
    const auto pack = [&](int part, int64_t from, int64_t first, int64_t depth, uint16_t* to,
                          int64_t row) {
      v4::tile_pack_rows({t_.parts.part[part], at(p, p.a, (i + from) * p.a_row + first * p.a_col),
                          p.a_row, p.a_col, std::min<int64_t>(kTileSide, m - from), p.k - first,
                          depth, to, row});
    };
    for (int part = 0; part < t_.parts.count; ++part)
      for (int64_t r = there; r < m; r += kTileSide)
        pack(part, r, k, terms, packed(part) + (r - there) * pitch_, pitch_);
    if (k + terms > whole_)
      for (int64_t r = 0; r < there; r += kTileSide)
        pack(0, r, whole_, kTileTerms, reinterpret_cast<uint16_t*>(rest_.data()) + r * kTileTerms,
             kTileTerms);
    return there;
  }

  const Taken& t_;
  const TilesReady ready_;
  const int64_t rows_, slab_, panel_, pitch_, whole_, most_packed_;
  const Scratch sums_, turned_, rest_, packed_;
  int64_t taken_row_ = -1, taken_term_ = -1;
};

template <class F>
void over_blocks(const Product& p, int threads, int64_t count, const F& run) {
  if (threads > 1) return parallel_for(count, 1, run);
  for (int64_t i = 0; i < count; ++i) {
    if (!p.alone) check_interrupt();
    run(i, i + 1);
  }
}

int threads_for(const Product& p, int64_t cols) {
  return p.alone || p.m * cols * p.k < (int64_t{1} << 21) ? 1 : get_num_threads();
}

// The part of a product whose columns lie in `packed`.
void multiply_band(const Taken& t, const TileMachine& machine, const uint16_t* packed,
                   int64_t first_col, int64_t cols) {
  const Product& p = t.p;
  const int threads = threads_for(p, cols);
  const int64_t slab = up(blocks(t.depth, blocks(t.depth, kSlab)), kDepth);
  int64_t block_rows = std::min(up(p.m, kTileSide), kBlockRows);
  int64_t block_cols = std::min(up(cols, kPanel), slab < t.depth ? kBlockCols : cols);
  const auto few = [&] {
    return threads > 1 && blocks(p.m, block_rows) * blocks(cols, block_cols) < 2 * threads;
  };
  while (few() && block_rows > 4 * kPanel) block_rows = up(block_rows / 2, kPanel);
  while (few() && block_cols > 4 * kPanel) block_cols = up(block_cols / 2, kPanel);
  while (few() && block_rows > 2 * kPanel) block_rows = up(block_rows / 2, kPanel);
  block_rows = up(blocks(p.m, up(blocks(p.m, block_rows), threads)), kPanel);
  const int64_t col_blocks = blocks(cols, block_cols), part = t.depth * kTileSide;
  over_blocks(p, threads, blocks(p.m, block_rows) * col_blocks, [&](int64_t from, int64_t to) {
    BlockSums sums(t, machine, block_rows, block_cols, slab);
    for (int64_t chunk = from; chunk < to; ++chunk) {
      const int64_t i = chunk / col_blocks * block_rows, j = chunk % col_blocks * block_cols;
      const int64_t m = std::min(block_rows, p.m - i), n = std::min(block_cols, cols - j);
      sums.sum(
          i, m, n, 0, t.depth, sums.sums(),
          [&](int64_t k, int64_t) {
            return PackedColumns{packed + j * t.depth * t.parts.count + k * kTileSide,
                                 t.parts.count * part, part};
          },
          [&](int64_t col, const float* of) {
            sums.store(of, i, first_col + j + col, m, std::min(kPanel, n - col));
          });
    }
  });
}

// Many terms of a small c are cut into slices, whose sums are added in their order; how many does
// not depend on the threads, so that the bits do not.
int64_t slice_of(const Taken& t) {
  const int64_t numel = up(t.p.m, kTileSide) * up(t.p.n, kPanel);
  const int64_t slices =
      std::clamp<int64_t>(std::min(t.depth / (4 * kDepth), kSliceSums / numel), 1, 16);
  return up(blocks(t.depth, slices), kDepth);
}

// Few rows, so that no other block needs the same columns of b: each packs its own, as many terms
// at a time as stay in a cache.
bool has_few_rows(const Taken& t) {
  const int threads = threads_for(t.p, t.p.n);
  return t.p.m <= kFewRows && (threads == 1 || t.p.m <= 2 * kPanel || slice_of(t) < t.depth ||
                               blocks(t.p.n, 4 * kPanel) >= threads);
}
void multiply_few_rows(const Taken& t, const TileMachine& machine) {
  const Product& p = t.p;
  const int64_t rows = up(p.m, kTileSide), cols = up(p.n, kPanel);
  const int threads = threads_for(p, p.n);
  int64_t block_cols = std::min(cols, kFewRowsCols);
  const int64_t slice = slice_of(t), count = blocks(t.depth, slice);
  while (threads > 1 && blocks(p.n, block_cols) * count < 2 * threads && block_cols > kPanel)
    block_cols = up(block_cols / 2, kPanel);
  const int64_t col_blocks = blocks(p.n, block_cols);
  const Scratch partial(count == 1 ? 0 : static_cast<size_t>(count * rows * cols) * sizeof(float));
  auto* const all = reinterpret_cast<float*>(partial.data());
  over_blocks(p, threads, col_blocks * count, [&](int64_t from, int64_t to) {
    BlockSums sums(t, machine, rows, block_cols, kDepth, count > 1);
    const Scratch packed(static_cast<size_t>(block_cols * kDepth * t.parts.count) * 2);
    auto* const columns = reinterpret_cast<uint16_t*>(packed.data());
    for (int64_t chunk = from; chunk < to; ++chunk) {
      const int64_t j = chunk / count * block_cols, n = std::min(block_cols, p.n - j);
      const int64_t k0 = chunk % count * slice, k1 = std::min(t.depth, k0 + slice);
      sums.sum(
          0, p.m, n, k0, k1, count == 1 ? sums.sums() : all + (chunk % count * cols + j) * rows,
          [&](int64_t k, int64_t terms) {
            const int64_t part = terms * kTileSide, tile = t.parts.count * part;
            for (int64_t c = 0; c < n; c += kPanel)
              t.pack_panel(j + c, n - c, k, terms, columns + c / kTileSide * tile, tile, part);
            return PackedColumns{columns, tile, part};
          },
          [&](int64_t col, const float* of) {
            if (count == 1) sums.store(of, 0, j + col, p.m, std::min(kPanel, n - col));
          });
    }
  });
  if (count == 1) return;
  for (int64_t s = 1; s < count; ++s)
    for (int64_t i = 0; i < rows * cols; ++i) all[i] += all[s * rows * cols + i];
  BlockSums last(t, machine, rows, kPanel, kDepth);
  for (int64_t j = 0; j < p.n; j += kPanel)
    last.store(all + j * rows, 0, j, p.m, std::min(kPanel, p.n - j));
}

void multiply(const Product& given, const TileMachine& machine) {
  const Taken t(given);
  const Product& p = t.p;
  if (has_few_rows(t)) return multiply_few_rows(t, machine);
  const int64_t part = t.depth * kTileSide, tile = part * t.parts.count;
  const int64_t band =
      std::clamp<int64_t>(kBandBytes / (4 * tile), 1, blocks(p.n, kPanel)) * kPanel;
  const Scratch packed(static_cast<size_t>(band / kTileSide * tile) * 2);
  auto* const to = reinterpret_cast<uint16_t*>(packed.data());
  const int64_t terms = p.b_col == 1 ? kPackedTerms : t.depth;
  for (int64_t first = 0; first < p.n; first += band) {
    const int64_t cols = std::min(band, p.n - first), panels = blocks(cols, kPanel);
    const auto pack = [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end; ++i) {
        const int64_t k = i / panels * terms, j = i % panels * kPanel;
        t.pack_panel(first + j, cols - j, k, std::min(terms, t.depth - k),
                     to + j / kTileSide * tile + k * kTileSide, tile, part);
      }
    };
    const int64_t pieces = panels * blocks(t.depth, terms);
    if (p.alone)
      pack(0, pieces);
    else
      parallel_for(pieces, std::max<int64_t>(1, (1 << 16) / (kPanel * terms)), pack);
    multiply_band(t, machine, to, first, cols);
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

const TileMachine* tiles_or_pairs() {
  if (const TileMachine* const machine = tiles()) return machine;
  return level() == Level::v4 && pairs_are_quick() ? &v4::pair_machine : nullptr;
}

// Infinity times the rest of a number would be no number: such products are taken as they are.
static bool finite(const Product& p) {
  const auto lines = [](const void* x, int64_t m, int64_t n, int64_t row, int64_t col) {
    if (row == 1) std::swap(m, n), std::swap(row, col);
    return col == 1 && v4::tile_finite(static_cast<const float*>(x), m, n, row);
  };
  return lines(p.a, p.m, p.k, p.a_row, p.a_col) && lines(p.b, p.k, p.n, p.b_row, p.b_col);
}

// Estimated cycles of both ways. Tiles: 512 multiply-adds a cycle at their peak, of which two
// thirds (loads of sums, short rows of tiles), and packing at 8 numbers a cycle, or 16 where terms
// lie in lines. Else float32's multiply-adds, to which bfloat16 is widened: 32 at their peak.
bool tiles_pay(const Product& p) {
  const bool pairs = p.dtype == DType::BFloat16;
  if (!pairs && p.dtype != DType::Float32) return false;
  if (!pairs && matmul_precision.load(std::memory_order_relaxed) == MatmulPrecision::Highest)
    return false;
  if (!tiles()) return false;
  const Taken t(p);
  const auto m = static_cast<double>(up(t.p.m, kTileSide)),
             n = static_cast<double>(up(t.p.n, kTileSide)), k = static_cast<double>(t.depth);
  const double by_tiles = m * n * k / 340 * t.parts.products +
                          n * k / (pairs && t.p.b_col == 1 ? 16 : 8) * t.parts.count +
                          m * n / (t.turned ? 4 : 8) +
                          (pairs && t.p.a_col == 1 ? 0 : m * k / 8 * t.parts.count);
  const double else_by = static_cast<double>(p.m * p.n) * static_cast<double>(p.k) / 26;
  return 200 + by_tiles < else_by && (pairs || finite(p));
}

void gemm_tiles(const Product& p) { multiply(p, *tiles()); }

}  // namespace tycho::cpu
