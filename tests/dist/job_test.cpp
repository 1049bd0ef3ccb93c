// Ranks meet, share a store, agree, and see how others end.
#include "engine/dist/job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "engine/base/interrupt.h"
#include "engine/dist/socket.h"
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

TEST(Job, EveryFieldOfACollectiveIsCompared) {
  using Change = std::pair<const char*, std::function<void(Desc&)>>;
  const Change changes[] = {
      {"verb", [](Desc& d) { d.verb = Verb::Reduce; }},
      {"red", [](Desc& d) { d.red = RedOp::Max; }},
      {"dtype", [](Desc& d) { d.dtype = DType::Float64; }},
      {"root", [](Desc& d) { d.root = 3; }},
      {"size", [](Desc& d) { d.shape[1] = 11; }},
      {"order", [](Desc& d) { std::swap(d.shape[0], d.shape[1]); }},
      {"rank", [](Desc& d) { d.shape.push_back(1); }},
  };
  for (const auto& [field, change] : changes) {
    const auto out = try_ranks(8, [&](const std::shared_ptr<Job>& job) {
      const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
      Desc d;
      d.verb = Verb::AllReduce;
      d.shape = {784, 10};
      d.seq = 1;
      job->agree(d, all);
      Desc other = d;
      other.seq = 2;
      Desc changed = other;
      change(changed);
      if (job->env().rank == 5) other = changed;
      const Outcome o = outcome([&] { job->agree(other, all); });
      EXPECT_EQ(o.reason, Reason::Disagree) << field;
      EXPECT_EQ(o.ranks, std::vector<int>{5}) << field;
      EXPECT_EQ(o.seq, 2u);
      EXPECT_NE(o.text.find("\n   r5  " + changed.text()), std::string::npos) << o.text;
      // Nothing was sent, so the next one may go.
      d.seq = 3;
      job->agree(d, all);
    });
    for (const Outcome& o : out) EXPECT_EQ(o.text, "") << field;
  }
}

TEST(Job, WhatNeedNotBeEqualIsNotCompared) {
  Desc a, b;
  a.verb = b.verb = Verb::Broadcast;
  a.shape = b.shape = {3};
  b.line = {intern_source("other.lua"), 7};
  b.red = RedOp::Max;  // it reduces nothing
  EXPECT_EQ(a.hash(), b.hash());
  a.verb = b.verb = Verb::AllToAll;
  a.send = {1, 2}, a.receive = {1, 1};
  b.send = {1, 3}, b.receive = {2, 3};
  a.shape = {3, 7}, b.shape = {4, 7};
  EXPECT_EQ(a.hash(), b.hash());
  b.shape = {4, 8};
  EXPECT_NE(a.hash(), b.hash());
}

