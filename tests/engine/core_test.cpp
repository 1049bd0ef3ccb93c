// The thin line through the engine: rows, views, gradients, in-place rules.
#include <gtest/gtest.h>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho {
namespace {

Tensor make(const Sizes& shape, std::vector<float> values) {
  Tensor t = empty(shape, DType::Float32);
  for (int64_t i = 0; i < t.numel(); ++i) t.host<float>()[i] = values[i % values.size()];
  return t;
}
Tensor leaf(const Sizes& shape, std::vector<float> values) {
  Tensor t = make(shape, values);
  t->requires_grad = true;
  return t;
}
std::vector<float> values(const Tensor& t) {
  Tensor p = packed(t);
  return std::vector<float>(p.host<float>(), p.host<float>() + p.numel());
}
using V = std::vector<float>;

TEST(Rows, BroadcastAndPromote) {
  const Tensor a = make({2, 1}, {1, 2}), b = make({3}, {10, 20, 30});
  EXPECT_EQ(values(a + b), (V{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(values(a * 2.5), (V{2.5, 5}));
  EXPECT_EQ(fn::gt(b, 15).dtype(), DType::Bool);
  EXPECT_THROW(make({2}, {1}) + make({3}, {1}), Error);
}

TEST(Rows, WorkOnTransposedAndLargeTensors) {
  Tensor a = make({300, 200}, {1, 2, 3, 4, 5, 6, 7});
  Tensor t = op<"transpose">(a, 0, 1);
  Tensor s = t + make({200, 300}, {0});
  EXPECT_EQ(values(s), values(t));
}

TEST(Grad, OfProductsAndSums) {
  Tensor a = leaf({2, 2}, {1, 2, 3, 4}), b = leaf({2}, {5, 6});
  Tensor y = op<"sum">(a * b + a);
  grad::backward({y}, {}, {});
  EXPECT_EQ(values(a->extra->grad), (V{6, 7, 6, 7}));
  EXPECT_EQ(values(b->extra->grad), (V{4, 6}));
  EXPECT_THROW(grad::backward({op<"sum">(y * y)}, {}, {}), Error);
}

TEST(Grad, OfSecondAndThirdOrder) {
  Tensor x = leaf({1}, {2});
  Tensor y = x * x * x;
  grad::SweepOptions o;
  o.create_graph = true;
  Tensor g1 = grad::gradients({y}, {x}, {}, o)[0];
  Tensor g2 = grad::gradients({g1}, {x}, {}, o)[0];
  Tensor g3 = grad::gradients({g2}, {x}, {}, o)[0];
  EXPECT_EQ(values(g1), V{12});
  EXPECT_EQ(values(g2), V{12});
  EXPECT_EQ(values(g3), V{6});
}

TEST(Grad, AChainOfAMillionNodesNeedsNoStack) {
  Tensor x = leaf({1}, {1}), y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 1;
  grad::backward({y}, {}, {});
  EXPECT_EQ(values(x->extra->grad), V{1});
  y = Tensor();
}

TEST(Inplace, ChangesOfViewsReachTheGraphOfTheirBase) {
  Tensor x = leaf({4}, {1, 2, 3, 4}), w = leaf({2}, {10, 20});
  Tensor y = x * 2;
  Tensor v = op<"view">(y, Sizes{2, 2});
  Tensor row = op<"select">(v, 0, 1);
  op_<"add">(row, w);  // y = 2x, w added to its last two elements
  op_<"mul">(row, 3);
  EXPECT_EQ(values(y), (V{2, 4, 48, 84}));
  grad::backward({op<"sum">(y) + op<"sum">(v)}, {}, {});
  EXPECT_EQ(values(x->extra->grad), (V{4, 4, 12, 12}));
  EXPECT_EQ(values(w->extra->grad), (V{6, 6}));
}

TEST(Inplace, OnALeafIsRefusedAndSavedTensorsAreGuarded) {
  Tensor x = leaf({2}, {1, 2});
  EXPECT_THROW(op_<"add">(x, 1), Error);
  Tensor y = fn::exp(x);
  op_<"add">(y, 1);
  EXPECT_THROW(grad::backward({op<"sum">(y)}, {}, {}), Error);
}

}  // namespace
}  // namespace tycho
