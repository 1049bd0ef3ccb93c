// Convolutions with few channels in the result: weights arranged, groups of images in parallel.
#include "engine/cpu/conv/conv_few.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

FewChannels describe(const Convolution& c, bool gradient) {
  const Window& w = c.window;
  FewChannels p{};
  p.f64 = c.dtype == DType::Float64;
  p.images = w.images;
  p.groups = c.groups;
  p.channels = (gradient ? c.out_channels : w.channels) / c.groups;
  p.out_channels = (gradient ? w.channels : c.out_channels) / c.groups;
  for (int d = 0; d < 3; ++d) {
    p.in[d] = gradient ? w.out[d] : w.in[d];
    p.out[d] = gradient ? w.in[d] : w.out[d];
    p.kernel[d] = w.kernel[d];
    p.stride[d] = w.stride[d];
    p.dilation[d] = w.dilation[d];
    p.pad[d] = gradient ? (w.kernel[d] - 1) * w.dilation[d] - w.pad[d] : w.pad[d];
  }
  p.phase = level_of::conv_few_phase(static_cast<const FewChannels*>(&p));
  return p;
}

int64_t taps_of(const FewChannels& p) { return p.kernel[0] * p.kernel[1] * p.kernel[2]; }
size_t room_of(const FewChannels& p) {
  return static_cast<size_t>(p.channels * p.in[0] * p.in[1] * p.line() * p.size());
}

constexpr size_t kNearRoom = size_t{1} << 20;  // of an image's planes that stay in a cache

// Images whose planes do not, or too few of them for all threads, are cut into parts of the result:
// lines of a plane, or pieces of a line.
struct Parts {
  const FewChannels& p;
  int d;                // the dimension that is cut
  int64_t count, each;  // parts of an image, results in one

  explicit Parts(const FewChannels& few) : p(few), d(few.out[1] > 1 ? 1 : 2) {
    constexpr int64_t kLeast[] = {0, 4, 64}, kWork = 1 << 18;
    const bool flat = p.in[0] == 1 && p.out[0] == 1 && p.kernel[0] == 1 &&
                      (d == 1 || (p.in[1] == 1 && p.kernel[1] == 1));
    const int64_t threads = get_num_threads(), units = p.images * p.groups;
    const int64_t work = p.channels * p.out_channels * taps_of(p) * p.out[1] * p.out[2];
    count = static_cast<int64_t>(room_of(p) / kNearRoom) + 1;
    const int64_t want =
        std::min(2 * threads, units * work / kWork);  // parts of some 3 us and more
    if (threads > 1 && units < want) count = std::max(count, (want + units - 1) / units);
    count = flat ? std::clamp<int64_t>(count, 1, std::max<int64_t>(1, p.out[d] / kLeast[d])) : 1;
    each = (p.out[d] + count - 1) / count;
    const int64_t twice = (p.kernel[d] - 1) * p.dilation[d];  // lines that are read for two parts
    while (count > 1 && each > std::max(kLeast[d], 2 * twice) && room() > kNearRoom) --each;
    count = (p.out[d] + each - 1) / each;
  }
  // Of a part's planes.
  size_t room() const {
    if (count == 1) return room_of(p);
    const int64_t reach = (each - 1) * p.stride[d] + (p.kernel[d] - 1) * p.dilation[d] + 1;
    return room_of(p) / static_cast<size_t>(p.in[d]) * static_cast<size_t>(reach);
  }
  // Part i, counted through all images: what it reads, and where its results begin.
  FewChannels part(int64_t i, Pixels* x, int64_t* y) const {
    FewChannels q = p;
    const int64_t image = i / count, from = i % count * each, to = std::min(p.out[d], from + each);
    const int64_t begin = from * p.stride[d] - p.pad[d];
    const int64_t end = (to - 1) * p.stride[d] - p.pad[d] + (p.kernel[d] - 1) * p.dilation[d] + 1;
    const int64_t first = std::clamp<int64_t>(begin, 0, p.in[d]);
    q.images = 1;
    q.out[d] = to - from;
    q.in[d] = std::clamp<int64_t>(end, first, p.in[d]) - first;
    q.pad[d] = first - begin;
    q.phase = level_of::conv_few_phase(static_cast<const FewChannels*>(&q));
    const int64_t at = image * x->image + first * (d == 1 ? x->line_step(p.in[2]) : x->pixel);
    x->data = static_cast<const char*>(x->data) + at * p.size();
    *y = (image * p.out[1] * p.out[2] + from * (d == 1 ? p.out[2] : 1)) * p.groups * p.out_channels;
    return q;
  }
};

