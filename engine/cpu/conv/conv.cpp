// Convolutions as products of matrices. Forward: see conv_direct.h. The input's gradient: the
// result's gradient times the weight gives windows, which are added onto the pixels they cover. The
// weight's gradient: the result's gradient, transposed, times windows.
#include "engine/cpu/conv/conv.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/conv/conv_depthwise.h"
#include "engine/cpu/conv/conv_direct.h"
#include "engine/cpu/conv/conv_reach.h"
#include "engine/cpu/conv/conv_sums.h"
#include "engine/cpu/elementwise/transpose.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

// What the three loops share: sizes in elements, and how they are cut into blocks.
struct Plan {
  const Convolution& c;
  int type, size, unit_rows, unit_cols;
  bool narrow;        // half lanes: the panels have few columns
  int64_t taps;       // of one group: kernel * channels of the group
  int64_t width;      // of a band
  int64_t bands;      // at a time
  int64_t out;        // channels of the result, per group
  int64_t ld, block;  // of a block of windows: row length, rows
  bool plain;         // windows are single pixels in order: no copies needed

  // `columns` of the panels; at most `most_rows` windows, or `bytes` of them, at a time.
  Plan(const Convolution& conv, int64_t columns, int64_t most_rows, int64_t bytes) : c(conv) {
    type = c.dtype == DType::Float32 ? 0 : c.dtype == DType::Float64 ? 1 : 2;
    size = dtype_size(c.dtype);
    narrow = level() == Level::v4 && columns * size <= 32 && type < 2;
    if (narrow)
      v3::gemm_unit(type, &unit_rows, &unit_cols);
    else
      level_of::gemm_unit(type, &unit_rows, &unit_cols);
    const Window& w = c.window;
    width = w.kernel[2] * (w.channels / c.groups);
    taps = w.bands() * width;
    out = c.out_channels / c.groups;
    bands = std::clamp<int64_t>(2048 / size / std::max<int64_t>(1, width), 1, w.bands());
    ld = bands * width + 128 / size;  // room for loose copies
    block = std::clamp<int64_t>(bytes / (ld * size), 16, most_rows);
    block = up(std::min(block, std::max<int64_t>(1, w.rows())), unit_rows);
    plain = true;
    for (int d = 0; d < 3; ++d)
      plain = plain && w.kernel[d] == 1 && w.stride[d] == 1 && w.pad[d] == 0 &&
              w.in[d] == w.out[d];  // output_padding adds pixels that no window reaches
  }

  Window group(int64_t g) const {
    Window w = c.window;
    w.count = w.channels / c.groups;
    w.first = g * w.count;
    return w;
  }
  const char* at(const void* p, int64_t i) const { return static_cast<const char*>(p) + i * size; }
  char* at(void* p, int64_t i) const { return static_cast<char*>(p) + i * size; }
  size_t window_bytes() const { return static_cast<size_t>(block * ld * size + 128); }
  // Rows per chunk of a parallel region: whole blocks, some 20 us of work or more.
  int64_t grain() const {
    const int64_t work = std::max<int64_t>(1, taps * c.out_channels);
    return up(std::max<int64_t>(block, (int64_t{1} << 20) / work), block);
  }
  // All of the weight in panels: for each group and cut of bands, `k` by `n` panels.
  int64_t packed_group() const { return up(out, unit_cols) * taps; }

  // Calls f(first band, last band, offset of its first tap).
  template <class F>
  void each_cut(F&& f) const {
    const int64_t all = c.window.bands();
    for (int64_t b = 0; b < all; b += bands) f(b, std::min(all, b + bands), b * width);
  }
};

// Columns of b (cs along k, rs from column to column) into panels.
void pack_panels(const Plan& p, const void* b, int64_t rs, int64_t cs, int64_t cols, int64_t k,
                 void* to) {
  if (p.narrow)
    v3::gemm_pack_b(p.type, b, rs, cs, cols, k, to);
  else
    level_of::gemm_pack_b(p.type, b, rs, cs, cols, k, to);
}

