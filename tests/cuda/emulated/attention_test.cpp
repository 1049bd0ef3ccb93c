// Attention where samples do not go: lengths around the tiles', head sizes, masks, heads that lie as
// they come out of a projection, and the gradients of all of it; by kernels alone, by products in
// pieces of few scores, and by the kernel of whole chunks.
#include "engine/cuda/ops/attention.h"

#include <utility>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

struct Case {
  Sizes query, key;  // [batch, heads, length, depth]; the value is as long as the key
  int64_t width;
  bool causal = false;
  Tensor mask = {};
  bool turned = false;  // heads lie inside of the lengths
};

Tensor heads_of(const Sizes& shape, DType t, bool turned, int seed) {
  const Sizes in_memory = turned ? Sizes{shape[0], shape[2], shape[1], shape[3]} : shape;
  const Tensor x = op<"mul">(mixed_numbers(in_memory, t, 997 + seed), 1.5);
  return turned ? op<"transpose">(x, 1, 2) : x;
}

// Result and gradients on both; 16-bit numbers against the CPU's float32.
void same_attention(const Case& c, DType t, double tolerance) {
  cuda::emulated::start();
  cuda::start();
  const auto made = [&](Device d) {
    const Sizes value{c.key[0], c.key[1], c.key[2], c.width};
    const Sizes out{c.query[0], c.query[1], c.query[2], c.width};
    const auto there = [&](const Tensor& x) {
      if (d.is_cpu()) return op<"to.dtype">(x, t == DType::Float64 ? t : DType::Float32);
      if (!c.turned) return sent(x, d);
      return op<"transpose">(sent(op<"transpose">(x, 1, 2), d), 1, 2);
    };
    const Tensor q = there(heads_of(c.query, t, c.turned, 0)),
                 k = there(heads_of(c.key, t, c.turned, 12)),
                 v = there(heads_of(value, t, c.turned, 40)),
                 g = there(heads_of(out, t, c.turned, 100));
    const Tensor mask = c.mask && !d.is_cpu() ? sent(c.mask, d) : c.mask;
    const auto y = ops<"fused_attention">(q, k, v, mask, c.causal, 0.3);
    const auto grads = ops<"fused_attention_backward">(g, q, k, v, mask, c.causal, 0.3, y[0], y[1]);
    std::vector<Tensor> all{y[0], y[1], grads[0], grads[1], grads[2]};
    if (d.is_cpu())
      for (Tensor& x : all)
        if (x.get() != y[1].get()) x = op<"to.dtype">(x, t);
    return all;
  };
  const auto& say = [&] {
    return format("%s, %lld and %lld of %lld and %lld%s", dtype_name(t),
                  static_cast<long long>(c.query[2]), static_cast<long long>(c.key[2]),
                  static_cast<long long>(c.query[3]), static_cast<long long>(c.width),
                  c.causal ? ", causal" : "");
  };
  same_values(made(Device{0}), made(Device{}), tolerance, say().c_str());
}
void same_attention(const Case& c) {
  same_attention(c, DType::Float32, 1e-4);
  same_attention(c, DType::BFloat16, 3e-2);
}

constexpr cuda::AttentionLimits kKernels{false, int64_t{1} << 62, 1, 1},
    kSmallPieces{false, 1, 12000, 24}, kFlash{true, 1, 12000, 24};

class CudaAttention : public testing::TestWithParam<bool> {
 protected:
  CudaAttention() { cuda::attention_limits = GetParam() ? kSmallPieces : kKernels; }
  ~CudaAttention() override { cuda::attention_limits = limits_; }
  const cuda::AttentionLimits limits_ = cuda::attention_limits;
};
INSTANTIATE_TEST_SUITE_P(Ways, CudaAttention, testing::Bool(), [](const auto& way) -> std::string {
  return way.param ? "ByProducts" : "ByKernels";
});

TEST_P(CudaAttention, LengthsAroundThoseOfTiles) {
  for (const int64_t queries : {1, 31, 33, 65})
    for (const int64_t keys : {1, 31, 33, 65})
      same_attention({{1, 1, queries, 7}, {1, 1, keys, 7}, 5, queries != 33});
  same_attention({{1, 1, 3, 4}, {1, 1, 0, 4}, 4});
  same_attention({{1, 1, 0, 4}, {1, 1, 3, 4}, 4});
}