// The weight as the kernels read it: `at(group, channel, result's channel, kz, ky, kx)` is where an
// element lies.
template <class T, class At>
void arrange(const FewChannels& p, const T* w, At&& at, T* to) {
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t kz = 0; kz < p.kernel[0]; ++kz)
        for (int64_t ky = 0; ky < p.kernel[1]; ++ky)
          for (int64_t kx = 0; kx < p.kernel[2]; ++kx)
            for (int64_t o = 0; o < p.out_channels; ++o) *to++ = w[at(g, c, o, kz, ky, kx)];
}

constexpr int64_t kShortLine = 2, kBlocksOfImages = 2;  // lanes of a line, least blocks
constexpr size_t kImagesRoom = size_t{1} << 19;         // of a block

// Whether there are images enough for lanes over them.
bool have_images(const FewChannels& p) {
  const int64_t lane = p.f64 ? 0 : level_of::conv_few_block();
  if (lane == 0 || p.groups != 1 || p.out_channels < FewChannels::kLeastOfImages) return false;
  return p.images >= kBlocksOfImages * lane &&
         static_cast<size_t>(p.channels * p.pixels_in() * lane * p.size()) <= kImagesRoom;
}
// Images without gaps, channels first or last.
bool without_gaps(const Pixels& x, int64_t pixels, int64_t channels) {
  if (x.line) return false;
  return (x.pixel == 1 && (channels == 1 || x.channel == pixels)) ||
         (x.channel == 1 && x.pixel == channels);
}

template <class At>
void run(const FewChannels& p, const Pixels& x, const void* given, At&& at, const void* bias,
         void* y) {
  const int64_t weights = p.groups * p.channels * taps_of(p) * p.out_channels;
  const Scratch arranged(static_cast<size_t>(weights * p.size()));
  if (p.f64)
    arrange(p, static_cast<const double*>(given), at, reinterpret_cast<double*>(arranged.data()));
  else
    arrange(p, static_cast<const float*>(given), at, reinterpret_cast<float*>(arranged.data()));
  const void* const w = arranged.data();
  const int64_t work = p.channels * p.out_channels * taps_of(p) * p.out[0] * p.out[1] * p.out[2];
  const int64_t grain = std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, work));
  int64_t first = 0;  // images that are done
  const int64_t lane = level_of::conv_few_block();
  if (p.out[2] <= kShortLine * lane && have_images(p) &&
      without_gaps(x, p.pixels_in(), p.channels)) {
    const int64_t blocks = p.images / lane;
    parallel_for(blocks, (grain + lane - 1) / lane, [&](int64_t begin, int64_t end) {
      const int64_t numbers = p.channels * p.pixels_in() + p.out[2] * p.out_channels;
      const Scratch scratch(static_cast<size_t>(numbers * lane * p.size()));
      level_of::conv_few_images(&p, &x, static_cast<const float*>(w),
                                static_cast<const float*>(bias), static_cast<float*>(y), begin, end,
                                reinterpret_cast<float*>(scratch.data()));
    });
    first = blocks * lane;
    if (first == p.images) return;
  }
  if (const Parts parts(p); first == 0 && parts.count > 1)
    return parallel_for(p.images * parts.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Pixels from = x;
        int64_t to;
        const FewChannels q = parts.part(i, &from, &to);
        const Scratch scratch(room_of(q));
        level_of::conv_few(&q, &from, w, bias,
                           static_cast<void*>(static_cast<char*>(y) + to * p.size()), int64_t{0},
                           q.groups, static_cast<void*>(scratch.data()));
      }
    });
  parallel_for(p.images * p.groups - first, grain, [&](int64_t begin, int64_t end) {
    begin += first, end += first;
    const Scratch scratch(room_of(p));
    level_of::conv_few(&p, &x, w, bias, y, begin, end, static_cast<void*>(scratch.data()));
  });
}

}  // namespace