// Rows of a result that are written from left to right meanwhile: long columns would write a little to
// each of many lines, again and again. Only where the panels stay near.
constexpr int64_t kNearRows = 24, kNearBytes = 256 << 10;

// rows of c = a (row i at a + i * rs, contiguous) times packed panels, which are `depth` deep.
void times_panels(const Plan& p, int64_t rows, int64_t n, int64_t k, const void* a, int64_t rs,
                  const void* panels, int64_t depth, void* c, int64_t ldc) {
  if (rows > kNearRows && rows * n * p.size > kNearBytes && n * k * p.size <= kNearBytes) {
    for (int64_t i = 0; i < rows; i += kNearRows)
      times_panels(p, std::min(kNearRows, rows - i), n, k, p.at(a, i * rs), rs, panels, depth,
                   p.at(c, i * ldc), ldc);
    return;
  }
  for (int64_t j = 0; j < n; j += p.unit_cols) {
    const int64_t cols = std::min<int64_t>(p.unit_cols, n - j), ldb = p.unit_cols;
    const void *b = p.at(panels, j * depth), *none = nullptr;
    void* to = p.at(c, j);
    if (p.narrow)
      v3::gemm_direct(p.type, rows, cols, k, a, rs, 1, b, ldb, to, ldc, 0, none, true);
    else
      level_of::gemm_direct(p.type, rows, cols, k, a, rs, int64_t{1}, b, ldb, to, ldc, 0, none,
                            true);
  }
}

}  // namespace

void conv_forward(const Convolution& c, const void* x, const void* w, const void* bias, void* y) {
  if (is_depthwise(c)) return depthwise_sums(c, false, x, w, bias, y);
  conv_direct(c, x, w, bias, y);
}

namespace {

// The gradient of the input as a convolution of the result's, with the weight turned round.
Convolution turned_round(const Convolution& c) {
  Convolution turned = c;
  turned.out_channels = c.window.channels;
  Window& v = turned.window;
  v.channels = c.out_channels;
  for (int d = 0; d < 3; ++d) {
    std::swap(v.in[d], v.out[d]);
    v.pad[d] = (v.kernel[d] - 1) * v.dilation[d] - v.pad[d];
  }
  return turned;
}

// Whether it is taken so: windows are copied then, and sums stay in registers, where else sums over
// one pixel's channels are added to memory. Estimated cycles of a tap, half a cycle for each number
// that is copied or added; measured on 11 shapes of two types, lanes of 256 and 512 bits.
bool gradient_as_forward(const Convolution& c) {
  constexpr int64_t kManyWindows = 128;  // the weight is copied twice
  constexpr double kCopied = 0.5, kClear = 0.95;
  const Window& w = c.window;
  if (c.groups != 1 || w.rows() < kManyWindows || taps_of(c) == 1) return false;
  for (int d = 0; d < 3; ++d)
    if (w.stride[d] != 1 || w.pad[d] > (w.kernel[d] - 1) * w.dilation[d]) return false;
  const Convolution turned = turned_round(c);
  const Plan p(turned, w.channels, 192, 196 << 10);
  const double each = p.size / 64.0;  // cycles of a multiply-add
  const auto in = static_cast<double>(w.channels), out = static_cast<double>(c.out_channels);
  const auto columns = static_cast<double>(up(w.channels, p.unit_cols));
  return (columns * out * each + kCopied * out) * BandsSeen(turned.window).share() <
         kClear * (in * out * each + kCopied * in);
}

void backward_as_forward(const Convolution& c, const void* y, const void* w, void* x) {
  const int64_t taps = taps_of(c), in = c.window.channels, row = c.out_channels;
  const int size = dtype_size(c.dtype);
  const Scratch columns(static_cast<size_t>(taps * in * row * size)),
      round(static_cast<size_t>(taps * in * row * size));
  level_of::transpose(size, int64_t{1}, row, taps * in, w, static_cast<void*>(columns.data()));
  parallel_for(taps * in, std::max<int64_t>(1, (1 << 14) / row), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      std::memcpy(round.data() + (k % in * taps + taps - 1 - k / in) * row * size,
                  columns.data() + k * row * size, static_cast<size_t>(row * size));
  });
  conv_forward(turned_round(c), y, round.data(), nullptr, x);
}

}  // namespace