TEST_P(CudaAttention, HeadSizesAroundThoseOfTiles) {
  for (const int64_t depth : {1, 16, 64, 100, 128, 150})
    same_attention({{1, 2, 20, depth}, {1, 2, 37, depth}, depth, depth == 64});
  same_attention({{1, 1, 20, 130}, {1, 1, 37, 130}, 8});
  same_attention({{1, 1, 20, 8}, {1, 1, 37, 8}, 260});
  same_attention({{1, 1, 5, 0}, {1, 1, 6, 0}, 3});
}

TEST_P(CudaAttention, EveryTypeHasItsKernel) {
  for (const DType t : {DType::Float16, DType::Float64})
    same_attention({{2, 1, 40, 24}, {2, 1, 50, 24}, 70, true}, t,
                   t == DType::Float64 ? 1e-12 : 4e-3);
}

TEST_P(CudaAttention, HeadsThatLieInsideOfTheLengthsAndGroupsOfQueries) {
  same_attention({{2, 4, 35, 16}, {2, 2, 70, 16}, 16, true, {}, true});
  same_attention({{2, 4, 35, 12}, {2, 1, 20, 12}, 9, false, {}, false});
}

TEST_P(CudaAttention, MasksAreBroadcastAndRowsWithoutAKeyGiveZeros) {
  Tensor add = mixed_numbers({2, 1, 20, 40}, DType::Float32);
  for (int64_t j = 0; j < 40; ++j) add.data<float>()[3 * 40 + j] = -HUGE_VALF;
  for (int64_t j = 0; j < 33; ++j) add.data<float>()[5 * 40 + j] = -HUGE_VALF;
  const Case with_add{{2, 3, 20, 8}, {2, 3, 40, 8}, 8, false, add};
  same_attention(with_add);
  const Case with_bool{
      {2, 3, 20, 8}, {2, 3, 40, 8}, 8, false, op<"gt">(op<"select">(add, 0, 1), 0.0)};
  same_attention(with_bool);
  const Tensor none = op<"zeros">(Sizes{20, 1}, DType::Bool);
  none.data<uint8_t>()[7] = 1;
  same_attention({{2, 3, 20, 8}, {2, 3, 40, 8}, 8, false, none});
  same_attention(
      {{2, 3, 20, 8}, {2, 3, 40, 8}, 8, false, mixed_numbers({3, 1, 40}, DType::Float64)});
}

TEST_P(CudaAttention, ANanInAQuerySpoilsItsRowAlone) {
  const Tensor x = mixed_numbers({1, 1, 5, 8}, DType::Float32);
  const Tensor q = op<"clone">(x);
  q.data<float>()[2 * 8 + 1] = std::nanf("");
  q.data<float>()[3 * 8 + 1] = HUGE_VALF;
  same_made(
      [&](Device d) {
        const Tensor there = sent(x, d);
        return std::vector<Tensor>{
            ops<"fused_attention">(sent(q, d), there, there, Tensor(), false, 0.3)[0]};
      },
      1e-5);
}

TEST_P(CudaAttention, RowsThatAreLongerThanABlockHolds) {
  if (!GetParam()) GTEST_SKIP() << "of products only";
  for (const int64_t keys : {700, 8300}) {
    same_attention({{1, 1, 2, 4}, {1, 1, keys, 4}, 4});
    same_attention(
        {{1, 1, 2, 4}, {1, 1, keys, 4}, 4, false, mixed_numbers({2, keys}, DType::Float32)});
  }
}

