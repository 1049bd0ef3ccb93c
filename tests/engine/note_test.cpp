// What notes are made from: pairs, cut graphs, sums of passes, running totals, the first nan.
#include "engine/grad/note.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/grad/cut.h"
#include "engine/grad/nan.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho {
namespace {

Tensor make(const Sizes& shape, std::vector<float> values) {
  Tensor t = empty(shape, DType::Float32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = values[static_cast<size_t>(i) % values.size()];
  return t;
}
Tensor leaf(const Sizes& shape, std::vector<float> values) {
  Tensor t = make(shape, values);
  t->requires_grad = true;
  return t;
}

// Collects the notes that are shown while it lives.
struct Collect {
  static std::vector<std::string>& codes() {
    static std::vector<std::string> list;
    return list;
  }
  Collect() {
    codes().clear();
    grad::show_note = [](const char* code, const char* form, Where,
                         std::initializer_list<grad::NoteValue>) {
      codes().push_back(std::string(code) + " " + form);
    };
    grad::note_is_done = [](const char*, Where) { return false; };
  }
  ~Collect() {
    grad::show_note = nullptr;
    grad::note_is_done = nullptr;
  }
};
using Codes = std::vector<std::string>;

TEST(Notes, KnowWhichShapesAreStretchedOverPairs) {
  EXPECT_TRUE(grad::stretched_over_pairs({5, 1}, {5}));
  EXPECT_TRUE(grad::stretched_over_pairs({5}, {5, 1}));
  EXPECT_FALSE(grad::stretched_over_pairs({5, 1}, {1, 5}));
  EXPECT_FALSE(grad::stretched_over_pairs({5, 1}, {4}));
  EXPECT_FALSE(grad::stretched_over_pairs({5, 5}, {5}));
  EXPECT_FALSE(grad::stretched_over_pairs({1, 1}, {1}));
  EXPECT_FALSE(grad::stretched_over_pairs({5, 1}, {}));
  EXPECT_FALSE(grad::stretched_over_pairs({3, 5, 1}, {5}));
}

TEST(Notes, PairsAreSeenWhereTheyBecomeOneNumber) {
  const Collect notes;
  const Tensor a = make({4, 1}, {1, 2}), b = make({4}, {1, 2});
  const Tensor table = a - b;
  EXPECT_TRUE(notes.codes().empty());
  op<"sum">(table, Sizes{0});
  EXPECT_TRUE(notes.codes().empty()) << "a sum over one dimension is no number";
  op<"mean">(fn::square(table));
  EXPECT_EQ(notes.codes(), Codes{"B2 op"});
  op<"sum">(fn::tanh(a * b));
  EXPECT_EQ(notes.codes().size(), 1u) << "products are used otherwise first";
  op<"sum">(a * b);
  EXPECT_EQ(notes.codes().size(), 2u);
  const Tensor w = leaf({4, 1}, {1, 2});
  op<"mean">(fn::square(w - b));
  EXPECT_EQ(notes.codes().size(), 3u);
  op<"mean">(a - op<"view">(a, Sizes{4}));
  EXPECT_EQ(notes.codes().size(), 3u) << "all pairs of one tensor are meant";
}

TEST(Notes, ACutGraphIsRememberedThroughFurtherOperations) {
  const Tensor w = leaf({2}, {1, 2});
  Tensor y;
  {
    const NoGrad quiet;
    y = w * 2;
  }
  const Tensor z = op<"sum">(fn::square(y + 1));
  EXPECT_EQ(grad::cut_text(z.get()), "mul ran inside no_grad");
  EXPECT_EQ(grad::cut_text(op<"sum">(op<"detach">(w)).get()), "detach cut it off");
  EXPECT_EQ(grad::cut_text(op<"argmax">(w).get()), "argmax has no gradient");
  EXPECT_EQ(grad::cut_text(op<"to.dtype">(op<"to.dtype">(w, DType::Int64), DType::Float32).get()),
            "to made integers of it, which have no gradient");
  EXPECT_EQ(grad::cut_text(make({2}, {1}).get()), "");
  EXPECT_EQ(grad::cut_text((w * 2).get()), "");
}

TEST(Notes, PassesAreCountedUntilTheGradientIsZeroed) {
  const Tensor w = leaf({2}, {1, 2});
  const auto pass = [&] { grad::backward({op<"sum">(w * 3)}, {}, {}); };
  pass();
  Storage& s = *w->extra->grad->storage;
  EXPECT_EQ(grad::passes_of(s).count, 1);
  pass();
  EXPECT_EQ(grad::passes_of(s).count, 2);
  EXPECT_EQ(grad::use_gradient(s), 0) << "two passes, then one step: meant";
  pass();
  EXPECT_EQ(grad::use_gradient(s), 3) << "the step before used two of them";
  op_<"zero">(w->extra->grad);
  pass();
  EXPECT_EQ(grad::use_gradient(s), 0);
}

TEST(Notes, ATotalOfSweptLossesIsSeenAndASumThatIsSweptAtTheEndIsNot) {
  const Collect notes;
  const Tensor w = leaf({2}, {1, 2});
  Tensor sum = op<"sum">(w);
  for (int i = 0; i < 400; ++i) {
    sum = sum + op<"sum">(fn::exp(w));
    grad::backward({op<"sum">(w * 2)}, {}, {});  // another graph
  }
  EXPECT_TRUE(notes.codes().empty());
  Tensor total = op<"sum">(w);
  for (int i = 0; i < 200; ++i) {
    const Tensor loss = op<"sum">(fn::exp(w));
    total = total + loss;
    grad::backward({loss}, {}, {});
  }
  ASSERT_FALSE(notes.codes().empty());
  EXPECT_EQ(notes.codes()[0], "SUM total");
}

TEST(FindNan, NamesTheFirstOperationOfTheForwardPass) {
  const Tensor x = leaf({3}, {4, -1, 9});
  const Tensor y = op<"sum">(fn::sqrt(x + 0.0) * 2);
  const grad::NanSource s = grad::find_nan(y);
  EXPECT_EQ(s.place, grad::NanSource::Operation);
  EXPECT_EQ(s.op, "sqrt");
  EXPECT_EQ(s.element, "element [2]: input -1");
  EXPECT_FALSE(s.infinite);
  EXPECT_EQ(grad::find_nan(op<"sum">(x * 2)).place, grad::NanSource::Nowhere);
}

TEST(FindNan, NamesTheInfinityBehindIt) {
  const Tensor x = leaf({2}, {1, 0});
  const Tensor l = fn::log(x);
  const grad::NanSource s = grad::find_nan(op<"sum">(l - fn::log(x)));
  EXPECT_EQ(s.op, "log");
  EXPECT_TRUE(s.infinite);
  EXPECT_EQ(s.then, "sub");
}

TEST(FindNan, TellsDataFromOperations) {
  const Tensor x = leaf({2}, {1, 2}), d = make({2}, {1, NAN});
  const grad::NanSource s = grad::find_nan(op<"sum">(x * d));
  EXPECT_EQ(s.place, grad::NanSource::Data);
  EXPECT_EQ(s.op, "mul");
}

TEST(FindNan, NamesTheFirstOperationOfTheBackwardPassAndLeavesGradientsAlone) {
  const Tensor x = leaf({2}, {4, 0});
  const Tensor y = op<"sum">(fn::where(fn::gt(x, 0), fn::sqrt(x), 0));
  const grad::NanSource s = grad::find_nan_gradient(y);
  EXPECT_EQ(s.place, grad::NanSource::Gradient);
  EXPECT_EQ(s.op, "sqrt");
  EXPECT_EQ(s.element, "element [2]: input 0");
  EXPECT_TRUE(!x->extra || !x->extra->grad);
  grad::backward({y}, {}, {});  // the graph is still whole
}

TEST(FindNan, LooksAtAFreedGraphThatWasKept) {
  const Tensor x = leaf({2}, {4, 0});
  const Tensor y = op<"sum">(fn::sqrt(x));
  grad::Freed freed(1 << 20);
  grad::SweepOptions o;
  o.freed = &freed;
  grad::backward({y}, {}, o);
  ASSERT_EQ(freed.leaves.size(), 1u);
  EXPECT_FALSE(grad::all_finite(x->extra->grad));
  {
    const grad::Unfreed scope(freed);
    EXPECT_EQ(grad::find_nan_gradient(y).op, "sqrt");
  }
  EXPECT_THROW(grad::backward({y}, {}, {}), Error);
}

}  // namespace
}  // namespace tycho
