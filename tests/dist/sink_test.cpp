// Sinks of gradients: what a pass leads to is known when it begins, and a gradient is handed over as
// soon as it is final, while the sweep goes on.
#include "engine/grad/sink.h"

#include <gtest/gtest.h>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

Tensor leaf(double value) {
  Tensor t = filled(Sizes{2}, value, DType::Float32);
  t->requires_grad = true;
  return t;
}

Tensor grad_of(const Tensor& t) { return t->extra ? t->extra->grad : Tensor(); }

struct Recorder final : grad::LeafSink {
  std::vector<Tensor> leaves, places;
  std::vector<int> planned, came;
  std::vector<bool> had_gradient;
  int finished = 0, abandoned = 0, inside = 0;
  bool takes = true;

  explicit Recorder(std::vector<Tensor> own) : leaves(std::move(own)) {
    for (const Tensor& t : leaves) places.push_back(empty(t.shape(), t.dtype()));
    grad::leaf_sinks().push_back(this);
  }
  ~Recorder() { std::erase(grad::leaf_sinks(), static_cast<grad::LeafSink*>(this)); }
  int index(Impl* leaf) const {
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].get() == leaf) return static_cast<int>(i);
    return -1;
  }
  bool owns(Impl* leaf) const override { return index(leaf) >= 0; }
  bool begin(const std::vector<Impl*>& reached, bool) override {
    planned.clear();
    came.clear();
    had_gradient.clear();
    for (Impl* l : reached) planned.push_back(index(l));
    return takes;
  }
  Tensor place(Impl* leaf) override { return places[static_cast<size_t>(index(leaf))]; }
  void final(Impl* leaf) override {
    came.push_back(index(leaf));
    had_gradient.push_back(grad_of(Tensor(Ref<Impl>(leaf))).defined());
  }
  void finish() override { ++finished; }
  void abandon() override { ++abandoned; }
  void added_inside(Impl*) override { ++inside; }
};

TEST(Sinks, GradientsAreFinalInTheOrderOfTheSweepAndLieWhereTheSinkWants) {
  const Tensor a = leaf(1), b = leaf(2), c = leaf(3), unused = leaf(4);
  Recorder sink({a, b, c, unused});
  const Tensor y = op<"sum">((a * b) * c + a, nullptr, false);
  grad::backward({y}, {}, {});
  EXPECT_EQ(sink.came.front(), 2);  // a and b are needed by the oldest node
  EXPECT_EQ(sink.had_gradient, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(sink.finished, 1);
  EXPECT_EQ(sink.abandoned, 0);
  EXPECT_EQ(grad_of(a).get(), sink.places[0].get());
  EXPECT_EQ(number_at(grad_of(a), 0), 2 * 3 + 1);
  EXPECT_EQ(number_at(grad_of(c), 1), 2);
  EXPECT_FALSE(grad_of(unused));
  // What is there already is added to.
  grad::backward({op<"sum">(a * 5.0, nullptr, false)}, {}, {});
  EXPECT_EQ(number_at(grad_of(a), 0), 12);
  EXPECT_EQ(sink.came, std::vector<int>{0});
}

TEST(Sinks, AGradientIsHandedOverBeforeTheSweepReachesOlderNodes) {
  const Tensor late = leaf(1), early = leaf(2);
  struct Timed final : Observer {
    Recorder* sink;
    std::vector<size_t> seen;
    void step(const Node&, std::span<const Tensor>, std::span<const Tensor>) override {
      seen.push_back(sink->came.size());
    }
  } timed;
  Recorder sink({late, early});
  timed.sink = &sink;
  Tensor x = late * 2.0;
  for (int i = 0; i < 4; ++i) x = fn::tanh(x);
  const Tensor y = op<"sum">(x * early, nullptr, false);
  grad::SweepOptions o;
  o.observer = &timed;
  grad::backward({y}, {}, o);
  EXPECT_EQ(sink.came, (std::vector<int>{1, 0}));
  ASSERT_EQ(timed.seen.size(), 7u);  // sum, times, four tanh, times 2
  EXPECT_EQ(timed.seen[2], 1u);
}

TEST(Sinks, PassesThatASinkLeavesAloneAndPassesThatRaise) {
  const Tensor a = leaf(1);
  Recorder sink({a});
  sink.takes = false;
  grad::backward({op<"sum">(a, nullptr, false)}, {}, {});
  EXPECT_TRUE(sink.came.empty());
  EXPECT_NE(grad_of(a).get(), sink.places[0].get());
  sink.takes = true;
  const Tensor y = op<"sum">(a * a, nullptr, false);
  grad::backward({y}, {}, {});
  EXPECT_THROW(grad::backward({y}, {}, {}), Error);  // the graph is freed
  EXPECT_EQ(sink.finished, 1);
  EXPECT_EQ(sink.abandoned, 1);
}

TEST(Sinks, OnlyTheInputsOfAPassAreReached) {
  const Tensor a = leaf(1), b = leaf(2);
  Recorder sink({a, b});
  grad::backward({op<"sum">(a * b, nullptr, false)}, {}, {}, {b});
  EXPECT_EQ(sink.came, std::vector<int>{1});
  EXPECT_FALSE(grad_of(a));
  // torch.autograd.grad accumulates nothing, so no sink takes part.
  grad::gradients({op<"sum">(a * b, nullptr, false)}, {a}, {}, {});
  EXPECT_EQ(sink.finished, 1);
}

}  // namespace
}  // namespace tycho
