// Every operation and its gradients on the op table's samples: the emulated device gives what the
// CPU gives; where there is a kernel for CUDA, in all types and layouts and on larger tensors too.
#include <cstdlib>

#include "engine/cuda/start.h"
#include "engine/ops/table/apply.h"
#include "tests/cuda/emulated/cuda_on_cpu.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

constexpr Device kDevice{0};
// The sanitizers look at memory, not at numbers: fewer types, and large tensors only as views.
const bool kSanitized = std::getenv("TYCHO_SANITIZED") != nullptr;

class CudaKernels : public EveryOp {
 protected:
  void SetUp() override {
    cuda::emulated::start();
    cuda::start();
  }
  bool has_kernel() const { return op().kernel[static_cast<int>(BackendKind::Cuda)]; }
  bool in_ops() const { return std::string_view(op().file).starts_with("engine/ops/"); }
  static Tensor sent(const Tensor& t) {
    Tensor y =
        alias(empty({t.numel() + 2}, t.dtype(), kDevice), t.shape(), row_major(t.shape()), 2);
    copy_raw(y, t);
    y->is_number = t->is_number;
    return y;
  }
  // Strides in reversed order, behind an offset.
  static Tensor turned(const Tensor& t, Device device) {
    Sizes stride = t.shape();
    int64_t step = 1;
    for (int d = 0; d < t.rank(); ++d) {
      stride[d] = step;
      step *= t.size(d);
    }
    Tensor y = alias(empty({step + 3}, t.dtype(), device), t.shape(), stride, 3);
    copy_raw(y, t);
    y->is_number = t->is_number;
    return y;
  }
  // Results and what was written to the arguments, on both.
  void same_on_device(const Args& args, double tolerance, const char* what) {
    same(mapped(args.values, copied), mapped(args.values, sent), tolerance, what);
  }
  void same(const Args& host, const Args& there, double tolerance, const char* what) {
    std::vector<Tensor> want;
    try {
      want = with_gradients(op(), host);
    } catch (const Error&) {
      EXPECT_THROW(fetched(with_gradients(op(), there)), Error) << what;
      return;
    }
    // Not nearer than the results' own types tell, whatever the arguments' types.
    for (const Tensor& y : want)
      if (y)
        tolerance = std::max(tolerance, y.dtype() == DType::BFloat16  ? 1e-2
                                        : y.dtype() == DType::Float16 ? 2e-3
                                        : y.dtype() == DType::Float32 ? 1e-6
                                                                      : 0);
    const std::vector<Tensor> got = fetched(with_gradients(op(), there));
    for (const Tensor& y : got) EXPECT_TRUE(!y || y.device().is_cpu());
    EXPECT_EQ(difference(certain(got), certain(want), tolerance), "") << what;
    EXPECT_EQ(difference(fetched(there.tensors), host.tensors, tolerance), "") << what;
  }
  // The same bits in a tensor of the device that was there before, behind an offset.
  void same_into_a_tensor(const Args& there) {
    std::vector<Tensor> want;
    try {
      want = call(op(), there);
    } catch (const Error&) {
      return;
    }
    if (op().view || want.size() != 1 || !want[0] || want[0].device().is_cpu()) return;
    const Tensor to = sent(filled(want[0].shape(), 77, want[0].dtype()));
    const NoGrad quiet;
    call(op(), there, to);
    EXPECT_EQ(difference(fetched({to}), fetched(want), -1), "") << "into a tensor";
  }
  // What a search finds in a sequence that is not sorted is nobody's promise.
  Args searchable(const Args& args) const {
    bool sequence = std::string_view(op().name).starts_with("searchsorted");
    return mapped(args.values, [&](const Tensor& t) {
      return std::exchange(sequence, false) ? ops<"sort">(t, -1, false)[0] : t;
    });
  }
  // The signs of eigenvectors and singular vectors, and with them gradients, are their maker's choice,
  // and so are vectors without a value: on a GPU that is not the CPU's library, and on the CPU not that
  // library for many small matrices.
  std::vector<Tensor> certain(const std::vector<Tensor>& all) const {
    const std::string_view name = op().name;
    const auto size = [](const Tensor& t) { return tycho::op<"abs">(t); };
    if (name == "eigh") return {size(all[0]), size(all[1])};
    if (name != "svd") return all;
    const int64_t n = all[1].size(-1);
    const auto first = [&](const Tensor& t, int dim) {
      return size(tycho::op<"narrow">(t, dim, int64_t{0}, n));
    };
    return {first(all[0], -1), all[1], first(all[2], -2)};
  }
  static std::vector<Tensor> fetched(std::vector<Tensor> all) {
    for (Tensor& t : all)
      if (t) t = on_device(t, Device{});
    return all;
  }
};

TEST_P(CudaKernels, GiveWhatTheCpuGives) {
  if (op().random || reads_memory() || gives_any_values() || !in_ops()) return;
  each_sample([&](const Samples::Item& item) {
    same_on_device(mapped(item.args, copied), 1e-5, "as it is");
    same_into_a_tensor(mapped(item.args, sent));
    if (op().row >= 0 || (!has_kernel() && !op().is_composition())) return;
    for (const DType t : {DType::BFloat16, DType::Float16, DType::Float64}) {
      if (t != DType::BFloat16 && (!has_kernel() || kSanitized)) continue;
      same_on_device(mapped(item.args, [&](const Tensor& x) { return floating_as(x, t); }),
                     t == DType::Float64    ? 1e-12
                     : t == DType::BFloat16 ? 1e-2
                                            : 2e-3,
                     dtype_name(t));
    }
    same(mapped(item.args, [](const Tensor& t) { return turned(t, Device{}); }),
         mapped(item.args, [](const Tensor& t) { return turned(t, kDevice); }), 1e-5,
         "strides turned round");
    if (trusts_its_caller() || !has_kernel()) return;
    const Args large = searchable(enlarged(item.args, 2500));
    if (!kSanitized) same(mapped(large.values, copied), mapped(large.values, sent), 1e-4, "larger");
    same(mapped(large.values, [](const Tensor& t) { return turned(t, Device{}); }),
         mapped(large.values, [](const Tensor& t) { return turned(t, kDevice); }), 1e-4,
         "larger, strides turned round");
  });
}
TYCHO_EVERY_OP(CudaKernels);

}  // namespace
}  // namespace tycho::optest
