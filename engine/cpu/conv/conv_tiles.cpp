// See conv_tiles.h. The input's gradient is a convolution too: of the result's gradient with the
// kernel turned round. Where windows step over pixels, every so-many-th pixel of the input is one,
// with the taps that reach it (Dumoulin and Visin, "A guide to convolution arithmetic", 2016,
// chapter 4).
#include "engine/cpu/conv/conv_tiles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/matmul/tiles.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int kTwoBytes = 3;               // window_rows' type
constexpr int64_t kPanel = 2 * kTileSide;  // columns that are summed in registers at once
constexpr int64_t kSummed = 512;           // terms at once: a panel of them is 32 KB
constexpr int64_t kNear = 768 << 10;       // bytes of windows and sums that stay in a core's cache
constexpr int64_t kBatch = 8 << 20;        // bytes of images with their borders
constexpr int64_t kRoom = 64;              // numbers behind a row of windows for loose copies

int64_t numbers_in(const int64_t (&size)[3]) { return size[0] * size[1] * size[2]; }

uint16_t* halves(const Scratch& s) { return reinterpret_cast<uint16_t*>(s.data()); }
float* floats(const Scratch& s) { return reinterpret_cast<float*>(s.data()); }

// A window's taps, a few bands at a time; the numbers of a cut are filled up to whole tiles.
struct BandCuts {
  int64_t width, bands, each;
  explicit BandCuts(const Window& w)
      : width(w.band_width()),
        bands(w.bands()),
        each(std::clamp<int64_t>(kSummed / std::max<int64_t>(1, width), 1, w.bands())) {}
  int64_t count() const { return blocks(bands, each); }
  int64_t first(int64_t cut) const { return cut * each; }
  int64_t last(int64_t cut) const { return std::min(bands, (cut + 1) * each); }
  int64_t terms(int64_t cut) const { return (last(cut) - first(cut)) * width; }
  int64_t depth(int64_t cut) const { return up(terms(cut), kTileTerms); }
  int64_t before(int64_t cut) const { return cut * depth(0); }
  int64_t all() const { return before(count() - 1) + depth(count() - 1); }
  int64_t row() const { return depth(0) + kRoom; }  // step from window to window
};

Window of_group(Window w, int64_t groups, int64_t g) {
  w.count = w.channels / groups;
  w.first = g * w.count;
  return w;
}

// What windows are multiplied with, [taps of a window, columns] for each group; steps in numbers.
struct TapMatrix {
  const uint16_t* from;
  int64_t term, column, group, columns;
};

// Where results go: from image to image, line to line ... and group to group.
struct Places {
  uint16_t* to;
  int64_t image, step[3], group;

  static Places dense(void* to, int64_t channels, int64_t columns, const int64_t (&size)[3]) {
    const int64_t line = size[2] * channels;
    return {static_cast<uint16_t*>(to),
            size[0] * size[1] * line,
            {size[1] * line, line, channels},
            columns};
  }
};

void store_windows(const Window& w, const Places& y, int64_t row, int64_t rows, v4::TileStore s) {
  const bool even = y.step[1] == y.step[2] * w.out[2] && y.step[0] == y.step[1] * w.out[1] &&
                    y.image == y.step[0] * w.out[0];
  uint16_t* const to = static_cast<uint16_t*>(s.to);
  s.to_row = y.step[2];
  while (rows > 0) {
    int64_t rest = row;
    const int64_t px = rest % w.out[2];
    rest /= w.out[2];
    const int64_t py = rest % w.out[1];
    rest /= w.out[1];
    s.rows = even ? rows : std::min(rows, w.out[2] - px);
    s.to = to + rest / w.out[0] * y.image + rest % w.out[0] * y.step[0] + py * y.step[1] +
           px * y.step[2];
    v4::tile_store_bfloat16(s);
    row += s.rows, rows -= s.rows, s.sums += s.rows * s.row;
  }
}

// Windows [row, row + rows) of a cut, with zeros up to its depth.
void copy_cut(const Window& w, const BandCuts& cuts, int64_t cut, const void* x, int64_t row,
              int64_t rows, uint16_t* to) {
  const void* const end =
      static_cast<const uint16_t*>(x) + w.images * numbers_in(w.in) * w.channels;
  v4::window_rows(kTwoBytes, &w, x, end, row, row + rows, cuts.first(cut), cuts.last(cut), to,
                  cuts.row());
  const int64_t terms = cuts.terms(cut), more = cuts.depth(cut) - terms;
  for (int64_t i = 0; more > 0 && i < rows; ++i)
    std::memset(to + i * cuts.row() + terms, 0, static_cast<size_t>(more) * 2);
}

