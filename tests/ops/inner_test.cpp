// The inner layout (tensor/tensor.h) is nobody's business: every op gives on a tensor that has it
// what it gives on a row-major one, in values, random numbers, strides and shared memory.
#include <algorithm>
#include <cstring>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class InnerLayout : public EveryOp {};

Tensor inner(const Tensor& t) { return laid_out(t, Layout::Inner); }

// What a user can tell about a result beside its values: strides, offset, whose memory it is.
std::string shown(const Tensor& t, const Args& args) {
  if (!t) return "none";
  std::string text = to_string(shown_strides(t.get())) + " from " + std::to_string(t->offset);
  if (!shown_contiguous(t.get())) text += ", not contiguous";
  for (size_t i = 0; i < args.tensors.size(); ++i)
    if (t->storage == args.tensors[i]->storage)
      text += ", in the memory of argument " + std::to_string(i + 1);
  return text;
}

TEST_P(InnerLayout, ShowsNowhere) {
  each_sample([&](const Samples::Item& item) {
    const Args plain = mapped(item.args, copied), hidden = mapped(item.args, inner);
    const auto want = call(op(), plain), got = call(op(), hidden);
    if (!gives_any_values()) {
      EXPECT_EQ(difference(got, want, 1e-5), "");
      EXPECT_EQ(difference(hidden.tensors, plain.tensors, 1e-5), "") << "the arguments afterwards";
    }
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
      EXPECT_EQ(shown(got[i], hidden), shown(want[i], plain)) << "result " << i + 1;
  });
}

TEST_P(InnerLayout, ShowsNowhereInPlace) {
  if (op().inplace == tycho::Inplace::No) return;
  each_sample([&](const Samples::Item& item) {
    if (item.args.empty() || item.args[0].tag != Tag::Tensor) return;
    const Args plain = mapped(item.args, copied), hidden = mapped(item.args, inner);
    std::vector<Tensor> want;
    try {
      want = call(op(), plain, true);
    } catch (const Error&) {
      EXPECT_THROW(call(op(), hidden, true), Error);
      return;
    }
    const auto got = call(op(), hidden, true);
    EXPECT_EQ(difference(got, want, 1e-5), "");
    EXPECT_EQ(difference(hidden.tensors, plain.tensors, 1e-5), "") << "the arguments afterwards";
    EXPECT_EQ(shown(got[0], hidden), shown(want[0], plain));
  });
}

bool names_a_layout(const Args& args) {
  return std::any_of(args.values.begin(), args.values.end(), [](const Value& v) {
    return v.tag == Tag::String && std::string_view(v.s).starts_with("channels_last");
  });
}

// Memory that nobody had a say about is row-major; so are results of what is.
TEST_P(InnerLayout, LeavesResultsOfRowMajorTensorsRowMajor) {
  // In PyTorch too, these end in a transposed view of what they computed.
  for (const char* name : {"empty_strided", "nanquantile.tensor", "quantile.tensor", "rot90"})
    if (!std::strcmp(op().name, name)) return;
  if (op().view) return;
  // Matrices of torch.linalg lie column by column, as there.
  if (std::string_view(op().file).find("/linalg") != std::string_view::npos) return;
  each_sample([&](const Samples::Item& item) {
    if (names_a_layout(mapped(item.args, copied))) return;
    const Args args = mapped(item.args, copied);
    for (const Tensor& y : call(op(), args)) {
      bool shared = !y;
      for (const Tensor& t : args.tensors) shared = shared || t->storage == y->storage;
      EXPECT_TRUE(shared || shown_contiguous(y.get())) << (y ? to_string(y.strides()) : "");
    }
  });
}

TYCHO_EVERY_OP(InnerLayout);

Tensor images(const Sizes& shape) {
  seed_all(3);
  return op<"randn">(shape);
}

TEST(Inner, EndsForAllTensorsOfOneMemoryAtOnce) {
  const Tensor x = images({2, 3, 4, 5}), y = inner(x), same = op<"detach">(y);
  EXPECT_TRUE(y->inner && same->inner && y->storage == same->storage);
  op_<"add">(y, 1);
  const uint32_t version = y->storage->version;
  const Tensor view = op<"view">(same, Sizes{2, 60});
  EXPECT_FALSE(y->inner || same->inner || view->inner);
  EXPECT_TRUE(y.contiguous() && same.contiguous());
  EXPECT_TRUE(y->storage == same->storage && y->storage == view->storage);
  EXPECT_EQ(y->storage->version, version);
  op_<"mul">(view, 2);
  EXPECT_EQ(difference(y, (x + 1) * 2, 0), "");
}

