// Windows are not copied: a part of the image that stays in a cache is, with zeros around it, where
// there is padding at all; then every tap lies the same way from the place where its window begins,
// and rows of the result are sums over these places (level/conv_rows.cpp).
#include "engine/cpu/conv/conv_direct.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/conv/conv_reach.h"
#include "engine/cpu/conv/conv_rows.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

using Box = std::array<int64_t, 4>;  // of results: images, and the three dimensions

int64_t product_of(const Box& b) { return b[0] * b[1] * b[2] * b[3]; }

struct Direct {
  const Convolution& c;
  const Window& w;
  int type, size, unit_cols;
  bool pairs;        // bfloat16, two numbers a tap; results are rounded box by box
  int type_of_sums;  // of panels and results, of `wide` bytes
  int wide;
  bool narrow;  // half lanes: the panels have few columns
  // Numbers of a window that lie side by side, such pieces in a row of taps, and taps in one.
  int64_t piece, pieces, line;
  int64_t taps, out;  // of a window, channels of the result, per group
  BandsSeen bands;
  bool in_place;  // no tap sees padding: nothing is copied
  int64_t cut;    // taps at a time: panels of them stay in the first-level cache
  Box whole, box, count;
  int64_t extent[3];  // pixels that a box sees

  explicit Direct(const Convolution& conv)
      : c(conv),
        w(conv.window),
        type(c.dtype == DType::Float32    ? 0
             : c.dtype == DType::Float64  ? 1
             : c.dtype == DType::BFloat16 ? 3
                                          : 2),
        size(dtype_size(c.dtype)),
        pairs(type == 3),
        type_of_sums(pairs ? 0 : type),
        wide(pairs ? 4 : size),
        piece(w.channels / c.groups * (joined() ? w.kernel[2] : 1)),
        pieces(joined() ? 1 : w.kernel[2]),
        line(blocks(piece, pairs ? 2 : 1)),
        taps(w.bands() * pieces * line),
        out(c.out_channels / c.groups),
        bands(w),
        whole{w.images, w.out[0], w.out[1], w.out[2]},
        box(whole) {
    narrow = level() == Level::v4 && out * size <= 32 && type < 2;
    int rows;
    if (narrow)
      v3::gemm_unit(type, &rows, &unit_cols);
    else
      level_of::gemm_unit(type_of_sums, &rows, &unit_cols);
    constexpr int64_t kCut = 2048;  // bytes
    cut = blocks(taps, std::max<int64_t>(1, blocks(taps * wide, kCut)));
    in_place = true;
    for (int d = bands.some() ? 2 : 0; d < 3; ++d)
      in_place = in_place && w.pad[d] == 0 && seen(d, w.out[d]) <= w.in[d];
    cut_boxes();
    for (int d = 0; d < 3; ++d) extent[d] = in_place ? w.in[d] : seen(d, box[d + 1]);
  }

