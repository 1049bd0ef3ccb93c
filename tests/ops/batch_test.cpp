// Every op on batched tensors (engine/ops/table/batch.h), as torch.vmap gives them: what it computes for all examples
// at once is what it computes for each, with its gradients.
#include "engine/ops/table/batch.h"

#include "engine/ops/table/apply.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

// Other values of the same kind: the first ones last.
Tensor turned(const Tensor& t) {
  const Tensor flat = op<"reshape">(copied(t), Sizes{-1});
  return copied(op<"reshape">(op<"flip">(flat, Sizes{0}), t.shape()));
}

class Batches : public EveryOp {
 protected:
  // Which tensor differs from example to example; the count of tensors: each does.
  void same_as_each_example(const std::vector<Value>& values, size_t which, bool strided);
};

void Batches::same_as_each_example(const std::vector<Value>& values, size_t which, bool strided) {
  const auto args_of = [&](const std::function<Tensor(const Tensor&)>& map) {
    size_t k = 0;
    const size_t tensors = mapped(values, copied).tensors.size();
    return mapped(values, [&](const Tensor& t) {
      const bool differs = (k++ == which || which == tensors) && !t->is_number;
      return differs ? map(t) : copied(t);
    });
  };
  std::vector<std::vector<Tensor>> want;
  try {
    want.push_back(with_gradients(op(), args_of(copied)));
    want.push_back(with_gradients(op(), args_of(turned)));
  } catch (const Error& e) {
    return skip(e.what());  // turned values may be no legal input
  }
  const size_t mark = begin_map();
  std::vector<Tensor> got;
  bool computed = true;
  try {
    got = with_gradients(
        op(), args_of([&](const Tensor& t) {
          const std::vector<Tensor> both{copied(t), turned(t)};
          const int at = strided ? t.rank() : 0;
          return one_of(tycho::op<"movedim">(tycho::op<"stack">(both, at), Sizes{at}, Sizes{0}), 1);
        }));
  } catch (const Error& e) {
    computed = false;  // vmap goes by examples then
    skip(e.what());
  }
  end_map(mark, false);
  refused_batch();
  if (!computed) return;
  double tolerance = 1e-4;
  for (const Tensor& t : mapped(values, copied).tensors)
    if (dtype_size(t.dtype()) == 2)
      tolerance = 2e-2;  // a bias joins a product before or after it is rounded
  for (int64_t k = 0; k < 2; ++k) {
    std::vector<Tensor> one;
    for (const Tensor& t : got) {
      const Tensor all = t ? all_of(t.get(), 1) : Tensor();
      one.push_back(all ? tycho::op<"select">(all, 0, k) : t);
    }
    EXPECT_EQ(difference(one, want[static_cast<size_t>(k)], tolerance), "")
        << "example " << k + 1 << ", " << (strided ? "strided, " : "") << "tensor " << which + 1;
  }
}

TEST_P(Batches, GiveWhatEachExampleGives) {
  if (reads_memory() || gives_any_values() || op().random) return;
  each_sample([&](const Samples::Item& item) {
    const size_t tensors = mapped(item.args, copied).tensors.size();
    for (size_t which = 0; which <= tensors; ++which) {
      if (tensors < 2 && which == tensors) break;
      for (const bool strided : {false, true}) same_as_each_example(item.args, which, strided);
    }
  });
}

TYCHO_EVERY_OP(Batches);

}  // namespace
}  // namespace tycho::optest