constexpr int64_t kSharedWork = 1 << 22;          // multiply-adds of an image
constexpr size_t kMostShared = size_t{64} << 20;  // bytes

void conv_backward_input(const Convolution& c, const void* y, const void* w, void* x) {
  if (is_depthwise(c)) return depthwise_sums(c, true, y, w, nullptr, x);
  if (gradient_as_forward(c)) return backward_as_forward(c, y, w, x);
  const Plan p(c, 1 << 20, 192, 196 << 10);
  const Window& win = c.window;
  const int64_t image_rows = win.images ? win.rows() / win.images : 0;
  const int64_t image = win.in[0] * win.in[1] * win.in[2] * win.channels;
  // Panels of w as [out, taps]: for each group and cut, `out` by taps of the cut.
  const auto cut_cols = [&](int64_t from, int64_t to) { return (to - from) * p.width; };
  int64_t group_size = 0;
  p.each_cut([&](int64_t from, int64_t to, int64_t) {
    group_size += up(cut_cols(from, to), p.unit_cols) * p.out;
  });
  const Scratch panels(static_cast<size_t>(group_size * c.groups * p.size));
  int64_t place = 0;
  for (int64_t g = 0; g < c.groups; ++g)
    p.each_cut([&](int64_t from, int64_t to, int64_t tap) {
      pack_panels(p, p.at(w, g * p.out * p.taps + tap), 1, p.taps, cut_cols(from, to), p.out,
                  p.at(panels.data(), place));
      place += up(cut_cols(from, to), p.unit_cols) * p.out;
    });
  // f(windows of a group, bands, columns, their panels): what one row of the result's gradient leads to.
  const auto each_part = [&](auto f) {
    int64_t at = 0;
    for (int64_t g = 0; g < c.groups; ++g)
      p.each_cut([&](int64_t from, int64_t to, int64_t) {
        f(g, from, to, cut_cols(from, to), p.at(panels.data(), at));
        at += up(cut_cols(from, to), p.unit_cols) * p.out;
      });
  };
  const auto multiply = [&](int64_t row, int64_t rows, int64_t g, int64_t cols, const void* panel,
                            void* to, int64_t ld) {
    times_panels(p, rows, cols, p.out, p.at(y, row * c.out_channels + g * p.out), c.out_channels,
                 panel, p.out, to, ld);
  };
  const auto add = [&](int64_t row, int64_t rows, int64_t g, int64_t from, int64_t to,
                       const void* sums) {
    const Window group = p.group(g);
    level_of::add_window_rows(p.type, &group, sums, p.ld, row, row + rows, from, to, x);
  };
  const int64_t each_row = std::max<int64_t>(1, p.taps * c.out_channels),
                work = std::max<int64_t>(1, image_rows * each_row);
  if (p.plain) {
    const int64_t grain = std::max<int64_t>(p.block, (int64_t{1} << 20) / each_row);
    return parallel_for(win.rows(), up(grain, p.block), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row += p.block)
        each_part([&](int64_t g, int64_t, int64_t, int64_t cols, const void* panel) {
          multiply(row, std::min(p.block, end - row), g, cols, panel,
                   p.at(x, row * win.channels + p.group(g).first), win.channels);
        });
    });
  }
  // Of fewer images than threads, blocks of rows are multiplied beside each other, and added in order.
  const int64_t threads = get_num_threads(),
                parts = c.groups * ((win.bands() + p.bands - 1) / p.bands);
  if (win.images < threads && work >= kSharedWork && image_rows > p.unit_rows &&
      p.window_bytes() * static_cast<size_t>(parts * threads) <= kMostShared) {
    const Scratch sums(p.window_bytes() * static_cast<size_t>(parts * threads));
    // Sums of several cuts are added in the order of blocks, which then must not depend on the threads.
    int64_t block = p.block;
    if (parts == c.groups)
      block = std::min(block, up((image_rows + threads - 1) / threads, p.unit_rows));
    std::memset(x, 0, win.images * image * p.size);
    for (int64_t n = 0; n < win.images; ++n)
      for (int64_t first = 0; first < image_rows; first += threads * block) {
        const int64_t blocks = std::min(threads, (image_rows - first + block - 1) / block);
        const auto each = [&](int64_t k, auto f) {
          const int64_t at = first + k * block, rows = std::min(block, image_rows - at);
          char* room = sums.data() + p.window_bytes() * static_cast<size_t>(k * parts);
          each_part([&](int64_t g, int64_t from, int64_t to, int64_t cols, const void* panel) {
            f(n * image_rows + at, rows, g, from, to, cols, panel, room);
            room += p.window_bytes();
          });
        };
        parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k)
            each(k, [&](int64_t row, int64_t rows, int64_t g, int64_t, int64_t, int64_t cols,
                        const void* panel,
                        char* room) { multiply(row, rows, g, cols, panel, room, p.ld); });
        });
        for (int64_t k = 0; k < blocks; ++k)
          each(k, [&](int64_t row, int64_t rows, int64_t g, int64_t from, int64_t to, int64_t,
                      const void*, char* room) { add(row, rows, g, from, to, room); });
      }
    return;
  }
  parallel_for(
      win.images, std::max<int64_t>(1, (int64_t{1} << 20) / work), [&](int64_t begin, int64_t end) {
        const Scratch sums(p.window_bytes());
        for (int64_t n = begin; n < end; ++n) {
          std::memset(p.at(x, n * image), 0, image * p.size);  // it stays near
          for (int64_t row = n * image_rows; row < (n + 1) * image_rows; row += p.block) {
            const int64_t rows = std::min(p.block, (n + 1) * image_rows - row);
            each_part([&](int64_t g, int64_t from, int64_t to, int64_t cols, const void* panel) {
              multiply(row, rows, g, cols, panel, sums.data(), p.ld);
              add(row, rows, g, from, to, sums.data());
            });
          }
        }
      });
}

