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
  bool skipped() const { return reads_memory() || op().random || op().name[0] == '_'; }
  void same_in_other_layouts(const std::vector<Value>& values);
};

// Results and the gradients of their sum.
std::vector<Tensor> with_gradients(const Op& op, const Args& args) {
  for (const Tensor& t : args.tensors)
    if (is_floating(t.dtype()) && op.differentiable) t->requires_grad = true;
  std::vector<Tensor> all = call(op, args);
  Tensor sum;
  for (const Tensor& y : std::vector<Tensor>(all)) {
    if (!y || !y.requires_grad()) continue;
    const Tensor term = op.differentiable ? tycho::op<"sum">(y) : Tensor();
    sum = sum && term ? sum + tycho::op<"to.dtype">(term, sum.dtype()) : term;
  }
  if (!sum) return all;
  std::vector<Tensor> leaves;
  for (const Tensor& t : args.tensors)
    if (t.requires_grad()) leaves.push_back(t);
  grad::SweepOptions o;
  o.allow_unused = true;
  for (const Tensor& g : grad::gradients({sum}, leaves, {}, o)) all.push_back(g);
  return all;
}

void Layouts::same_in_other_layouts(const std::vector<Value>& values) {
  for (const Layout layout : {Layout::Reversed, Layout::Padded}) {
    std::vector<Tensor> got;
    try {
      got = with_gradients(op(),
                           mapped(values, [&](const Tensor& t) { return laid_out(t, layout); }));
    } catch (const Error& e) {
      if (refuses(e)) continue;
      throw;
    }
    EXPECT_EQ(difference(got, with_gradients(op(), mapped(values, copied)), 1e-5), "")
        << (layout == Layout::Reversed ? "reversed strides" : "padded rows");
  }
}

TEST_P(Layouts, GiveTheSameAnswers) {
  if (skipped()) return;
  each_sample([&](const Samples::Item& item) { same_in_other_layouts(item.args); });
}

TEST_P(Layouts, GiveTheSameAnswersOnLargerTensors) {
  if (skipped() || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    const Args large = enlarged(item.args, 20000);
    try {
      call(op(), mapped(large.values, copied));
    } catch (const Error&) {
      return;  // its other arguments do not fit the larger shapes
    }
    same_in_other_layouts(large.values);
  });
}

TEST_P(Layouts, StretchedByExpandGiveTheSameAnswers) {
  if (skipped()) return;
  each_sample([&](const Samples::Item& item) {
    const auto dense = mapped(item.args, [](const Tensor& t) { return copied(stretched(t)); });
    std::vector<Tensor> want;
    try {
      want = with_gradients(op(), dense);
    } catch (const Error&) {
      return;  // equal rows may be no legal input
    }
    std::vector<Tensor> got;
    try {
      got = with_gradients(op(), mapped(item.args, stretched));
    } catch (const Error& e) {
      if (refuses(e)) return;
      throw;
    }
    EXPECT_EQ(difference(got, want, 1e-5), "");
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