// Rows of a block: what is in use stays near, and every thread has some blocks.
int64_t block_rows(int64_t rows, int64_t bytes_of_row, int64_t tasks) {
  int64_t block = 128;
  while (block > 2 * kTileSide &&
         (block * bytes_of_row > kNear ||
          (get_num_threads() > 1 && blocks(rows, block) * tasks < 3 * get_num_threads())))
    block /= 2;
  return block;
}

// An image with its border of zeros, where windows lie one pixel apart: the rows of a product are
// its pixels, each the first of a window, and a window's numbers lie at the same distance from all
// of them, so that nothing is copied for each window. Rows whose pixels begin no window are left
// out.
struct Bordered {
  Window w;
  int64_t size[3];      // of the image
  int64_t width, runs;  // of a window: numbers that lie side by side, and how many such runs
  explicit Bordered(const Window& of) : w(of) {
    for (int d = 0; d < 3; ++d) size[d] = w.out[d] + (w.kernel[d] - 1) * w.dilation[d];
    const bool joined = w.dilation[2] == 1;
    width = (joined ? w.kernel[2] : 1) * w.count;
    runs = w.bands() * (joined ? 1 : w.kernel[2]);
  }
  static bool fits(const Window& w) {
    return w.stride[0] == 1 && w.stride[1] == 1 && w.stride[2] == 1;
  }
  int64_t run_depth() const { return up(width, kTileTerms); }
  int64_t depth() const { return runs * run_depth(); }
  int64_t rows() const {  // of an image
    return ((w.out[0] - 1) * size[1] + w.out[1] - 1) * size[2] + w.out[2];
  }
  // What the last tile of rows reads lies in the memory too.
  int64_t numbers() const { return (numbers_in(size) + kTileSide) * w.count + kTileTerms; }
  std::vector<int64_t> places() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < runs; ++i) {
      const int64_t band = width > w.count || w.kernel[2] == 1 ? i : i / w.kernel[2];
      const int64_t tap = width > w.count || w.kernel[2] == 1 ? 0 : i % w.kernel[2];
      const int64_t line =
          band / w.kernel[1] * w.dilation[0] * size[1] + band % w.kernel[1] * w.dilation[1];
      for (int64_t k = 0; k < width; k += kTileTerms)
        all.push_back((line * size[2] + tap * w.dilation[2]) * w.count + k);
    }
    return all;
  }
  void copy_line(const uint16_t* x, int64_t image, int64_t line, uint16_t* to) const {
    uint16_t* const end = to + (line + 1) * size[2] * w.count;
    to += line * size[2] * w.count;
    const int64_t z = line / size[1] - w.pad[0], y = line % size[1] - w.pad[1];
    if (z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1]) {
      const int64_t first = std::max<int64_t>(0, -w.pad[2]);
      const int64_t left = std::clamp<int64_t>(w.pad[2], 0, size[2]);
      const int64_t n = std::clamp<int64_t>(w.in[2] - first, 0, size[2] - left);
      const uint16_t* from =
          x + (((image * w.in[0] + z) * w.in[1] + y) * w.in[2] + first) * w.channels + w.first;
      std::fill_n(to, left * w.count, uint16_t{0});
      to += left * w.count;
      if (w.count == w.channels)
        std::copy_n(from, n * w.count, to);
      else
        for (int64_t i = 0; i < n; ++i)
          std::copy_n(from + i * w.channels, w.count, to + i * w.count);
      to += n * w.count;
    }
    std::fill(to, end, uint16_t{0});
  }
};

