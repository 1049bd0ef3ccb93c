// Ranks meet, share a store, agree, and see how others end.
#include "engine/dist/job.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

TEST(Job, RanksMeetAndSeeEachOther) {
  for (const int n : {1, 2, 4}) {
    run_ranks(n, [&](const std::shared_ptr<Job>& job) {
      for (int r = 0; r < n; ++r) {
        EXPECT_EQ(job->peer(r).pid, getpid());
        EXPECT_EQ(job->peer(r).machine, job->peer(0).machine);
      }
      EXPECT_FALSE(job->failed());
    });
  }
}

TEST(Job, TheStoreIsSharedAndCountsExactly) {
  run_ranks(4, [&](const std::shared_ptr<Job>& job) {
    const int rank = job->env().rank;
    const auto store = job->store();
    for (int i = 0; i < 100; ++i) store->add("count", 1);
    store->set("done" + std::to_string(rank), std::string("a\0b", 3));
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(store->get("done" + std::to_string(r), Seconds(10)), std::string("a\0b", 3));
    EXPECT_EQ(store->add("count", 0), 400);
  });
}

TEST(Job, AgreementGoesWhenAllAskForTheSame) {
  run_ranks(4, [&](const std::shared_ptr<Job>& job) {
    Desc d;
    d.verb = Verb::AllReduce;
    d.shape = {3, 4};
    for (d.seq = 1; d.seq <= 50; ++d.seq) job->agree(d, {0, 1, 2, 3});
    d.group = 1;
    d.seq = 1;
    if (job->env().rank > 1) job->agree(d, {2, 3});
  });
}

TEST(Job, WhoAsksForSomethingElseIsNamedOnEveryRank) {
  const auto out = try_ranks(4, [&](const std::shared_ptr<Job>& job) {
    Desc d;
    d.verb = Verb::AllReduce;
    d.seq = 1;
    d.shape = {784, job->env().rank == 1 ? 11 : 10};
    d.line = {intern_source("train.lua"), 41};
    job->agree(d, {0, 1, 2, 3});
  });
  for (const Outcome& o : out) {
    EXPECT_EQ(o.reason, Reason::Disagree);
    EXPECT_EQ(o.ranks, std::vector<int>{1});
    EXPECT_EQ(o.op, "all_reduce");
    EXPECT_EQ(o.text,
              "ranks disagree in collective 1 of the world; nothing was sent\n"
              "   r0  all_reduce sum float32 [784, 10]   train.lua:41\n"
              "   r1  all_reduce sum float32 [784, 11]   train.lua:41\n"
              "   r2  all_reduce sum float32 [784, 10]   train.lua:41\n"
              "   r3  all_reduce sum float32 [784, 10]   train.lua:41");
  }
}

TEST(Job, WhoLeavesEarlyIsNamed) {
  const auto out = try_ranks(2, [&](const std::shared_ptr<Job>& job) {
    Desc d;
    d.seq = 1;
    job->doing(&d);
    job->agree(d, {0, 1});
    job->doing(nullptr);
    if (job->env().rank == 1) return;
    d.seq = 2;
    job->agree(d, {0, 1});
  });
  EXPECT_EQ(out[0].reason, Reason::Left);
  EXPECT_EQ(out[0].ranks, std::vector<int>{1});
  EXPECT_EQ(out[0].text, "rank 1 left after collective 1: fewer batches? see join");
  EXPECT_EQ(out[1].text, "");
}

}  // namespace
}  // namespace tycho::dist
