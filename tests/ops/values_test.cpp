// Values of every op: each floating type against float64, and kernels against compositions.
#include "engine/ops/table/apply.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class Values : public EveryOp {};

// The op on inputs rounded to `dtype` must agree with the op on the same inputs in float64.
void agree_with_float64(const Op& op, const Samples::Item& item, DType dtype, double tolerance) {
  const Args in = mapped(item.args, [&](const Tensor& t) { return floating_as(t, dtype); });
  const Args exact =
      mapped(in.values, [](const Tensor& t) { return floating_as(t, DType::Float64); });
  std::vector<Tensor> got;
  try {
    got = call(op, in);
  } catch (const Error& e) {
    if (e.kind == Kind::DType && dtype != DType::Float32) return;  // not every op takes halves
    throw;
  }
  EXPECT_EQ(difference(got, call(op, exact), tolerance, false), "") << dtype_name(dtype);
}

TEST_P(Values, AgreeWithThoseInFloat64) {
  if (op().random || reads_memory()) return;
  each_sample([&](const Samples::Item& item) {
    agree_with_float64(op(), item, DType::Float32, 1e-5);
    agree_with_float64(op(), item, DType::Float16, 5e-3);
    agree_with_float64(op(), item, DType::BFloat16, 4e-2);
  });
}

TEST_P(Values, OfKernelAndCompositionAgree) {
  if (op().random || !op().compose || !op().kernel_on(BackendKind::Cpu)) return;
  each_sample([&](const Samples::Item& item) {
    for (const DType dtype : {DType::Float32, DType::Float64}) {
      const auto convert = [&](const Tensor& t) { return floating_as(t, dtype); };
      const auto want = call_composition(op(), mapped(item.args, convert));
      const auto got = call(op(), mapped(item.args, convert));
      EXPECT_EQ(difference(got, want, dtype == DType::Float32 ? 1e-5 : 1e-12), "")
          << dtype_name(dtype);
    }
  });
}

// What an op gives does not depend on the arguments' place in memory, and it leaves them alone.
TEST_P(Values, LeaveTheArgumentsUnchanged) {
  if (op().name[0] == '_') return;
  each_sample([&](const Samples::Item& item) {
    const Args args = mapped(item.args, copied);
    call(op(), args);
    const Args before = mapped(item.args, copied);
    for (size_t i = 0; i < args.tensors.size(); ++i)
      EXPECT_EQ(difference(args.tensors[i], before.tensors[i], 0), "")
          << "tensor argument " << i + 1;
  });
}

TYCHO_EVERY_OP(Values);

}  // namespace
}  // namespace tycho::optest