// Every window of `x` times the matrix of its group, from images with borders. False where infinity
// or no number would meet the zeros that fill up a run.
bool bordered_times(const Window& all, int64_t groups, const void* x, const TapMatrix& m,
                    const void* bias, const Places& y) {
  const Bordered one(of_group(all, groups, 0));
  if (one.width % kTileTerms &&
      !v4::tile_finite_halves(static_cast<const uint16_t*>(x),
                              all.images * numbers_in(all.in) * all.channels))
    return false;
  const int64_t cols = up(m.columns, kTileSide), depth = one.depth(), group_size = cols * depth;
  const Scratch panels(static_cast<size_t>(groups * group_size) * 2);
  parallel_for(
      groups * one.runs, std::max<int64_t>(1, (1 << 12) / (cols * one.run_depth())),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          for (int64_t j = 0; j < cols; j += kPanel) {
            const int64_t g = i / one.runs, run = i % one.runs;
            v4::tile_pack_columns(
                {v4::TilePart::Bits, m.from + g * m.group + j * m.column + run * one.width * m.term,
                 m.column, m.term, std::min(kPanel, m.columns - j), one.width, one.run_depth(),
                 halves(panels) + g * group_size + j * depth + run * one.run_depth() * kTileSide,
                 depth * kTileSide});
          }
      });
  const std::vector<int64_t> places = one.places();
  const int64_t numbers = one.numbers(), lines = one.size[0] * one.size[1], rows = one.rows();
  const int64_t units = all.images * groups, threads = get_num_threads();
  const int64_t batch = std::clamp<int64_t>(kBatch / (2 * numbers), 1, units);
  int64_t block = 256;
  while (block > 2 * kTileSide && threads > 1 && blocks(rows, block) * batch < 3 * threads)
    block /= 2;
  const int64_t row_blocks = blocks(rows, block);
  // A tile of columns alone needs others for every product: of large pixels, they come again soon.
  const int64_t summed = cols == kTileSide && one.w.count > 64 ? depth : kSummed;
  const Scratch images(static_cast<size_t>(batch * numbers) * 2);
  for (int64_t first = 0; first < units; first += batch) {
    const int64_t count = std::min(batch, units - first);
    parallel_for(count * lines, std::max<int64_t>(1, (1 << 14) / (one.size[2] * one.w.count)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t u = first + i / lines;
                     uint16_t* const image = halves(images) + i / lines * numbers;
                     Bordered(of_group(all, groups, u % groups))
                         .copy_line(static_cast<const uint16_t*>(x), u / groups, i % lines, image);
                     if (i % lines == lines - 1)
                       std::fill_n(image + numbers_in(one.size) * one.w.count,
                                   numbers - numbers_in(one.size) * one.w.count, uint16_t{0});
                   }
                 });
    parallel_for(count * row_blocks, 1, [&](int64_t begin, int64_t end) {
      const Scratch sums(static_cast<size_t>(block * up(cols, kPanel)) * sizeof(float));
      const TilesReady ready(*tiles());
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t u = first + chunk / row_blocks, g = u % groups;
        const int64_t row = chunk % row_blocks * block, last = std::min(rows, row + block);
        TileBlock t;
        t.a = halves(images) + chunk / row_blocks * numbers + row * one.w.count;
        t.a_row = one.w.count, t.b_panel = depth * kTileSide, t.c_row = kPanel;
        t.rows = up(last - row, kTileSide);
        for (int64_t col = 0; col < cols; col += kPanel) {
          t.c = floats(sums) + col * block, t.cols = std::min(kPanel, cols - col);
          for (int64_t k = 0; k < depth; k += summed) {
            t.b = halves(panels) + g * group_size + col * depth + k * kTileSide;
            t.places = places.data() + k / kTileTerms;
            t.terms = std::min(summed, depth - k);
            t.add = k > 0;
            ready.multiply(t);
          }
          const int64_t columns = std::min(kPanel, m.columns - col);
          const auto* const begin_at = static_cast<const uint16_t*>(bias);
          for (int64_t i = row, n; i < last; i += n) {
            const int64_t px = i % one.size[2], py = i / one.size[2] % one.size[1],
                          pz = i / one.size[2] / one.size[1];
            n = std::min(last - i, one.size[2] - px);
            if (px >= one.w.out[2] || py >= one.w.out[1]) continue;
            v4::tile_store_bfloat16({std::min(n, one.w.out[2] - px), columns,
                                     t.c + (i - row) * kPanel, kPanel,
                                     bias ? begin_at + g * m.columns + col : nullptr, false,
                                     y.to + g * y.group + col + u / groups * y.image +
                                         pz * y.step[0] + py * y.step[1] + px * y.step[2],
                                     y.step[2]});
          }
        }
      }
    });
  }
  return true;
}