  // A line's pixels are one piece: pairs then are whole ones but for the last.
  bool joined() const { return c.groups == 1 && w.dilation[2] == 1; }
  int64_t seen(int d, int64_t results) const {
    return (results - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
  }
  int64_t room() const {
    return box[0] * seen(0, box[1]) * seen(1, box[2]) * seen(2, box[3]) * w.channels * size;
  }
  int64_t parts() const {
    int64_t n = 1;
    for (int d = 0; d < 4; ++d) n *= blocks(whole[d], box[d]);
    return n;
  }
  // Boxes whose pixels stay near, but that have enough windows for each number of the weight; some
  // for every thread.
  void cut_boxes() {
    constexpr int64_t kNear = 256 << 10, kWindows = 192, kFewest = 48, kWork = 1 << 19;
    constexpr Box kLeast = {1, 1, 1, 24};
    constexpr int64_t kWritten = 8;  // multiply-adds that writing a result takes as long as
    const int64_t threads = get_num_threads(), window_work = (taps + kWritten) * c.out_channels;
    const auto too_large = [&] {
      const int64_t windows = product_of(box);
      if (windows > kWindows && room() > kNear) return true;
      return threads > 1 && windows > kFewest && windows * window_work * wide / 4 > kWork &&
             parts() < 4 * threads;
    };
    for (int d = 0; d < 4;)
      if (box[d] <= kLeast[d])
        ++d;
      else if (too_large())
        box[d] = blocks(box[d], 2);
      else
        break;
    for (int d = 0; d < 4; ++d) count[d] = blocks(whole[d], box[d]);
  }

  const char* at(const void* p, int64_t i) const { return static_cast<const char*>(p) + i * size; }
  const char* at_wide(const void* p, int64_t i) const {
    return static_cast<const char*>(p) + i * wide;
  }
  char* at_wide(void* p, int64_t i) const { return static_cast<char*>(p) + i * wide; }
  char* at_result(void* p, int64_t i) const { return static_cast<char*>(p) + i * size; }
  int64_t group_panels() const { return up(out, unit_cols) * taps; }
  int64_t place(int64_t n, int64_t z, int64_t y, int64_t x) const {
    return (((n * extent[0] + z) * extent[1] + y) * extent[2] + x) * w.channels;
  }

  // Panels of every group and cut.
  void pack(const void* weight, void* to) const {
    for (int64_t g = 0; g < c.groups; ++g)
      for (int64_t k = 0; k < taps; k += cut) {
        const void* const from = at_wide(weight, g * out * taps + k);
        void* const panels = at_wide(to, g * group_panels() + up(out, unit_cols) * k);
        const int64_t depth = std::min(cut, taps - k);
        if (narrow)
          v3::gemm_pack_b(type, from, taps, 1, out, depth, panels);
        else
          level_of::gemm_pack_b(type_of_sums, from, taps, int64_t{1}, out, depth, panels);
      }
  }
  // The weight in whole pairs: of an odd number the last one's fellow is 0.
  void pair_up(const void* weight, void* to) const {
    const int64_t count = c.out_channels * taps / line;
    const auto* from = static_cast<const uint16_t*>(weight);
    auto* pair = static_cast<uint16_t*>(to);
    for (int64_t i = 0; i < count; ++i, from += piece, pair += 2 * line) {
      std::memcpy(pair, from, static_cast<size_t>(piece) * 2);
      if (piece % 2) pair[piece] = 0;
    }
  }
  // Where the numbers of a window lie.
  std::vector<int64_t> tap_places() const {
    std::vector<int64_t> places;
    places.reserve(static_cast<size_t>(taps));
    for (int64_t z = 0; z < w.kernel[0]; ++z)
      for (int64_t y = 0; y < w.kernel[1]; ++y)
        for (int64_t x = 0; x < pieces; ++x) {
          const int64_t first = place(0, z * w.dilation[0], y * w.dilation[1], x * w.dilation[2]);
          for (int64_t i = 0; i < piece; i += pairs ? 2 : 1)
            places.push_back(pairs && i + 1 == piece ? ~(first + i) : first + i);
        }
    return places;
  }
  // What a box sees of the images, zeros around them.
  void copy_pixels(const void* x, const Box& begin, const Box& n, char* to) const {
    int64_t from[3], first[3], last[3];  // places [first, last) of a box are inside
    for (int d = 0; d < 3; ++d) {
      from[d] = begin[d + 1] * w.stride[d] - w.pad[d];
      first[d] = std::clamp<int64_t>(-from[d], 0, extent[d]);
      last[d] = std::clamp<int64_t>(w.in[d] - from[d], first[d], extent[d]);
    }
    const size_t pixel = static_cast<size_t>(w.channels * size), left = first[2] * pixel,
                 inside = (last[2] - first[2]) * pixel, all = extent[2] * pixel;
    for (int64_t i = 0; i < n[0]; ++i)
      for (int64_t z = 0; z < extent[0]; ++z)
        for (int64_t y = 0; y < extent[1]; ++y, to += all) {
          if (z < first[0] || z >= last[0] || y < first[1] || y >= last[1] || inside == 0) {
            std::memset(to, 0, all);
            continue;
          }
          const int64_t line = ((begin[0] + i) * w.in[0] + from[0] + z) * w.in[1] + from[1] + y;
          std::memset(to, 0, left);
          std::memcpy(to + left, at(x, (line * w.in[2] + from[2] + first[2]) * w.channels), inside);
          std::memset(to + left + inside, 0, all - left - inside);
        }
  }
};

// Sums of some windows in float32, on their way to bfloat16: where they are taken cut by cut.
struct PairSums {
  static constexpr int64_t kNear = 64 << 10;  // bytes
  const Direct& p;
  bool needed;
  int64_t rows;  // at a time
  Scratch sums;
  std::vector<int64_t> at;

  PairSums(const Direct& direct, int64_t most)
      : p(direct),
        needed(p.pairs && (p.cut < p.taps || p.bands.some())),
        rows(needed ? std::clamp<int64_t>(kNear / (p.out * 4), 24, most) : most),
        sums(static_cast<size_t>(needed ? rows * p.out * 4 : 0)) {
    for (int64_t i = 0; i < rows && needed; ++i) at.push_back(i * p.out);
  }
  // To the places of n windows, `y` those of the group; windows of a line lie a pixel apart.
  void round(const int64_t* to, int64_t n, uint16_t* y) const {
    for (int64_t i = 0, end; i < n; i = end) {
      end = i + 1;
      while (end < n && to[end] - to[end - 1] == p.c.out_channels) ++end;
      const auto* const from = reinterpret_cast<const float*>(sums.data()) + i * p.out;
      const Rounded16 r{end - i, p.out, from, p.out, nullptr, false, y + to[i], p.c.out_channels};
      level_of::gemm16_round(false, &r);
    }
  }
};

// The windows of a box in an order in which those that see the same rows of taps follow each other.
struct BoxWindows {
  const Direct& p;
  int64_t count;
  std::vector<int64_t> from, to;

  explicit BoxWindows(const Direct& direct)
      : p(direct), from(static_cast<size_t>(product_of(p.box))), to(from.size()) {}