namespace {

// Result channels up to which two or three taps are taken so, too, where lines are long: else products, for
// which windows (and their gradient's sums) are copied. Measured on 17 shapes.
int64_t most_of_few_taps(const FewChannels& p, bool gradient) {
  const bool v4 = level() == Level::v4;
  if (p.groups > 1 || level() == Level::x86_64) return 0;
  if (gradient) return v4 && p.f64 ? FewChannels::kMost : 6;
  return p.f64 ? (v4 ? 3 : 0) : v4 ? FewChannels::kMost : 6;
}

}  // namespace

bool few_result_channels(const Convolution& c, bool gradient) {
  const Window& w = c.window;
  if ((c.dtype != DType::Float32 && c.dtype != DType::Float64) || w.images < 1 || c.groups < 1)
    return false;
  for (int d = 0; d < 3; ++d) {
    if (w.in[d] < 1 || w.out[d] < 1) return false;
    if (gradient && (w.stride[d] != 1 || w.pad[d] > (w.kernel[d] - 1) * w.dilation[d]))
      return false;
  }
  // A gradient whose kernel is longer than what it came from: nearly all of its sums would be of zeros.
  constexpr int64_t kMostZeros = 3;
  if (gradient && w.in[0] * w.in[1] * w.in[2] > kMostZeros * w.out[0] * w.out[1] * w.out[2])
    return false;
  const FewChannels p = describe(c, gradient);
  if (p.out_channels < 1 || p.out_channels > FewChannels::kMost || p.channels < 1) return false;
  // Channels by themselves fill lanes where there are enough of them.
  const int64_t many_groups = p.f64 ? 4 : 8;
  if (p.channels == 1 && p.out_channels == 1 && p.groups >= many_groups) return false;
  // Lines much shorter than a lane, and few taps, gain nothing, but for our own products where there
  // are channels enough; an image, or a part of it, must stay in a cache.
  const bool own = level() != Level::v4 || p.f64;
  constexpr int64_t kChannels = 16, kSomeTaps = 4, kLane = 16;
  const int64_t taps = taps_of(p), line = p.out[2], lanes = (line + kLane - 1) / kLane * kLane;
  const bool fewest = p.out_channels <= 2 && p.groups == 1;  // products leave columns empty
  const bool full = own || (line >= kLane && line * 3 >= lanes * 2);
  const bool brief = line >= kLane && p.out_channels <= most_of_few_taps(p, gradient);
  if (taps < kSomeTaps - (p.groups > 1) && !(fewest && !gradient) && !brief &&
      (p.channels < kChannels || !full))
    return false;
  const int64_t half_lane = own ? 5 : fewest && !gradient ? 8 : 10;
  const bool parts = own || (!gradient && (p.out_channels <= 4 || p.stride[2] == 1));
  const size_t room = parts ? Parts(p).room() : room_of(p);
  return line >= half_lane && taps >= 2 && room <= (parts && p.in[0] == 1 ? 2 : 1) * kNearRoom;
}

void conv_few_forward(const Convolution& c, const Pixels& x, const void* w, const int64_t* w_stride,
                      const void* bias, void* y) {
  const FewChannels p = describe(c, false);
  const auto at = [&](int64_t g, int64_t i, int64_t o, int64_t kz, int64_t ky, int64_t kx) {
    return (g * p.out_channels + o) * w_stride[0] + i * w_stride[1] + kz * w_stride[2] +
           ky * w_stride[3] + kx * w_stride[4];
  };
  run(p, x, w, at, bias, y);
}

// The gradient is a convolution with the weight turned round.
void conv_few_input(const Convolution& c, const Pixels& y, const void* w, const int64_t* w_stride,
                    void* x) {
  const FewChannels p = describe(c, true);
  const auto at = [&](int64_t g, int64_t o, int64_t i, int64_t kz, int64_t ky, int64_t kx) {
    return (g * p.channels + o) * w_stride[0] + i * w_stride[1] +
           (p.kernel[0] - 1 - kz) * w_stride[2] + (p.kernel[1] - 1 - ky) * w_stride[3] +
           (p.kernel[2] - 1 - kx) * w_stride[4];
  };
  run(p, y, w, at, nullptr, x);
}