// --- Which way ---

// Multiply-adds a cycle: of tiles, two thirds of their peak where four sums are taken at once.
double tile_speed(int64_t cols) { return cols > kTileSide ? 340 : 200; }

// Of what else there is: lanes hold 16 channels of what is computed, and groups of few channels
// leave it little to do at a time. Chosen by measuring 900 random convolutions both ways, one
// thread; what it chooses takes 4 % longer than the best choice each time.
double else_speed(int64_t columns, int64_t groups, int64_t summed) {
  constexpr double kMost = 12, kEnough = 4, kAlone = 5, kFew = 8;
  if (columns == 1 && summed == 1) return kAlone;
  const auto c = static_cast<double>(columns);
  const double lanes = c <= kFew ? 1.5 + 1.5 * c : kMost * std::min(1.0, c / kTileSide);
  return std::min(kMost, lanes) *
         (groups > 1 ? std::min(0.7, static_cast<double>(summed) / kEnough) : 1.0);
}

// Estimated cycles from copies of windows: products, copies at 16 numbers a cycle (and some for
// each stretch), the weight's and the result's numbers at 8.
double copied_cycles(const Window& w, int64_t groups, int64_t columns) {
  const BandCuts cuts(w);
  const auto rows = static_cast<double>(w.rows()), depth = static_cast<double>(cuts.all());
  const bool joined = w.dilation[2] == 1 && groups == 1;
  const double stretches = static_cast<double>(w.bands() * (joined ? 1 : w.kernel[2]));
  const auto cols = static_cast<double>(up(columns, kTileSide));
  const double padded = static_cast<double>(up(w.rows(), kTileSide)) * cols * depth;
  return static_cast<double>(groups) *
         (padded / tile_speed(columns) + rows * (depth / 16 + stretches * 6) + depth * cols / 8 +
          rows * cols / 8);
}

// The same from images with borders: their copies are made at 8 numbers a cycle, or pixel by pixel
// where there are groups, and so are results; rows of a few numbers are of two lines of the cache
// each.
double bordered_cycles(const Window& w, int64_t groups, int64_t columns) {
  constexpr int64_t kNarrow = 8;
  const Bordered b(w);
  const auto images = static_cast<double>(w.images), depth = static_cast<double>(b.depth());
  const auto cols = static_cast<double>(up(columns, kTileSide));
  const auto rows = static_cast<double>(up(b.rows(), kTileSide));
  const auto panels = static_cast<double>(blocks(columns, kPanel));
  const double lines = static_cast<double>(w.out[0] * w.out[1]) * panels;
  const double copies = w.count == w.channels ? static_cast<double>(b.numbers()) / 8
                                              : static_cast<double>(numbers_in(b.size)) * 10;
  const double speed = tile_speed(columns) * (w.count < kNarrow ? 0.65 : 1);
  return static_cast<double>(groups) *
         (images * (rows * (cols * depth / speed + panels * 8) + lines * 40 + copies) +
          depth * cols / 8);
}
bool bordered_pays(const Window& w, int64_t groups, int64_t columns) {
  return Bordered::fits(w) &&
         bordered_cycles(w, groups, columns) < copied_cycles(w, groups, columns);
}
double window_cycles(const Window& w, int64_t groups, int64_t columns) {
  return bordered_pays(w, groups, columns) ? bordered_cycles(w, groups, columns)
                                           : copied_cycles(w, groups, columns);
}

