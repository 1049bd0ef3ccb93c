// Products in blocks. b is packed in panels of a register block's columns: a band of it once for
// all threads, after which blocks of c are chunks of a parallel region; or, of few rows, each strip
// of columns by the thread that multiplies it, while it is near. Numbers of two bytes are widened
// when they are packed, and their sums are kept in float32 until all terms are in.
#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/matmul/gemm_parts.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kBandCols = 3072;      // columns of b packed at a time
constexpr int64_t kBlockRowsMost = 48;   // more would write to more pages at a time than are kept
constexpr int64_t kBlockColsWide = 512;  // of sums that are rounded afterwards
constexpr int64_t kInPlaceCols = 512;    // up to which rows of a are read as they lie
constexpr int64_t kStripBytes = 128 << 10;  // of b, packed: half of a small second-level cache

// What all ways of going through the blocks share: how operands are brought into place.
struct Blocks {
  const Product& p;
  const int type = gemm_type(p.dtype), from = dtype_size(p.dtype);
  const bool wide = from == 2, half = p.dtype == DType::Float16;
  const int size = wide ? 4 : from;  // of what is multiplied
  const int64_t depth = depth_of(size);
  int unit_rows, unit_cols;
  const bool in_place;

  explicit Blocks(const Product& product) : p(product), in_place(reads_in_place()) {
    level_of::gemm_unit(type, &unit_rows, &unit_cols);
  }

  // Packing a pays off over many columns only, or where the rows of a register block would lie in
  // the same sets of the first-level cache.
  bool reads_in_place() const {
    return !wide && p.a_col == 1 && p.a_row > 0 && p.n <= kInPlaceCols &&
           p.a_row * size % 4096 != 0;
  }

  // Columns [col, col + cols) of rows [row, row + k) into panels.
  void pack_b(int64_t row, int64_t col, int64_t cols, int64_t k, void* to) const {
    const void* const b = at(p.b, row * p.b_row + col * p.b_col, from);
    if (!wide) return level_of::gemm_pack_b(type, b, p.b_col, p.b_row, cols, k, to);
    if (p.b_col == 1) {
      const Lines16 l{b16(b), p.b_row, k, cols};
      return level_of::gemm16_panels(half, &l, static_cast<float*>(to));
    }
    turn_panels(b16(b), cols, k, static_cast<float*>(to));
  }

  // The rows [row, row + rows) of terms [term, term + k): where they are, and how far apart (0: in
  // panels). `scratch` has room for them.
  const void* rows_of_a(int64_t row, int64_t rows, int64_t term, int64_t k, void* scratch,
                        int64_t* apart) const {
    const void* const a = at(p.a, row * p.a_row + term * p.a_col, from);
    *apart = in_place ? p.a_row : 0;
    if (in_place) return a;
    if (!wide) {
      level_of::gemm_pack_a(type, a, p.a_row, p.a_col, rows, k, scratch);
      return scratch;
    }
    auto* const to = static_cast<float*>(scratch);
    if (p.a_row != 1 || p.a_col == 1) {
      *apart = line_of(k);
      widen_lines(half, a, p.a_row, p.a_col, rows, k, to, *apart);
      return scratch;
    }
    const Scratch lines(static_cast<size_t>(k * rows * 4));
    auto* const lying = reinterpret_cast<float*>(lines.data());
    widen_lines(half, a, p.a_col, 1, k, rows, lying, rows);
    level_of::gemm_pack_a(0, static_cast<const void*>(lying), int64_t{1}, rows, rows, k, scratch);
    return scratch;
  }
  size_t room_for_a(int64_t rows, int64_t k) const {
    return in_place ? 0 : static_cast<size_t>(up(rows, unit_rows) * (wide ? line_of(k) : k) * size);
  }

  // Rounds sums of [row, row + rows) by [col, col + cols) into c.
  void round(int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums,
             int64_t ld) const {
    const Rounded16 r{rows,
                      cols,
                      sums,
                      ld,
                      p.bias ? b16(at(p.bias, col, 2)) : nullptr,
                      p.add,
                      reinterpret_cast<uint16_t*>(at(p.c, row * p.c_row + col, 2)),
                      p.c_row};
    level_of::gemm16_round(half, &r);
  }