TEST(CudaAttentionFlash, LengthsAndHeadSizesAroundItsTiles) {
  const cuda::AttentionLimits limits = std::exchange(cuda::attention_limits, kFlash);
  const auto same = [](const Case& c) { same_attention(c, DType::BFloat16, 3e-2); };
  for (const bool causal : {false, true}) {
    same({{1, 2, 131, 64}, {1, 2, 129, 64}, 64, causal});
    same({{1, 1, 130, 128}, {1, 1, 70, 128}, 72, causal});
    same({{2, 4, 20, 24}, {2, 2, 150, 24}, 40, causal, {}, true});
    same({{1, 1, 5, 96}, {1, 1, 64, 96}, 8, causal});
    same_attention({{1, 1, 65, 40}, {1, 1, 65, 40}, 40, causal}, DType::Float16, 4e-3);
  }
  same({{1, 1, 70, 16}, {1, 1, 33, 16}, 8, true});
  same({{1, 1, 3, 8}, {1, 1, 0, 8}, 8});
  same({{1, 1, 0, 8}, {1, 1, 3, 8}, 8});
  cuda::attention_limits = limits;
}

TEST_P(CudaAttention, TheGradientTakesWhatTheOtherWayLeft) {
  const auto attend = [](bool other) {
    const auto made = [](const Sizes& shape, int64_t different) {
      return sent(mixed_numbers(shape, DType::Float32, different), Device{0});
    };
    const Tensor q = made({2, 4, 50, 8}, 997), k = made({2, 2, 60, 8}, 991),
                 v = made({2, 2, 60, 12}, 983), g = made({2, 4, 50, 12}, 977);
    const auto y = ops<"fused_attention">(q, k, v, Tensor(), true, 0.4);
    if (other) cuda::attention_limits = GetParam() ? kKernels : kSmallPieces;
    const auto grads = ops<"fused_attention_backward">(g, q, k, v, Tensor(), true, 0.4, y[0], y[1]);
    return std::vector<Tensor>{fetch(grads[0]), fetch(grads[1]), fetch(grads[2])};
  };
  cuda::emulated::start();
  cuda::start();
  const std::vector<Tensor> want = attend(false);
  same_values(attend(true), want, 1e-5, "gradients");
}

// Results, gradients and gradients of gradients, from one seed.
std::vector<Tensor> with_dropout(bool fused, bool causal, DType t) {
  const Device d{0};
  const auto leaf = [&](const Sizes& shape, int64_t different) {
    const Tensor x = sent(mixed_numbers(shape, t, different), d);
    x->requires_grad = true;
    return x;
  };
  const Tensor q = leaf({1, 4, 9, 5}, 997), k = leaf({1, 2, 37, 5}, 991),
               v = leaf({1, 2, 37, 6}, 983);
  const Tensor g = sent(mixed_numbers({1, 4, 9, 6}, t, 977), d);
  generator_of(d).philox->seed(11);
  Tensor y;
  if (fused) {
    y = op<"scaled_dot_product_attention">(q, k, v, Value(), 0.4, causal, 0.3, true);
  } else {
    Tensor s = op<"matmul">(q * 0.3, op<"transpose">(op<"repeat_interleave">(k, 2, -3), -2, -1));
    if (causal) {
      const Tensor seen = op<"tril">(op<"ones">(Sizes{9, 37}, DType::Bool, d));
      s = op<"masked_fill">(s, op<"logical_not">(seen), -HUGE_VAL);
    }
    y = op<"matmul">(op<"dropout">(op<"softmax">(s, -1), 0.4), op<"repeat_interleave">(v, 2, -3));
  }
  const auto first = grad::gradients({y}, {q, k, v}, {g}, {.create_graph = t == DType::Float64});
  std::vector<Tensor> all{alias(y), first[0], first[1], first[2]};
  if (t != DType::Float64) return all;
  const auto second = grad::gradients({first[0]}, {q, k, v}, {q}, {});
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

TEST_P(CudaAttention, DropoutHasTheNumbersThatTheWeightsWouldHave) {
  cuda::emulated::start();
  cuda::start();
  for (const bool causal : {false, true})
    for (const DType t : {DType::Float32, DType::Float64}) {
      std::vector<Tensor> want = with_dropout(false, causal, t);
      for (Tensor& x : want) x = fetch(x);
      same_values(with_dropout(true, causal, t), want, t == DType::Float64 ? 1e-12 : 1e-5,
                  dtype_name(t));
    }
}

}  // namespace
}  // namespace tycho