// Every window of `x` times the matrix of its group.
void windows_times(const Window& all, int64_t groups, const void* x, const TapMatrix& m,
                   const void* bias, const Places& y) {
  const Window one = of_group(all, groups, 0);
  if (bordered_pays(one, groups, m.columns) && bordered_times(all, groups, x, m, bias, y)) return;
  const BandCuts cuts(one);
  const int64_t cols = up(m.columns, kTileSide), depth = cuts.all(), group_size = cols * depth;
  const Scratch panels(static_cast<size_t>(groups * group_size) * 2);
  const int64_t group_panels = cols / kTileSide;
  parallel_for(
      groups * group_panels, std::max<int64_t>(1, (1 << 12) / depth),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t g = i / group_panels, j = i % group_panels * kTileSide;
          for (int64_t cut = 0; cut < cuts.count(); ++cut)
            v4::tile_pack_columns(
                {v4::TilePart::Bits,
                 m.from + g * m.group + j * m.column + cuts.first(cut) * cuts.width * m.term,
                 m.column, m.term, std::min<int64_t>(kTileSide, m.columns - j), cuts.terms(cut),
                 cuts.depth(cut),
                 halves(panels) + g * group_size + cols * cuts.before(cut) + j * cuts.depth(cut),
                 0});
        }
      });
  const int64_t rows = one.rows();
  const int64_t block = block_rows(rows, 2 * cuts.row() + 4 * cols, groups);
  const int64_t row_blocks = blocks(rows, block);
  parallel_for(groups * row_blocks, 1, [&](int64_t begin, int64_t end) {
    const Scratch windows(static_cast<size_t>(block * cuts.row() + kRoom) * 2);
    const Scratch sums(static_cast<size_t>(block * cols) * sizeof(float));
    const TilesReady ready(*tiles());
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t g = chunk / row_blocks, row = chunk % row_blocks * block;
      const int64_t count = std::min(block, rows - row);
      const Window w = of_group(all, groups, g);
      TileBlock t;
      t.a_row = cuts.row(), t.c = floats(sums), t.c_row = cols;
      t.rows = up(count, kTileSide), t.cols = cols;
      for (int64_t cut = 0; cut < cuts.count(); ++cut) {
        copy_cut(w, cuts, cut, x, row, count, halves(windows));
        t.b_panel = cuts.depth(cut) * kTileSide;
        for (int64_t k = 0; k < cuts.depth(cut); k += kSummed) {
          t.a = halves(windows) + k;
          t.b = halves(panels) + g * group_size + cols * cuts.before(cut) + k * kTileSide;
          t.terms = std::min(kSummed, cuts.depth(cut) - k);
          t.add = cut > 0 || k > 0;
          ready.multiply(t);
        }
      }
      const auto* const begin_at = static_cast<const uint16_t*>(bias);
      store_windows(w, y, row, count,
                    {0, m.columns, t.c, cols, bias ? begin_at + g * m.columns : nullptr, false,
                     y.to + g * y.group, 0});
    }
  });
}

// Of one dimension of the input's gradient: pixels first, first + stride ... and the taps that
// reach them.
struct Phase {
  int64_t first, pixels;
  int64_t tap, tap_step, taps;  // the last tap comes first in the turned kernel
  int64_t dilation, pad;        // of the turned kernel over the result's gradient

  Phase(const Window& w, int d, int64_t from) : first(from), tap(0), tap_step(1), taps(0) {
    const int64_t s = w.stride[d], e = w.dilation[d];
    pixels = from < w.in[d] ? (w.in[d] - from + s - 1) / s : 0;
    tap_step = s / std::gcd(s, e);
    dilation = e * tap_step / s;
    while (tap < w.kernel[d] && (from + w.pad[d] - tap * e) % s != 0) ++tap;
    if (tap < w.kernel[d]) taps = (w.kernel[d] - 1 - tap) / tap_step + 1;
    pad = taps ? (taps - 1) * dilation - (from + w.pad[d] - tap * e) / s : 0;
  }
  int64_t turned(int64_t i) const { return tap + (taps - 1 - i) * tap_step; }
};

void input_phase(const Convolution& c, const std::array<Phase, 3>& phase, const void* y,
                 const uint16_t* weight, void* x) {
  const Window& w = c.window;
  const int64_t in = w.channels / c.groups, out = c.out_channels / c.groups;
  const int64_t taps = phase[0].taps * phase[1].taps * phase[2].taps;
  // [groups, taps, out, in]
  const Scratch turned(static_cast<size_t>(taps * out * w.channels) * 2);
  uint16_t* to = halves(turned);
  for (int64_t g = 0; g < c.groups; ++g)
    for (int64_t i = 0; i < taps; ++i) {
      const int64_t kx = phase[2].turned(i % phase[2].taps);
      const int64_t ky = phase[1].turned(i / phase[2].taps % phase[1].taps);
      const int64_t kz = phase[0].turned(i / phase[2].taps / phase[1].taps);
      const int64_t tap = (kz * w.kernel[1] + ky) * w.kernel[2] + kx;
      for (int64_t o = 0; o < out; ++o, to += in)
        std::memcpy(to, weight + ((g * out + o) * numbers_in(w.kernel) + tap) * in,
                    static_cast<size_t>(in) * 2);
    }
  Window v{};
  v.images = w.images, v.channels = c.out_channels;
  Places at = Places::dense(x, w.channels, in, w.in);
  for (int d = 0; d < 3; ++d) {
    v.in[d] = w.out[d], v.out[d] = phase[d].pixels, v.kernel[d] = phase[d].taps;
    v.stride[d] = 1, v.pad[d] = phase[d].pad, v.dilation[d] = phase[d].dilation;
    at.to += phase[d].first * at.step[d];
    at.step[d] *= w.stride[d];
  }
  windows_times(v, c.groups, y, {halves(turned), in, 1, taps * out * in, in}, nullptr, at);
}

}  // namespace