namespace {

// Sums of the weight's gradient that lie [taps of a cut, out] while they are taken: few taps then are
// the rows of a register block, not the columns, of which it would leave lanes empty.
struct Turned {
  const Plan& p;
  int64_t cols;
  Scratch sums, row;

  static bool pays(const Plan& p, int64_t cols) {
    const auto blocks = [&](int64_t rows, int64_t columns) {
      return (rows + p.unit_rows - 1) / p.unit_rows * ((columns + p.unit_cols - 1) / p.unit_cols);
    };
    return p.out > 1 && (cols == 1 || blocks(cols, p.out) < blocks(p.out, cols));
  }
  Turned(const Plan& plan, int64_t columns)
      : p(plan),
        cols(columns),
        sums(static_cast<size_t>(cols * p.out * p.size)),
        row(static_cast<size_t>(cols == 1 ? p.out * p.size : 0)) {
    std::memset(sums.data(), 0, cols * p.out * p.size);
  }
  // Adds k rows of windows, `ld` apart, times those of the result's gradient.
  void add(int64_t k, const void* windows, int64_t ld, const void* y) {
    if (cols == 1) {
      level_of::gemv_cols(p.type, p.out, k, y, p.c.out_channels, windows, ld,
                          static_cast<void*>(row.data()), true);
      return add_up(p.c, sums.data(), row.data(), p.out);
    }
    level_of::gemm_direct(p.type, cols, p.out, k, windows, int64_t{1}, ld, y, p.c.out_channels,
                          static_cast<void*>(sums.data()), p.out, 1,
                          static_cast<const void*>(nullptr), false);
  }
  // Adds what was summed to `to`, [out, taps].
  template <class T>
  void finish(T* to) const {
    const T* const from = reinterpret_cast<const T*>(sums.data());
    for (int64_t o = 0; o < p.out; ++o)
      for (int64_t t = 0; t < cols; ++t) to[o * p.taps + t] += from[t * p.out + o];
  }
  void finish(void* to) const {
    if (p.type == 0)
      finish(static_cast<float*>(to));
    else if (p.type == 1)
      finish(static_cast<double*>(to));
    else
      finish(static_cast<uint64_t*>(to));
  }
};

}  // namespace