 private:
  static const uint16_t* b16(const void* x) { return static_cast<const uint16_t*>(x); }
  // Of a row of widened terms: not a multiple of a page.
  static int64_t line_of(int64_t k) { return up(k, 16) + 16; }
  // Panels of columns that lie side by side: some terms of a panel at a time are widened and
  // turned.
  void turn_panels(const uint16_t* b, int64_t cols, int64_t k, float* to) const {
    constexpr int64_t kTerms = 64, kColsMost = 64;
    alignas(64) float lines[kColsMost * (kTerms + 16)];
    for (int64_t j = 0; j < cols; j += unit_cols) {
      const int64_t some = std::min<int64_t>(unit_cols, cols - j);
      for (int64_t q = 0; q < k; q += kTerms) {
        const int64_t terms = std::min(kTerms, k - q);
        widen_lines(half, b + j * p.b_col + q * p.b_row, p.b_col, p.b_row, some, terms, lines,
                    kTerms + 16);
        level_of::gemm_pack_b(0, static_cast<const void*>(lines), kTerms + 16, int64_t{1}, some,
                              terms, static_cast<void*>(to + j * k + q * unit_cols));
      }
    }
  }
};

// Few rows: all of them meet a strip of columns, for all terms.
constexpr int64_t kStripRows = 192;
int64_t strip_of(const Blocks& b, int threads) {
  const Product& p = b.p;
  if (p.m > kStripRows) return 0;
  int64_t most = std::min(kBandCols, kStripBytes / (std::min(b.depth, p.k) * b.size));
  if (b.wide) most = std::min({most, kBlockColsWide, kStripBytes / (p.m * b.size)});
  most = std::max<int64_t>(most / b.unit_cols, 1) * b.unit_cols;
  if (threads == 1) return most;
  // Four for every thread, or at least one; 0 where there are not enough columns.
  const int64_t fair = p.n / (4 * threads) / b.unit_cols * b.unit_cols;
  return fair || p.n < threads * b.unit_cols ? std::min(most, fair) : b.unit_cols;
}
void multiply_strips(const Blocks& b, int threads, int64_t strip) {
  const Product& p = b.p;
  const int64_t depth = std::min(b.depth, p.k);
  // b as it lies, but where its rows would lie in the same sets of the first-level cache.
  const bool direct =
      !b.wide && p.b_col == 1 && (p.m <= 4 * b.unit_rows || p.b_row * b.size % 2048 != 0);
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch panels(direct ? 0 : static_cast<size_t>(strip * depth * b.size));
    const Scratch rows(b.room_for_a(p.m, depth));
    const Scratch sums(b.wide ? static_cast<size_t>(p.m * strip) * sizeof(float) : 0);
    const auto multiply = [&](int64_t i, int64_t pc, int64_t k, const void* a, int64_t apart) {
      const int64_t j = i * strip, cols = std::min(strip, p.n - j);
      if (direct)
        return level_of::gemm_direct(b.type, p.m, cols, k, at(p.a, pc * p.a_col, b.size), p.a_row,
                                     p.a_col, at(p.b, pc * p.b_row + j, b.size), p.b_row,
                                     at(p.c, j, b.size), p.c_row, pc ? 1 : begin_mode(p),
                                     p.bias ? at(p.bias, j, b.size) : nullptr, false);
      b.pack_b(pc, j, cols, k, panels.data());
      const int first = b.wide ? 0 : begin_mode(p);
      level_of::gemm_packed(
          b.type, p.m, cols, k, a, apart, static_cast<const void*>(panels.data()),
          b.wide ? static_cast<void*>(sums.data()) : static_cast<void*>(at(p.c, j, b.size)),
          b.wide ? strip : p.c_row, pc ? 1 : first,
          first == 2 && !pc ? static_cast<const void*>(at(p.bias, j, b.size)) : nullptr);
    };
    // All strips meet some terms of a once these are in place; sums apart are of one strip.
    const int64_t some = b.wide ? 1 : to - from;
    for (int64_t i = from; i < to; i += some) {
      for (int64_t pc = 0; pc < p.k; pc += depth) {
        const int64_t k = std::min(depth, p.k - pc);
        int64_t apart = 0;
        const void* const a = direct ? nullptr : b.rows_of_a(0, p.m, pc, k, rows.data(), &apart);
        for (int64_t q = i; q < i + some; ++q) {
          if (!p.alone) check_interrupt();
          multiply(q, pc, k, a, apart);
        }
      }
      if (b.wide)
        b.round(0, p.m, i * strip, std::min(strip, p.n - i * strip),
                reinterpret_cast<const float*>(sums.data()), strip);
    }
  };
  const int64_t count = blocks(p.n, strip);
  if (threads == 1) return run(0, count);
  parallel_for(count, std::max<int64_t>(1, count / (4 * threads)), run);
}

