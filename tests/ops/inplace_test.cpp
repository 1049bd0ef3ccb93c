// In-place forms and out=: the same answer as out of place, in the same tensor, with its version
// counted; and a call that fails leaves the tensor as it was.
#include "engine/ops/table/apply.h"
#include "engine/ops/table/apply_into.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class InPlace : public EveryOp {
 protected:
  bool applies() const { return op().inplace != tycho::Inplace::No; }
};

// Calls in place on `self` and checks everything that must hold afterwards; `want` is what the
// call gives out of place, or empty when that raises.
void in_place(const Op& op, const Args& args, const std::vector<Tensor>& want) {
  const Tensor self = args.tensors[0];
  const Tensor before = copied(self);
  const uint32_t version = self->storage->version;
  std::vector<Tensor> got;
  try {
    got = call(op, args, true);
  } catch (const Error& e) {
    EXPECT_EQ(difference(self, before, -1), "") << "changed by a failed call: " << e.what();
    EXPECT_EQ(self->storage->version, version) << "version counted by a failed call: " << e.what();
    const bool fits =
        !want.empty() && want[0].shape() == self.shape() && want[0].dtype() == self.dtype();
    EXPECT_FALSE(fits && !overlaps_itself(self.get())) << op.name << "_ raised: " << e.what();
    return;
  }
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got[0].get(), self.get()) << "the result is another tensor";
  EXPECT_GT(self->storage->version, version) << "the version was not counted";
  if (op.random) return;
  ASSERT_FALSE(want.empty()) << op.name << "_ gave a result, " << op.name << " raises";
  ASSERT_TRUE(want[0].shape() == self.shape())
      << "stored a result of shape " << to_string(want[0].shape()) << " in " << describe(self);
  EXPECT_EQ(self.dtype(), before.dtype());
  EXPECT_EQ(difference(self, converted(want[0], self.dtype()), 1e-6, false), "");
}

std::vector<Tensor> out_of_place(const Op& op, const Args& args) {
  try {
    return call(op, args);
  } catch (const Error&) {
    return {};
  }
}

bool begins_with_tensor(const Samples::Item& item) {
  return !item.args.empty() && item.args[0].tag == Tag::Tensor;
}

TEST_P(InPlace, GivesWhatTheOpGives) {
  if (!applies()) return;
  each_sample([&](const Samples::Item& item) {
    if (!begins_with_tensor(item)) return;
    const auto want = out_of_place(op(), mapped(item.args, copied));
    in_place(op(), mapped(item.args, copied), want);
    for (const Layout layout : {Layout::Offset, Layout::Padded, Layout::Steps, Layout::Reversed,
                                Layout::Turned, Layout::Inner}) {
      SCOPED_TRACE(layout_name(layout));
      const Args args = mapped(item.args, [&](const Tensor& t) { return laid_out(t, layout); });
      in_place(op(), args, want);
      if (layout == Layout::Inner || op().view) continue;
      for (const Tensor& t : args.tensors) EXPECT_TRUE(gaps_intact(t)) << "wrote beside it";
    }
  });
}

TEST_P(InPlace, OfAllTypesGivesWhatTheOpGivesOrRaises) {
  if (!applies()) return;
  each_sample([&](const Samples::Item& item) {
    if (!begins_with_tensor(item)) return;
    for (int t = 0; t < kDTypes; ++t) {
      bool first = true;
      const auto typed = [&](const Tensor& x) {
        if (!first) return copied(x);
        first = false;
        return converted(x, static_cast<DType>(t));
      };
      const Args args = mapped(item.args, typed);
      first = true;
      in_place(op(), args, out_of_place(op(), mapped(item.args, typed)));
    }
  });
}

TEST_P(InPlace, WithAWrongArgumentLeavesTheTensorUnchanged) {
  if (!applies() || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    if (!begins_with_tensor(item)) return;
    const size_t tensors = mapped(item.args, copied).tensors.size();
    for (size_t which = 1; which < tensors; ++which)
      for (int how = 0; how < 4; ++how) {
        size_t k = 0;
        const auto spoilt = [&](const Tensor& x) {
          if (k++ != which) return copied(x);
          if (how == 0) return filled({7, 5, 3}, 1, x.dtype());
          if (how == 1) return filled(x.shape(), 1, DType::Float64);
          if (how == 2) return filled(x.shape(), 1, DType::Bool);
          return filled(x.shape(), 99, DType::Int64);
        };
        const Args args = mapped(item.args, spoilt);
        k = 0;
        in_place(op(), args, out_of_place(op(), mapped(item.args, spoilt)));
      }
  });
}

