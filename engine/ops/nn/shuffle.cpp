// The shuffles of channels and pixels: views of the input in another order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

const Op& pixel_shuffle = add_op(
    {.name = "pixel_shuffle",
     .args = "input, upscale_factor: int",
     .doc = "Channels rearranged into a larger image: r x r channels become r x r pixels.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_unshuffle",
     .rule = "[.., c * r * r, h, w] -> [.., c, h * r, w * r]",
     .example = "F.pixel_shuffle(torch.arange(4):view(1, 4, 1, 1), 2) --> i64 [1, 1, 2, 2]  view\n"
                "[1, 1, :, :]   0  1\n"
                "               2  3",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t r = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "pixel_shuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, r > 0 && r < 1 << 20,
                       "pixel_shuffle: upscale_factor must be above 0, not %lld",
                       static_cast<long long>(r));
           TYCHO_CHECK(Kind::Value, x.size(-3) % (r * r) == 0,
                       "pixel_shuffle: %lld channels are not divisible by %lld * %lld",
                       static_cast<long long>(x.size(-3)), static_cast<long long>(r),
                       static_cast<long long>(r));
           const int64_t n = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
           int64_t batch = 1;
           for (int d = 0; d < x.rank() - 3; ++d) batch *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{batch, n, r, r, h, w});
           y = op<"permute">(y, Sizes{0, 1, 4, 2, 5, 3});
           Sizes out(x.shape().v, x.rank() - 3);
           for (int64_t size : {n, h * r, w * r}) out.push_back(size);
           c.out.push_back(op<"reshape">(y, out));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 8, 2, 3}), 2});
         }});

const Op& pixel_unshuffle = add_op(
    {.name = "pixel_unshuffle",
     .args = "input, downscale_factor: int",
     .doc = "The reverse of pixel_shuffle: r x r pixels become r x r channels.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_shuffle",
     .rule = "[.., c, h * r, w * r] -> [.., c * r * r, h, w]",
     .example = "F.pixel_unshuffle(torch.arange(4):view(1, 1, 2, 2), 2).shape --> [1, 4, 1, 1]",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t r = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "pixel_unshuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, r > 0, "pixel_unshuffle: downscale_factor must be above 0");
           TYCHO_CHECK(Kind::Value, x.size(-2) % r == 0 && x.size(-1) % r == 0,
                       "pixel_unshuffle: height %lld and width %lld must be divisible by %lld",
                       static_cast<long long>(x.size(-2)), static_cast<long long>(x.size(-1)),
                       static_cast<long long>(r));
           const int64_t n = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
           int64_t batch = 1;
           for (int d = 0; d < x.rank() - 3; ++d) batch *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{batch, n, h, r, w, r});
           y = op<"permute">(y, Sizes{0, 1, 3, 5, 2, 4});
           Sizes out(x.shape().v, x.rank() - 3);
           for (int64_t size : {n * r * r, h, w}) out.push_back(size);
           c.out.push_back(op<"reshape">(y, out));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 2, 4, 6}), 2});
         }});

const Op& channel_shuffle = add_op(
    {.name = "channel_shuffle",
     .args = "input, groups: int",
     .doc = "Channels dealt out over groups: group by group becomes one of each group in turn.",
     .where = kFunctional | kFunction,
     .see = "nn.functional.pixel_shuffle",
     .rule = "[n, c, ..] -> [n, c, ..]",
     .example = "F.channel_shuffle(torch.arange(4):view(1, 4, 1), 2) --> i64 [1, 4, 1]  view\n"
                "[1, :, :]   0\n"
                "            2\n"
                "            1\n"
                "            3",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int64_t groups = c.integer(1);
           TYCHO_CHECK(Kind::Shape, x.rank() >= 3,
                       "channel_shuffle: takes at least 3 dimensions, not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::Value, groups > 0, "channel_shuffle: groups must be above 0");
           TYCHO_CHECK(Kind::Shape, x.size(1) % groups == 0,
                       "channel_shuffle: %lld channels are not divisible by %lld groups",
                       static_cast<long long>(x.size(1)), static_cast<long long>(groups));
           int64_t rest = 1;
           for (int d = 2; d < x.rank(); ++d) rest *= x.size(d);
           Tensor y = op<"reshape">(x, Sizes{x.size(0), groups, x.size(1) / groups, rest});
           c.out.push_back(op<"reshape">(op<"transpose">(y, 1, 2), x.shape()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 6, 3}), 3});
         }});

}  // namespace
}  // namespace tycho