// Rows and columns of a block of c. Of the ways to cut it for the threads, the one in which the one
// that has most to do is done first; and of those the one of most blocks, up to some eight a
// thread, so that one late thread costs little.
struct BlockSize {
  int64_t rows, cols;
};
BlockSize blocks_of(const Blocks& b, int64_t threads) {
  const Product& p = b.p;
  const int64_t rows = up(p.m, b.unit_rows), cols = std::min(up(p.n, b.unit_cols), kBandCols);
  BlockSize best{std::min(rows, up(kBlockRowsMost, b.unit_rows)),
                 std::min(cols, b.wide ? kBlockColsWide : kBandCols)};
  if (threads == 1 || blocks(rows, best.rows) * blocks(cols, best.cols) >= 8 * threads) return best;
  int64_t least = 0;
  const BlockSize whole = best;
  for (int64_t parts = 8 * threads; parts > 0; --parts)
    for (int64_t down = parts; down > 0; --down) {  // parts of the rows
      if (parts % down != 0) continue;
      const BlockSize s{up(blocks(rows, down), b.unit_rows),
                        up(blocks(cols, parts / down), b.unit_cols)};
      if (s.rows > whole.rows || s.cols > whole.cols || s.cols < 2 * b.unit_cols) continue;
      // Turns of all threads; every block brings its rows into place first.
      const int64_t turns = blocks(blocks(rows, s.rows) * blocks(cols, s.cols), threads);
      const int64_t cost = turns * s.rows * (s.cols + b.unit_cols / 2);
      if (least == 0 || cost < least) least = cost, best = s;
    }
  return best;
}

// Many terms of a b that is small: all of it is packed first, so that the threads meet twice and not twice
// for every depth.
constexpr int64_t kWholeBytes = 1 << 20, kWholeWork = 1 << 21;
bool whole_pays(const Blocks& b, int threads) {
  const Product& p = b.p;
  return threads > 1 && p.k > b.depth && p.n <= kBandCols && p.m * p.n * p.k >= kWholeWork &&
         up(p.n, b.unit_cols) * p.k * b.size <= kWholeBytes;
}
void multiply_whole(const Blocks& b, int threads) {
  const Product& p = b.p;
  const auto [block_rows, block_cols] = blocks_of(b, threads);
  const int64_t panels = blocks(p.n, b.unit_cols), columns = panels * b.unit_cols;
  const Scratch packed(static_cast<size_t>(columns * p.k * b.size));
  const auto panels_at = [&](int64_t term, int64_t col, int64_t k) {
    return static_cast<void*>(at(packed.data(), columns * term + col * k, b.size));
  };
  const auto pack = [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      const int64_t pc = t / panels * b.depth, j = t % panels * b.unit_cols;
      const int64_t k = std::min(b.depth, p.k - pc);
      b.pack_b(pc, j, std::min<int64_t>(b.unit_cols, p.n - j), k, panels_at(pc, j, k));
    }
  };
  const int64_t row_blocks = blocks(p.m, block_rows), col_blocks = blocks(p.n, block_cols);
  const auto multiply = [&](int64_t from, int64_t to) {
    const Scratch a_scratch(b.room_for_a(block_rows, b.depth));
    const Scratch sums(b.wide ? static_cast<size_t>(block_rows * columns) * sizeof(float) : 0);
    for (int64_t chunk = from, next; chunk < to; chunk = next) {
      // Blocks beside each other are one.
      next = std::min(to, (chunk / col_blocks + 1) * col_blocks);
      const int64_t i = chunk / col_blocks * block_rows, j = chunk % col_blocks * block_cols;
      const int64_t rows = std::min(block_rows, p.m - i),
                    n = std::min(p.n, j + (next - chunk) * block_cols) - j;
      void* const c = b.wide ? sums.data() : at(p.c, i * p.c_row + j, b.size);
      const int64_t ldc = b.wide ? columns : p.c_row;
      const int first = b.wide ? 0 : begin_mode(p);
      for (int64_t pc = 0; pc < p.k; pc += b.depth) {
        if (!p.alone) check_interrupt();
        const int64_t k = std::min(b.depth, p.k - pc);
        int64_t apart = 0;
        const void* const a = b.rows_of_a(i, rows, pc, k, a_scratch.data(), &apart);
        level_of::gemm_packed(
            b.type, rows, n, k, a, apart, static_cast<const void*>(panels_at(pc, j, k)), c, ldc,
            pc ? 1 : first,
            first == 2 && !pc ? static_cast<const void*>(at(p.bias, j, b.size)) : nullptr);
      }
      if (b.wide) b.round(i, rows, j, n, static_cast<const float*>(c), ldc);
    }
  };
  parallel_for(blocks(p.k, b.depth) * panels,
               std::max<int64_t>(1, (1 << 14) / (b.depth * b.unit_cols)), pack);
  parallel_for(row_blocks * col_blocks, 1, multiply);
}

}  // namespace

