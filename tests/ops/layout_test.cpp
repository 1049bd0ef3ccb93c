// Every op on tensors that are not row-major, on larger ones, on empty and 0-d ones.
#include <cstring>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class Layouts : public EveryOp {
 protected:
  void same_in_other_layouts(const std::vector<Value>& values);
};

void Layouts::same_in_other_layouts(const std::vector<Value>& values) {
  const Args plain = mapped(values, copied);
  const std::vector<Tensor> want = with_gradients(op(), plain);
  for (const Layout layout : kViews) {
    // Random numbers follow the order of memory, as PyTorch's.
    if (op().random && layout == Layout::Turned) continue;
    const Args args = mapped(values, [&](const Tensor& t) { return laid_out(t, layout); });
    std::vector<Tensor> got;
    try {
      got = with_gradients(op(), args);
    } catch (const Error& e) {
      if (refuses(e)) continue;
      ADD_FAILURE() << layout_name(layout) << ": " << e.what();
      continue;
    }
    EXPECT_EQ(difference(got, want, 1e-5), "") << layout_name(layout);
    // Ops that optimisers and running statistics use write into their arguments.
    EXPECT_EQ(difference(args.tensors, plain.tensors, 1e-5), "") << layout_name(layout);
    for (const Tensor& t : args.tensors)
      EXPECT_TRUE(gaps_intact(t)) << layout_name(layout) << ": wrote beside its arguments";
  }
}

TEST_P(Layouts, GiveTheSameAnswers) {
  if (reads_memory() || gives_any_values()) return;
  each_sample([&](const Samples::Item& item) { same_in_other_layouts(item.args); });
}

TEST_P(Layouts, GiveTheSameAnswersOnLargerTensors) {
  if (reads_memory() || gives_any_values() || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    const Args large = enlarged(item.args, 20000);
    try {
      call(op(), mapped(large.values, copied));
    } catch (const Error& e) {
      return skip(e.what());  // its other arguments do not fit the larger shapes
    }
    same_in_other_layouts(large.values);
  });
}

TEST_P(Layouts, StretchedByExpandGiveTheSameAnswers) {
  if (reads_memory() || gives_any_values()) return;
  each_sample([&](const Samples::Item& item) {
    int most = 0;
    for (const Tensor& t : mapped(item.args, copied).tensors) most = std::max(most, t.rank());
    for (int d = 0; d < most; ++d) {
      const auto dense =
          mapped(item.args, [&](const Tensor& t) { return copied(stretched(t, d)); });
      std::vector<Tensor> want;
      try {
        want = with_gradients(op(), dense);
      } catch (const Error& e) {
        skip(e.what());  // equal rows may be no legal input
        continue;
      }
      std::vector<Tensor> got;
      try {
        got = with_gradients(op(),
                             mapped(item.args, [&](const Tensor& t) { return stretched(t, d); }));
      } catch (const Error& e) {
        if (!refuses(e)) ADD_FAILURE() << "dimension " << d + 1 << ": " << e.what();
        continue;
      }
      EXPECT_EQ(difference(got, want, 1e-5), "") << "dimension " << d + 1;
    }
  });
}

// Whatever the shape, an op gives a result or an error: it neither crashes nor hangs.
TEST_P(Layouts, OfEmptyAndZeroDimensionalTensorsGiveResultsOrErrors) {
  if (trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    size_t tensors = mapped(item.args, copied).tensors.size();
    // Which tensor is changed (the last round: all of them), and how.
    for (size_t which = 0; which <= tensors; ++which)
      for (int how = 0; how < 5; ++how) {
        size_t k = 0;
        const Args args = mapped(item.args, [&](const Tensor& t) {
          if (k++ != which && which != tensors) return copied(t);
          Sizes shape = t.shape();
          if (how == 0 && shape.n) shape[0] = 0;
          if (how == 1 && shape.n) shape[shape.n - 1] = 0;
          if (how == 2) shape = Sizes();
          if (how == 3) shape = Sizes{0};
          if (how == 4 && shape.n < kMaxDims) shape.insert(0, 1);
          return filled(shape, 1, t.dtype());
        });
        try {
          with_gradients(op(), args);
        } catch (const Error&) {
        }
      }
  });
}

TYCHO_EVERY_OP(Layouts);

}  // namespace
}  // namespace tycho::optest