bool conv_tiles_pay(const Convolution& c, Pass pass) {
  if (c.dtype != DType::BFloat16 || !tiles()) return false;
  const Window w = of_group(c.window, c.groups, 0);
  const int64_t in = w.count, out = c.out_channels / c.groups, taps = numbers_in(w.kernel);
  const double work =
      static_cast<double>(w.rows() * taps) * static_cast<double>(in * c.out_channels);
  double cycles = 3000;
  if (pass == Pass::Forward) {
    cycles += window_cycles(w, c.groups, out);
  } else if (pass == Pass::Input) {
    // Phases are of equal size, nearly.
    Window v = w;
    v.channels = c.out_channels, v.count = out;
    double phases = 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t step = std::min(w.stride[d], w.kernel[d]);
      phases *= static_cast<double>(step);
      v.in[d] = w.out[d], v.out[d] = blocks(w.in[d], w.stride[d]);
      v.kernel[d] = blocks(w.kernel[d], step), v.stride[d] = 1;
    }
    cycles += phases * window_cycles(v, c.groups, in) +
              static_cast<double>(taps * c.out_channels) * (10 + static_cast<double>(in) / 16);
  } else {
    const BandCuts cuts(w);
    const auto rows = static_cast<double>(up(w.rows(), kTileTerms));
    const auto cols = static_cast<double>(up(cuts.terms(0), kTileSide) * cuts.count());
    const auto outs = static_cast<double>(up(out, kTileSide));
    cycles += static_cast<double>(c.groups) *
              (rows * cols * outs / tile_speed(out) + rows * cols * (1.0 / 16 + 1.0 / 8) +
               rows * static_cast<double>(w.bands() * 6) +
               static_cast<double>(cuts.count()) * rows * outs / 8 + cols * outs / 8);
  }
  const int64_t columns = pass == Pass::Input ? in : out, summed = pass == Pass::Input ? out : in;
  return cycles < work / else_speed(columns, c.groups, summed);
}

void conv_tiles_forward(const Convolution& c, const void* x, const void* w, const void* bias,
                        void* y) {
  const Window& win = c.window;
  const int64_t out = c.out_channels / c.groups;
  const int64_t taps = numbers_in(win.kernel) * (win.channels / c.groups);
  windows_times(win, c.groups, x, {static_cast<const uint16_t*>(w), 1, taps, out * taps, out}, bias,
                Places::dense(y, c.out_channels, out, win.out));
}

void conv_tiles_input(const Convolution& c, const void* y, const void* w, void* x) {
  const Window& win = c.window;
  std::vector<Phase> phases[3];
  bool reached = true;  // all pixels, by some tap
  for (int d = 0; d < 3; ++d)
    for (int64_t i = 0; i < std::min(win.stride[d], win.in[d]); ++i) {
      phases[d].emplace_back(win, d, i);
      reached = reached && phases[d].back().taps > 0;
    }
  if (!reached)
    std::memset(x, 0, static_cast<size_t>(win.images * numbers_in(win.in) * win.channels) * 2);
  for (const Phase& z : phases[0])
    for (const Phase& py : phases[1])
      for (const Phase& px : phases[2])
        if (z.taps > 0 && py.taps > 0 && px.taps > 0)
          input_phase(c, {z, py, px}, y, static_cast<const uint16_t*>(w), x);
}