void conv_backward_weight(const Convolution& c, const void* y, const void* x, void* w) {
  if (is_depthwise(c)) return depthwise_backward_weight(c, y, x, w);
  const Plan p(c, 1 << 20, 256, 384 << 10);
  const Window& win = c.window;
  const int64_t pixels = win.images * win.in[0] * win.in[1] * win.in[2];
  const void* x_end = p.at(x, pixels * win.channels);
  const int64_t rows = win.rows(), numel = c.out_channels * p.taps;
  std::memset(w, 0, numel * p.size);
  // Every thread sums a part of the rows into a weight of its own; the parts are added in order.
  const int64_t work = rows * p.taps * p.out * c.groups;
  const int64_t parts =
      work < (1 << 21) ? 1 : std::min<int64_t>(get_num_threads(), (rows + p.block - 1) / p.block);
  const Scratch others(static_cast<size_t>((std::max<int64_t>(parts, 1) - 1) * numel * p.size));
  std::memset(others.data(), 0, (std::max<int64_t>(parts, 1) - 1) * numel * p.size);
  // Turns of at most some 50 ms, so that an interrupt is seen.
  const int64_t turns = 1 + work / ((int64_t{1} << 31) * std::max<int64_t>(parts, 1));
  const int64_t each =
      up((rows + turns * parts - 1) / std::max<int64_t>(1, turns * parts), p.block);
  for (int64_t turn = 0; turn * parts * each < rows; ++turn) {
    check_interrupt();
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      const Scratch scratch(p.plain ? 0 : p.window_bytes());
      for (int64_t part = first; part < last; ++part) {
        const int64_t begin = (turn * parts + part) * each, end = std::min(rows, begin + each);
        void* to_w = part ? p.at(others.data(), (part - 1) * numel) : static_cast<char*>(w);
        for (int64_t g = 0; g < c.groups; ++g) {
          const Window group = p.group(g);
          p.each_cut([&](int64_t from, int64_t to, int64_t tap) {
            const int64_t cols = (to - from) * p.width;
            void* to_cut = p.at(to_w, g * p.out * p.taps + tap);
            std::optional<Turned> turned;
            if (Turned::pays(p, cols)) turned.emplace(p, cols);
            for (int64_t row = begin; row < end; row += p.block) {
              const int64_t k = std::min(p.block, end - row);
              const void* b = scratch.data();
              int64_t ldb = p.ld;
              if (p.plain) {
                b = p.at(x, row * win.channels + group.first);
                ldb = win.channels;
              } else {
                level_of::window_rows(p.type, &group, x, x_end, row, row + k, from, to,
                                      static_cast<void*>(scratch.data()), p.ld);
              }
              const void* const gy = p.at(y, row * c.out_channels + g * p.out);
              if (turned)
                turned->add(k, b, ldb, gy);
              else
                level_of::gemm_direct(p.type, p.out, cols, k, gy, int64_t{1}, c.out_channels, b,
                                      ldb, to_cut, p.taps, 1, static_cast<const void*>(nullptr),
                                      false);
            }
            if (turned) turned->finish(to_cut);
          });
        }
      }
    });
  }
  for (int64_t part = 1; part < parts; ++part)
    add_up(c, w, p.at(others.data(), (part - 1) * numel), numel);
}

}  // namespace tycho::cpu