bool few_weight_pays(const Convolution& c) {
  constexpr int64_t kWeights = 1 << 10;
  constexpr double kWork = 4e5;
  if (c.dtype != DType::Float32 || c.groups != 1) return false;
  const FewChannels p = describe(c, false);
  const int64_t lane = level_of::conv_few_block(), taps = taps_of(p), pixels = p.pixels_out();
  if (taps == 1 || p.out_channels > FewChannels::kMost || !have_images(p)) return false;
  return p.out_channels * p.channels * taps <= kWeights &&
         static_cast<size_t>(p.out_channels * pixels * lane * p.size()) <= kImagesRoom &&
         static_cast<double>(p.images * pixels) *
                 static_cast<double>(p.out_channels * p.channels * taps) >=
             kWork;
}

bool conv_few_weight(const Convolution& c, const Pixels& y, const Pixels& x, float* w,
                     const int64_t* w_stride) {
  const FewChannels p = describe(c, false);
  if (!without_gaps(y, p.pixels_out(), p.out_channels) ||
      !without_gaps(x, p.pixels_in(), p.channels))
    return false;
  // Parts of the images whatever the number of threads is; their sums are added in order, as is what is left.
  constexpr int64_t kMostParts = 64;
  const int64_t lane = level_of::conv_few_block(), blocks = p.images / lane;
  const int64_t each = (blocks + kMostParts - 1) / kMostParts, parts = (blocks + each - 1) / each;
  const int64_t weights = p.out_channels * p.channels * taps_of(p);
  const int64_t numbers = weights + p.channels * p.pixels_in() + p.out_channels * p.pixels_out();
  const auto bytes = [&](int64_t n) { return static_cast<size_t>(n * p.size()); };
  const Scratch sums(bytes((parts + 1) * weights));
  float* const all = reinterpret_cast<float*>(sums.data());
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    const Scratch scratch(bytes(numbers * lane));
    for (int64_t i = begin; i < end; ++i)
      level_of::conv_few_weight(&p, &y, &x, all + i * weights, i * each,
                                std::min(blocks, (i + 1) * each),
                                reinterpret_cast<float*>(scratch.data()));
  });
  const int64_t last = p.images % lane;
  for (int64_t i = 0; i < weights; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < parts; ++k) sum += static_cast<double>(all[k * weights + i]);
    all[i] = static_cast<float>(sum);
  }
  if (last) {  // a block with images of zeros behind them
    const Scratch filled(
        bytes((p.channels * p.pixels_in() + p.out_channels * p.pixels_out()) * lane));
    const auto fill = [&](const Pixels& from, int64_t image, char* to) {
      std::memset(to, 0, bytes(image * lane));
      for (int64_t n = 0; n < last; ++n)
        std::memcpy(to + bytes(n * image),
                    static_cast<const char*>(from.data) + bytes((blocks * lane + n) * from.image),
                    bytes(image));
      Pixels q = from;
      q.data = to, q.image = image;
      return q;
    };
    const int64_t image = p.channels * p.pixels_in();
    const Pixels last_x = fill(x, image, filled.data());
    const Pixels last_y =
        fill(y, p.out_channels * p.pixels_out(), filled.data() + bytes(image * lane));
    const Scratch scratch(bytes(numbers * lane));
    float* const more = all + parts * weights;
    level_of::conv_few_weight(&p, &last_y, &last_x, more, int64_t{0}, int64_t{1},
                              reinterpret_cast<float*>(scratch.data()));
    for (int64_t i = 0; i < weights; ++i) all[i] += more[i];
  }
  const float* from = all;
  for (int64_t i = 0; i < p.channels; ++i)
    for (int64_t kz = 0; kz < p.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < p.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < p.kernel[2]; ++kx)
          for (int64_t o = 0; o < p.out_channels; ++o)
            w[o * w_stride[0] + i * w_stride[1] + kz * w_stride[2] + ky * w_stride[3] +
              kx * w_stride[4]] = *from++;
  return true;
}

}  // namespace tycho::cpu