TEST(Inner, IsLeftByTensorsThatGo) {
  const Tensor x = images({2, 3, 4, 5});
  Tensor y = inner(x);
  Tensor second = op<"detach">(y), third = op<"detach">(second);
  second = Tensor();
  y = Tensor();
  EXPECT_EQ(difference(op<"flatten">(third), op<"flatten">(x), 0), "");
  third = Tensor();
}

// A result that backward needs is straightened with the tensor that the user holds.
TEST(Inner, EndsForWhatTheGraphHasSaved) {
  const Tensor x = images({2, 3, 4, 5});
  const auto gradient = [](Tensor leaf) {
    leaf->requires_grad = true;
    const Tensor y = op<"exp">(leaf);
    return grad::gradients({op<"sum">(op<"flatten">(y) * y.numel()) + op<"sum">(y)}, {leaf}, {},
                           {})[0];
  };
  EXPECT_EQ(difference(gradient(inner(x)), gradient(copied(x)), 1e-6), "");
  Tensor leaf = inner(x);
  leaf->requires_grad = true;
  const Tensor y = op<"exp">(leaf);
  {
    const NoGrad quiet;
    op_<"zero">(op<"flatten">(op<"detach">(y)));
  }
  EXPECT_THROW(grad::gradients({op<"sum">(y)}, {leaf}, {}, {}), Error);
}

TEST(Inner, StaysWhereConvolutionsTakeSteps) {
  const Tensor x = inner(images({2, 3, 6, 5})), w = images({4, 3, 1, 1});
  const Sizes steps{2, 2};
  const Tensor y = op<"conv2d">(x, w, Value(), steps);
  EXPECT_TRUE(x->inner && y->inner);
  EXPECT_EQ(difference(y, op<"conv2d">(copied(x), w, Value(), steps), 1e-6), "");
  EXPECT_TRUE(op<"conv_transpose2d">(y, images({4, 32, 1, 1}), Value(), steps)->inner);
}

TEST(Inner, ConvolutionsGiveWhatPyTorchShows) {
  const Tensor x = images({2, 3, 6, 5}), w = images({4, 3, 3, 3});
  const Tensor y = op<"conv2d">(x, w);
  EXPECT_TRUE(shown_contiguous(y.get()));
  EXPECT_EQ(to_string(shown_strides(y.get())), "[48, 12, 3, 1]");
  // Laid out by the user with the channels last: the result is too.
  const Tensor last =
      op<"permute">(op<"contiguous">(op<"permute">(x, Sizes{0, 2, 3, 1})), Sizes{0, 3, 1, 2});
  const Tensor z = op<"conv2d">(last, w);
  EXPECT_EQ(to_string(shown_strides(z.get())), "[48, 1, 12, 4]");
  EXPECT_EQ(to_string(shown_strides(op<"relu">(z).get())), "[48, 1, 12, 4]");
  EXPECT_EQ(to_string(shown_strides(op<"max_pool2d">(z, Sizes{2}).get())), "[8, 1, 4, 4]");
  EXPECT_EQ(difference(z, y, 1e-6), "");
}

TEST(Inner, RandomNumbersAreDrawnAsIfItWereNot) {
  const Tensor x = images({2, 3, 4, 5}), y = inner(x);
  for (const char* name : {"randn_like", "rand_like", "bernoulli"}) {
    const auto draw = [&](const Tensor& like) {
      seed_all(11);
      Call c(get_op(name));
      c.set(0, std::string_view(name) == "bernoulli" ? op<"sigmoid">(like) : like);
      c.n = 1;
      fill_defaults(c);
      apply(c);
      return c.out[0];
    };
    EXPECT_EQ(difference(draw(y), draw(x), -1), "") << name;
  }
  const auto dropped = [&](const Tensor& t) {
    seed_all(11);
    return op<"dropout">(t, 0.5, true);
  };
  EXPECT_EQ(difference(dropped(y), dropped(x), -1), "");
  EXPECT_TRUE(y->inner);  // drawing does not end it
}

}  // namespace
}  // namespace tycho::optest