  // Lines [first, returned) of the box see the same.
  int64_t take(const Box& begin, const Box& n, int64_t first) {
    const Window& w = p.w;
    const int64_t step = w.stride[2] * w.channels;
    int64_t line = first;
    count = 0;
    for (; line < n[1] * n[2]; ++line) {
      const int64_t z = line / n[2], y = line % n[2];
      if (!p.bands.same(begin[1] + first / n[2], begin[2] + first % n[2], begin[1] + z,
                        begin[2] + y))
        break;
      for (int64_t i = 0; i < n[0]; ++i) {
        const int64_t row = ((begin[0] + i) * w.out[0] + begin[1] + z) * w.out[1] + begin[2] + y;
        const int64_t result = (row * w.out[2] + begin[3]) * p.c.out_channels;
        const int64_t place =
            p.in_place ? p.place(begin[0] + i, (begin[1] + z) * w.stride[0] - w.pad[0],
                                 (begin[2] + y) * w.stride[1] - w.pad[1], begin[3] * w.stride[2])
                       : p.place(i, z * w.stride[0], y * w.stride[1], 0);
        int64_t *const f = from.data() + count, *const t = to.data() + count;
        for (int64_t x = 0; x < n[3]; ++x)
          f[x] = place + x * step, t[x] = result + x * p.c.out_channels;
        count += n[3];
      }
    }
    return line;
  }
};

}  // namespace

void conv_direct(const Convolution& c, const void* x, const void* w, const void* bias, void* y) {
  const Direct p(c);
  const Scratch panels(static_cast<size_t>(p.group_panels() * c.groups * p.wide));
  const bool odd = p.pairs && p.piece % 2;
  const Scratch whole(odd ? static_cast<size_t>(c.out_channels * p.taps * p.wide) : 0);
  if (odd) p.pair_up(w, whole.data());
  p.pack(odd ? whole.data() : w, panels.data());
  const std::vector<int64_t> places = p.tap_places();
  const int64_t band = p.pieces * p.line;
  parallel_for(p.parts(), 1, [&](int64_t first, int64_t last) {
    const Scratch pixels(p.in_place ? 0 : static_cast<size_t>(p.room()));
    BoxWindows windows(p);
    constexpr int64_t kRows = 192;  // whose results stay near while cuts are added
    const PairSums sums(p, kRows);
    const int type = p.pairs && !sums.needed ? 4 : p.type;
    for (int64_t part = first; part < last; ++part) {
      Box begin, n;
      for (int64_t d = 3, rest = part; d >= 0; rest /= p.count[d--]) {
        begin[d] = rest % p.count[d] * p.box[d];
        n[d] = std::min(p.box[d], p.whole[d] - begin[d]);
      }
      if (!p.in_place) p.copy_pixels(x, begin, n, pixels.data());
      const void* const from = p.in_place ? x : pixels.data();
      for (int64_t line = 0, next; line < n[1] * n[2]; line = next) {
        next = windows.take(begin, n, line);
        for (int64_t row = 0; row < windows.count; row += sums.rows)
          for (int64_t g = 0; g < c.groups; ++g) {
            ConvRows r{};
            r.windows = std::min(sums.rows, windows.count - row), r.columns = p.out;
            r.from = windows.from.data() + row, r.to = windows.to.data() + row;
            const int64_t* const places_of_results = r.to;
            if (sums.needed) r.to = sums.at.data();
            r.begin = bias ? 2 : 0;
            const void* const at = p.at(from, g * (c.window.channels / c.groups));
            const void* const bias_g = bias ? p.at_wide(bias, g * p.out) : nullptr;
            const auto sum = [&](int64_t cut, int64_t a, int64_t b) {  // taps [a, b) of a cut
              r.taps = b - a, r.tap = places.data() + a;
              const void* const by =
                  p.at_wide(panels.data(), g * p.group_panels() + up(p.out, p.unit_cols) * cut +
                                               (a - cut) * p.unit_cols);
              void* const to = sums.needed ? sums.sums.data() : p.at_result(y, g * p.out);
              if (p.narrow)
                v3::conv_rows(type, &r, at, by, bias_g, to);
              else
                level_of::conv_rows(type, static_cast<const ConvRows*>(&r), at, by, bias_g, to);
              r.begin = 1;
            };
            for (int64_t k = 0; k < p.taps; k += p.cut) {
              r.depth = std::min(p.cut, p.taps - k);
              p.bands.each(begin[1] + line / n[2], begin[2] + line % n[2],
                           [&](int64_t a, int64_t b) {
                             a = std::max(a * band, k), b = std::min(b * band, k + r.depth);
                             if (a < b) sum(k, a, b);
                           });
            }
            if (r.begin != 1) sum(0, 0, 0);  // windows that see nothing
            if (sums.needed)
              sums.round(places_of_results, r.windows, static_cast<uint16_t*>(y) + g * p.out);
          }
      }
    }
  });
}

}  // namespace tycho::cpu