TEST_P(InPlace, OnATensorStretchedByExpandRaises) {
  if (!applies() || op().view) return;  // a view of itself writes nothing
  each_sample([&](const Samples::Item& item) {
    if (!begins_with_tensor(item)) return;
    bool first = true;
    const Args args = mapped(item.args, [&](const Tensor& x) {
      if (!first) return copied(x);
      first = false;
      return stretched(x);
    });
    const Tensor& self = args.tensors[0];
    if (!overlaps_itself(self.get())) return;
    const Tensor before = copied(self);
    EXPECT_THROW(call(op(), args, true), Error);
    EXPECT_EQ(difference(self, before, -1), "");
  });
}

TYCHO_EVERY_OP(InPlace);

class IntoATensor : public EveryOp {
 protected:
  bool applies() const { return !op().view && !gives_any_values() && !reads_memory(); }
};

// The call with `to` as its out=, which must hold `want` afterwards, or what it held when it raises.
void into(const Op& op, const Args& args, const Tensor& to, const std::vector<Tensor>& want) {
  const Tensor before = copied(to);
  const uint32_t version = to->storage->version;
  try {
    const NoGrad quiet;
    call(op, args, to);
  } catch (const Error& e) {
    EXPECT_EQ(difference(to, before, -1), "") << "changed by a failed call: " << e.what();
    EXPECT_TRUE(want.empty() || overlaps_itself(to.get())) << op.name << " raised: " << e.what();
    return;
  }
  EXPECT_GT(to->storage->version, version) << "the version was not counted";
  ASSERT_EQ(want.size(), 1u) << op.name << " with out= gave a result, without it raises";
  EXPECT_EQ(difference(to, want[0], -1), "");
}

TEST_P(IntoATensor, GivesTheSameBits) {
  if (!applies()) return;
  const auto check = [&](const Args& args) {
    const auto want = out_of_place(op(), args);
    if (want.size() != 1 || !want[0]) return;
    const Tensor garbage = filled(want[0].shape(), 77, want[0].dtype());
    into(op(), args, copied(garbage), want);
    for (const Layout layout : {Layout::Offset, Layout::Padded, Layout::Turned, Layout::Inner}) {
      SCOPED_TRACE(layout_name(layout));
      const Tensor to = laid_out(garbage, layout);
      into(op(), args, to, want);
      if (layout == Layout::Inner) continue;
      EXPECT_TRUE(gaps_intact(to)) << "wrote beside it";
    }
  };
  each_sample([&](const Samples::Item& item) {
    check(mapped(item.args, copied));
    if (!trusts_its_caller()) check(enlarged(item.args, 3000));
  });
}

TEST_P(IntoATensor, ThatTheCallReadsGivesTheSameBits) {
  if (!applies() || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    const Args first = mapped(item.args, copied);
    const auto want = out_of_place(op(), first);
    if (want.size() != 1 || !want[0]) return;
    for (size_t i = 0; i < first.tensors.size(); ++i) {
      const Args args = mapped(item.args, copied);
      const Tensor& to = args.tensors[i];
      if (!(to.shape() == want[0].shape()) || to.dtype() != want[0].dtype()) continue;
      if (call(op(), args)[0]->storage.get() == to->storage.get()) continue;  // nothing is computed
      into(op(), args, to, want);
    }
  });
}

TEST_P(IntoATensor, AWrongArgumentLeavesItUnchanged) {
  if (!applies() || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    const auto right = out_of_place(op(), mapped(item.args, copied));
    if (right.size() != 1 || !right[0]) return;
    const size_t tensors = mapped(item.args, copied).tensors.size();
    for (size_t which = 0; which < tensors; ++which)
      for (const double value : {99.0, -99.0, 0.0, 98.0, -98.0}) {
        size_t k = 0;
        const auto spoilt = [&](const Tensor& x) {
          if (k++ != which) return copied(x);
          if (std::abs(value) != 98.0) return filled(x.shape(), value, x.dtype());
          Tensor y = copied(x);  // the last element alone: what comes before it is computed
          if (y.numel())
            copy_raw(alias(y, {1}, {1}, y->offset + y.numel() - 1), filled({1}, value, x.dtype()));
          return y;
        };
        const Args args = mapped(item.args, spoilt);
        const auto want = out_of_place(op(), args);
        if (want.empty() || want[0].shape() == right[0].shape())
          into(op(), args, filled(right[0].shape(), 77, right[0].dtype()), want);
      }
  });
}

TYCHO_EVERY_OP(IntoATensor);

}  // namespace
}  // namespace tycho::optest