TEST(Job, ADisagreementWithoutAMajorityNamesAll) {
  std::vector<Asked> asked{{0, 1, "a", "x:1"}, {1, 2, "b", ""}};
  EXPECT_EQ(disagreement(3, 4, asked).ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(
      disagreement(3, 4, asked).text,
      "ranks disagree in collective 4 of group 3; nothing was sent\n   r0  a   x:1\n   r1  b");
  asked.clear();
  for (int r = 0; r < 1000; ++r)
    asked.push_back({r, uint64_t{r == 777}, r == 777 ? "b" : "a", "x:1"});
  EXPECT_EQ(disagreement(0, 4, asked).ranks, std::vector<int>{777});
  EXPECT_EQ(disagreement(0, 4, asked).text,
            "ranks disagree in collective 4 of the world; nothing was sent\n"
            "   r0    a   x:1   and 998 more\n   r777  b   x:1");
}

TEST(Job, MissingRanksAreNamed) {
  const HangLimit limit;
  const auto server = Server::start();
  std::vector<std::thread> threads;
  for (const int rank : {0, 3})
    threads.emplace_back([&, rank] {
      Env e = env_of(*server, rank, 4);
      e.init_timeout = Seconds(0.3);
      const Outcome o = outcome([&] { Job::join(e); });
      EXPECT_EQ(o.reason, Reason::Timeout);
      EXPECT_EQ(o.ranks, (std::vector<int>{1, 2}));
      EXPECT_EQ(o.text, "ranks 1 and 2 of 4 did not come within 0.3 s");
    });
  for (auto& t : threads) t.join();
}

TEST(Job, ARankThatExistsAlreadyIsRefusedAndTheOthersGoOn) {
  const HangLimit limit;
  const auto server = Server::start();
  std::thread first([&] { Job::join(env_of(*server, 0, 2)); });
  while (server->ranks_here() < 1) usleep(100);
  const Outcome o = outcome([&] { Job::join(env_of(*server, 0, 2)); });
  EXPECT_EQ(o.reason, Reason::Refused);
  EXPECT_EQ(o.ranks, std::vector<int>{0});
  EXPECT_EQ(o.text.find("there is already rank 0 (pid "), 0u) << o.text;
  const Outcome other = outcome([&] { Job::join(env_of(*server, 1, 3)); });
  EXPECT_EQ(other.text, "rank 1 says that the world has 3 ranks, the others say 2");
  const Outcome well = outcome([&] { Job::join(env_of(*server, 1, 2)); });
  EXPECT_EQ(well.text, "");
  first.join();
}

TEST(Job, OneServerSeesManyJobsOneAfterTheOther) {
  const HangLimit limit;
  const auto server = Server::start();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 20; ++i) {
        const auto job = Job::join(env_of(*server, rank, 3));
        // Keys of the job before are not there any more.
        EXPECT_FALSE(job->store()->try_get("rank" + std::to_string(rank)));
        job->store()->set("rank" + std::to_string(rank), "here");
        Desc d;
        d.seq = 1;
        job->agree(d, {0, 1, 2});
        job->close();
      }
    });
  for (auto& t : threads) t.join();
}

TEST(Job, ARankThatComesForTheNextJobFollowsTheServerThatEndsInOrder) {
  const HangLimit limit;
  auto server = Server::start();
  ServerOptions same;
  same.port = parse_address(server->address()).port;
  same.token = server->token();
  const Env zero = env_of(*server, 0, 2), one = env_of(*server, 1, 2);
  std::shared_ptr<Job> first;
  std::thread other([&] { first = Job::join(zero); });
  Job::join(one)->close();
  other.join();
  // Rank 1 starts again while rank 0 has not ended yet; then the launcher starts all again.
  std::thread again([&] { EXPECT_EQ(outcome([&] { Job::join(one); }).text, ""); });
  while (server->ranks_here() < 2) usleep(100);
  server.reset();
  server = Server::start(same);
  first->close();
  EXPECT_EQ(outcome([&] { Job::join(zero); }).text, "");
  again.join();
}

TEST(Job, AnErrorThatEndsARankIsToldToTheOthers) {
  const auto out = try_ranks(2, [&](const std::shared_ptr<Job>& job) {
    if (job->env().rank == 1) return job->close("train.lua:3: boom");
    Desc d;
    d.seq = 1;
    job->agree(d, {0, 1});
  });
  EXPECT_EQ(out[0].reason, Reason::Left);
  EXPECT_EQ(out[0].text, "rank 1 ended before any collective with an error: train.lua:3: boom");
}

TEST(Job, AnInterruptEndsTheWaitOfItsThreadOnly) {
  std::atomic<bool> flags[2] = {false, false};
  std::atomic<bool> waits{false};
  const auto out = try_ranks(2, [&](const std::shared_ptr<Job>& job) {
    const int rank = job->env().rank;
    use_own_interrupts(flags[rank]);
    Desc d;
    d.seq = 1;
    if (rank == 0) {
      while (!waits) usleep(100);
      usleep(1000);
      flags[1] = true;
      return void(job->store()->get("over", Seconds(10)));
    }
    waits = true;
    bool interrupted = false;
    try {
      job->agree(d, {0, 1});
    } catch (const Error& e) {
      interrupted = e.kind == Kind::Interrupt;
    }
    EXPECT_TRUE(interrupted);
    job->store()->set("over", "");
  });
  for (const Outcome& o : out) EXPECT_EQ(o.text, "");
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
