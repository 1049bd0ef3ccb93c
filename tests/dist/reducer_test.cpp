// The reducer with ranks as threads of one process: the mean over ranks arrives, whatever a loss leads to.
#include "engine/dist/reducer.h"

#include <gtest/gtest.h>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

Tensor parameter(int64_t n, double value, DType t = DType::Float32) {
  Tensor p = filled(Sizes{n}, value, t);
  p->requires_grad = true;
  return p;
}

double grad_at(const Tensor& t, int64_t i) { return number_at(t->extra->grad, i); }

Ref<Group> world(const std::shared_ptr<Job>& job) {
  std::vector<int> ranks;
  for (int r = 0; r < job->env().world_size; ++r) ranks.push_back(r);
  return Group::make(job, 1, ranks, "shm");
}

void step(const Tensor& loss) { grad::backward({op<"sum">(loss, nullptr, false)}, {}, {}); }

TEST(Reducer, EveryRankGetsTheMeanInBucketsThatAreMadeAgainInTheFirstOrder) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const int rank = job->env().rank;
    const Tensor a = parameter(5, 1), b = parameter(3, 2, DType::Float64), c = parameter(4, 3);
    Reducer reducer(world(job), {a, b, c}, {"a", "b", "c"}, {1, 1, {}});
    EXPECT_EQ(reducer.layout().front().names, std::vector<std::string>{"c"});
    for (int pass = 1; pass <= 3; ++pass) {
      // The youngest use is a's, so its gradient comes first.
      Tensor loss = op<"sum">(c * (rank + 1.0), nullptr, false);
      loss = loss + op<"to.dtype">(op<"sum">(b * (rank + 2.0), nullptr, false), DType::Float32);
      loss = loss + op<"sum">(a * (rank + 3.0), nullptr, false);
      step(loss);
      EXPECT_DOUBLE_EQ(grad_at(c, 3), 2.0 * pass);
      EXPECT_DOUBLE_EQ(grad_at(b, 2), 3.0 * pass);
      EXPECT_DOUBLE_EQ(grad_at(a, 4), 4.0 * pass);
    }
    EXPECT_EQ(reducer.layout().front().names, std::vector<std::string>{"a"});
    EXPECT_EQ(reducer.layout().size(), 3u);
  });
}

TEST(Reducer, WhatOneRankDoesNotUseIsZeroThereAndWhatNobodyUsesHasNoGradient) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const int rank = job->env().rank;
    const Tensor a = parameter(2, 1), b = parameter(2, 1), c = parameter(2, 1);
    Reducer reducer(world(job), {a, b, c}, {"a", "b", "c"}, {});
    step(rank == 0 ? a * 4.0 : b * 6.0);
    EXPECT_DOUBLE_EQ(grad_at(a, 1), 2);
    EXPECT_DOUBLE_EQ(grad_at(b, 0), 3);
    EXPECT_FALSE(c->extra && c->extra->grad);
    EXPECT_EQ(a->extra->grad->storage.get(), b->extra->grad->storage.get());
  });
}

TEST(Reducer, ManyPassesOverManyBucketsStayEqualAndRight) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const int rank = job->env().rank;
    std::vector<Tensor> all;
    std::vector<std::string> names;
    for (int i = 0; i < 20; ++i) {
      all.push_back(parameter(1000 + 37 * i, 0.5));
      names.push_back(std::to_string(i));
    }
    Reducer reducer(world(job), all, names, {4096, 8192, {}});
    EXPECT_GT(reducer.layout().size(), 5u);
    for (int pass = 0; pass < 30; ++pass) {
      Tensor loss = filled(Sizes{}, 0, DType::Float32);
      for (int i = 0; i < 20; ++i) {
        all[i]->extra ? extra_of(all[i].get()).grad = Tensor() : Tensor();
        if ((i + pass) % 3) loss = loss + op<"sum">(all[i] * (i + rank + pass), nullptr, false);
      }
      step(loss);
      for (int i = 0; i < 20; ++i) {
        if ((i + pass) % 3)
          ASSERT_DOUBLE_EQ(grad_at(all[i], 999), i + pass + 0.5);
        else
          ASSERT_FALSE(all[i]->extra && all[i]->extra->grad);
      }
    }
  });
}

TEST(Reducer, ASentYesReachesEveryRankWithTheGradients) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Tensor a = parameter(2, 1);
    Reducer reducer(world(job), {a}, {"a"}, {});
    for (int pass = 0; pass < 4; ++pass) {
      reducer.says_yes = job->env().rank == 1 && pass % 2 == 0;
      step(a * 1.0);
      EXPECT_EQ(reducer.any_said_yes(), pass % 2 == 0);
    }
  });
}

}  // namespace
}  // namespace tycho::dist
