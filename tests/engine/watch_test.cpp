// What notes are made from: pairs, cut graphs, sums of passes, running totals, the first nan.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/grad/passes.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/nan.h"
#include "engine/watch/notes.h"
#include "engine/watch/trace.h"

namespace tycho {
namespace {

Tensor make(const Sizes& shape, std::vector<float> values) {
  Tensor t = empty(shape, DType::Float32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.host<float>()[i] = values[static_cast<size_t>(i) % values.size()];
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
    watch::show_note = [](const char* code, const char* form, Where,
                          std::initializer_list<watch::NoteValue>) {
      codes().push_back(std::string(code) + " " + form);
    };
    watch::note_is_done = [](const char*, Where) { return false; };
  }
  ~Collect() {
    watch::show_note = nullptr;
    watch::note_is_done = nullptr;
  }
};
using Codes = std::vector<std::string>;

TEST(Notes, KnowWhichShapesAreStretchedOverPairs) {
  EXPECT_TRUE(watch::stretched_over_pairs({5, 1}, {5}));
  EXPECT_TRUE(watch::stretched_over_pairs({5}, {5, 1}));
  EXPECT_FALSE(watch::stretched_over_pairs({5, 1}, {1, 5}));
  EXPECT_FALSE(watch::stretched_over_pairs({5, 1}, {4}));
  EXPECT_FALSE(watch::stretched_over_pairs({5, 5}, {5}));
  EXPECT_FALSE(watch::stretched_over_pairs({1, 1}, {1}));
  EXPECT_FALSE(watch::stretched_over_pairs({5, 1}, {}));
  EXPECT_FALSE(watch::stretched_over_pairs({3, 5, 1}, {5}));
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
  EXPECT_EQ(watch::cut_text(z.get()), "mul ran inside no_grad");
  EXPECT_EQ(watch::cut_text(op<"sum">(op<"detach">(w)).get()), "detach cut it off");
  EXPECT_EQ(watch::cut_text(op<"argmax">(w).get()), "argmax has no gradient");
  EXPECT_EQ(watch::cut_text(op<"to.dtype">(op<"to.dtype">(w, DType::Int64), DType::Float32).get()),
            "to made integers of it, which have no gradient");
  EXPECT_EQ(watch::cut_text(make({2}, {1}).get()), "");
  EXPECT_EQ(watch::cut_text((w * 2).get()), "");
}

TEST(Notes, PassesAreCountedUntilTheGradientIsZeroed) {
  const Tensor w = leaf({2}, {1, 2});
  const auto pass = [&] { grad::backward({op<"sum">(w * 3)}, {}, {}); };
  pass();
  Storage& s = *w->extra->grad->storage;
  EXPECT_EQ(grad::passes_of(s).count, 1u);
  pass();
  EXPECT_EQ(grad::passes_of(s).count, 2u);
  EXPECT_EQ(grad::use_gradient(s), 0u) << "two passes, then one step: meant";
  pass();
  EXPECT_EQ(grad::use_gradient(s), 3u) << "the step before used two of them";
  op_<"zero">(w->extra->grad);
  pass();
  EXPECT_EQ(grad::use_gradient(s), 0u);
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
  const watch::NanSource s = watch::find_nan(y);
  EXPECT_EQ(s.place, watch::NanSource::Operation);
  EXPECT_EQ(s.op, "sqrt");
  EXPECT_EQ(s.element, "element [2]: input -1");
  EXPECT_FALSE(s.infinite);
  EXPECT_EQ(watch::find_nan(op<"sum">(x * 2)).place, watch::NanSource::Nowhere);
}

TEST(FindNan, NamesTheInfinityBehindIt) {
  const Tensor x = leaf({2}, {1, 0});
  const Tensor l = fn::log(x);
  const watch::NanSource s = watch::find_nan(op<"sum">(l - fn::log(x)));
  EXPECT_EQ(s.op, "log");
  EXPECT_TRUE(s.infinite);
  EXPECT_EQ(s.then, "sub");
}

TEST(FindNan, TellsDataFromOperations) {
  const Tensor x = leaf({2}, {1, 2}), d = make({2}, {1, NAN});
  const watch::NanSource s = watch::find_nan(op<"sum">(x * d));
  EXPECT_EQ(s.place, watch::NanSource::Data);
  EXPECT_EQ(s.op, "mul");
}

TEST(FindNan, NamesTheFirstOperationOfTheBackwardPassAndLeavesGradientsAlone) {
  const Tensor x = leaf({2}, {4, 0});
  const Tensor y = op<"sum">(fn::where(fn::gt(x, 0), fn::sqrt(x), 0));
  const watch::NanSource s = watch::find_nan_gradient(y);
  EXPECT_EQ(s.place, watch::NanSource::Gradient);
  EXPECT_EQ(s.op, "sqrt");
  EXPECT_EQ(s.element, "element [2]: input 0");
  EXPECT_TRUE(!x->extra || !x->extra->grad);
  grad::backward({y}, {}, {});  // the graph is still whole
}

TEST(FindNan, LooksAtAFreedGraphThatWasKept) {
  const Tensor x = leaf({2}, {4, 0});
  const Tensor y = op<"sum">(fn::sqrt(x));
  watch::Freed freed(1 << 20);
  grad::SweepOptions o;
  o.observer = &freed;
  grad::backward({y}, {}, o);
  ASSERT_EQ(freed.leaves.size(), 1u);
  EXPECT_FALSE(watch::all_finite(x->extra->grad));
  {
    const watch::Unfreed scope(freed);
    EXPECT_EQ(watch::find_nan_gradient(y).op, "sqrt");
  }
  EXPECT_THROW(grad::backward({y}, {}, {}), Error);
}

}  // namespace
}  // namespace tycho