void gemm_blocked(const Product& p) {
  const Blocks b(p);
  const int64_t depth = b.depth, unit_cols = b.unit_cols;
  const int size = b.size, type = b.type;
  int threads = p.alone || work_of(p) < kParallelWork ? 1 : get_num_threads();
  if (const int64_t strip = strip_of(b, threads)) return multiply_strips(b, threads, strip);
  if (whole_pays(b, threads)) return multiply_whole(b, threads);
  // From here on the threads meet twice for every depth.
  Product step = p;
  step.k = std::min(depth, p.k);
  if (threads > 1 && work_of(step) < kParallelWork / 2) {
    threads = 1;
    if (const int64_t strip = strip_of(b, threads)) return multiply_strips(b, threads, strip);
  }
  const auto [block_rows, block_cols] = blocks_of(b, threads);
  const int64_t band = std::min(p.n, kBandCols);
  const Scratch b_scratch(static_cast<size_t>(up(band, unit_cols) * std::min(depth, p.k) * size));
  // Sums that are not complete after one depth are kept for all of the band.
  const bool kept = b.wide && p.k > depth;
  const Scratch kept_sums(kept ? static_cast<size_t>(p.m * band) * sizeof(float) : 0);
  for (int64_t jc = 0; jc < p.n; jc += kBandCols) {
    const int64_t cols = std::min(kBandCols, p.n - jc);
    for (int64_t pc = 0; pc < p.k; pc += depth) {
      const int64_t k = std::min(depth, p.k - pc);
      const auto pack_b = [&](int64_t from, int64_t to) {
        const int64_t j = from * unit_cols;
        b.pack_b(pc, jc + j, std::min(to * unit_cols, cols) - j, k,
                 static_cast<void*>(at(b_scratch.data(), j * k, size)));
      };
      const int64_t row_blocks = blocks(p.m, block_rows), col_blocks = blocks(cols, block_cols);
      const auto multiply = [&](int64_t from, int64_t to) {
        const Scratch a_scratch(b.room_for_a(block_rows, k));
        const Scratch sums(
            b.wide && !kept ? static_cast<size_t>(block_rows * block_cols) * sizeof(float) : 0);
        int64_t packed = -1, apart = 0;
        const void* a = nullptr;
        for (int64_t chunk = from; chunk < to; ++chunk) {
          const int64_t i = chunk / col_blocks * block_rows, j = chunk % col_blocks * block_cols;
          const int64_t rows = std::min(block_rows, p.m - i), n = std::min(block_cols, cols - j);
          if (packed != i) a = b.rows_of_a(i, rows, pc, k, a_scratch.data(), &apart);
          packed = i;
          void* c = at(p.c, i * p.c_row + jc + j, size);
          int64_t ldc = p.c_row;
          if (b.wide) {
            ldc = kept ? band : block_cols;
            c = kept ? at(kept_sums.data(), i * band + j, 4) : sums.data();
          }
          const int first = b.wide ? 0 : begin_mode(p);
          level_of::gemm_packed(
              type, rows, n, k, a, apart,
              static_cast<const void*>(at(b_scratch.data(), j * k, size)), c, ldc, pc ? 1 : first,
              first == 2 && !pc ? static_cast<const void*>(at(p.bias, jc + j, size)) : nullptr);
          if (b.wide && pc + k == p.k)
            b.round(i, rows, jc + j, n, static_cast<const float*>(c), ldc);
        }
      };
      if (threads == 1) {
        pack_b(0, blocks(cols, unit_cols));
        for (int64_t chunk = 0; chunk < row_blocks * col_blocks; chunk += col_blocks) {
          if (!p.alone) check_interrupt();
          multiply(chunk, chunk + col_blocks);
        }
      } else {
        parallel_for(blocks(cols, unit_cols), std::max<int64_t>(1, (1 << 14) / (k * unit_cols)),
                     pack_b);
        parallel_for(row_blocks * col_blocks, 1, multiply);
      }
    }
  }
}

}  // namespace tycho::cpu