// Tasks are the cuts of each group's windows, and parts of all windows where these are few. A task
// sums over its windows: the result's gradient, transposed, times the cut.
void conv_tiles_weight(const Convolution& c, const void* y, const void* x, void* w) {
  const Window& all = c.window;
  const BandCuts cuts(of_group(all, c.groups, 0));
  const int64_t out = c.out_channels / c.groups, taps = cuts.bands * cuts.width;
  const int64_t rows = all.rows(), sum_row = up(taps, kTileSide), numel = c.out_channels * sum_row;
  const int64_t outs = up(out, kTileSide), most_cols = up(cuts.depth(0), kTileSide);
  int64_t block = kSummed;
  while (block > 2 * kTileTerms && block * (cuts.row() + most_cols + outs) * 2 > kNear) block /= 2;
  const int64_t tasks = c.groups * cuts.count(), threads = get_num_threads();
  const int64_t parts =
      threads == 1 || tasks >= 3 * threads
          ? 1
          : std::min(blocks(3 * threads, tasks), std::max<int64_t>(1, rows / block));
  const int64_t part_rows = up(blocks(rows, parts), kTileTerms);
  const Scratch sums_of_parts(parts > 1 ? static_cast<size_t>(parts * numel) * sizeof(float) : 0);
  parallel_for(parts * tasks, 1, [&](int64_t begin, int64_t end) {
    const Scratch windows(static_cast<size_t>(block * cuts.row() + kRoom) * 2);
    const Scratch columns(static_cast<size_t>(block * most_cols) * 2);
    const Scratch gradients(static_cast<size_t>(block * outs) * 2);
    const Scratch sums(static_cast<size_t>(outs * most_cols) * sizeof(float));
    const TilesReady ready(*tiles());
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task / tasks, g = task % tasks / cuts.count(), cut = task % cuts.count();
      const int64_t terms = cuts.terms(cut), cols = up(terms, kTileSide);
      const Window one = of_group(all, c.groups, g);
      const int64_t last = std::min(rows, (part + 1) * part_rows);
      TileBlock t;
      t.a = halves(gradients), t.b = halves(columns), t.c = floats(sums), t.c_row = cols;
      t.rows = outs, t.cols = cols, t.add = false;
      for (int64_t row = part * part_rows; row < last; row += block, t.add = true) {
        check_interrupt();
        const int64_t count = std::min(block, last - row), depth = up(count, kTileTerms);
        copy_cut(one, cuts, cut, x, row, count, halves(windows));
        for (int64_t j = 0; j < cols; j += kTileSide)
          v4::tile_pack_columns({v4::TilePart::Bits, halves(windows) + j, 1, cuts.row(),
                                 std::min<int64_t>(kTileSide, terms - j), count, depth,
                                 halves(columns) + j * depth, 0});
        const uint16_t* const of = static_cast<const uint16_t*>(y) + row * c.out_channels + g * out;
        for (int64_t o = 0; o < out; o += kTileSide)
          v4::tile_pack_rows({v4::TilePart::Bits, of + o, 1, c.out_channels,
                              std::min<int64_t>(kTileSide, out - o), count, depth,
                              halves(gradients) + o * depth, depth});
        t.a_row = depth, t.b_panel = depth * kTileSide, t.terms = depth;
        ready.multiply(t);
      }
      const int64_t col = cuts.first(cut) * cuts.width;
      if (parts == 1) {
        v4::tile_store_bfloat16({out, terms, t.c, cols, nullptr, false,
                                 static_cast<uint16_t*>(w) + g * out * taps + col, taps});
        continue;
      }
      float* const to = floats(sums_of_parts) + part * numel + g * out * sum_row + col;
      if (t.add)
        v4::tile_store_float32({out, terms, t.c, cols, nullptr, false, to, sum_row});
      else  // there were no rows left for it
        for (int64_t o = 0; o < out; ++o) std::fill_n(to + o * sum_row, terms, 0.f);
    }
  });
  if (parts == 1) return;
  parallel_for(
      c.out_channels, std::max<int64_t>(1, (1 << 14) / taps), [&](int64_t begin, int64_t end) {
        float* const sum = floats(sums_of_parts);
        for (int64_t part = 1; part < parts; ++part)
          for (int64_t i = begin * sum_row; i < end * sum_row; ++i) sum[i] += sum[part * numel + i];
        v4::tile_store_bfloat16({end - begin, taps, sum + begin * sum_row, sum_row, nullptr, false,
                                 static_cast<uint16_t*>(w) + begin * taps, taps});
      });
}

}  // namespace tycho::cpu
