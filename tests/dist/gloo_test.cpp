// Gloo: every verb against the serial reference, where each rank has a host of its own, and where
// some share one; messages. Ranks are threads here, and their hosts are names.
#include "engine/dist/gloo.h"

#include <cstring>

#include "engine/ops/table/apply.h"
#include "tests/dist/elsewhere.h"
#include "tests/dist/verbs.h"

namespace tycho::dist {
namespace {

class GlooWorld : public testing::TestWithParam<int> {};

TEST_P(GlooWorld, MovesAndCombinesEveryTypeAsASerialReference) {
  run_ranks(GetParam(), [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job, 0, make_flat_gloo);
    for (const DType t : kTypes)
      for (const int64_t n : {0, 1000}) every_verb(*g, n, t);
    for (const DType t : {DType::Float32, DType::Float16})
      for (const int64_t n : {1, 7, 65536}) every_verb(*g, n, t);
  });
}

TEST_P(GlooWorld, MovesAMillionAndThreeElements) {
  run_ranks(GetParam(), [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job, 0, make_flat_gloo);
    for (const DType t : {DType::BFloat16, DType::Float32}) every_verb(*g, 1000003, t);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GlooWorld, testing::Range(2, 5));

class GlooHosts : public testing::TestWithParam<const char*> {};

TEST_P(GlooHosts, SharesMemoryInsideAHostAndGoesBetweenHostsOnce) {
  const std::string hosts = GetParam();
  run_ranks(static_cast<int>(hosts.size()), [&](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(std::make_shared<Elsewhere>(job, hosts), 0, make_gloo);
    for (const DType t : {DType::Float32, DType::BFloat16, DType::Int64, DType::Bool})
      for (const int64_t n : {0, 1, 1000}) every_verb(*g, n, t);
    every_verb(*g, 300001, DType::Float32);
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, GlooHosts, testing::Values("aab", "abb", "abab", "abca"));

// Numbers whose sum depends on the order.
Tensor uneven(int rank, int64_t n, DType t) {
  const Tensor x = empty({n}, DType::Float32);
  for (int64_t i = 0; i < n; ++i)
    x.host<float>()[i] =
        static_cast<float>((i * 2654435761u + rank * 40503u) % 65536) / 7.0f - 4000;
  return op<"to.dtype">(x, t);
}

TEST(Gloo, SumsHaveTheSameBitsOnEveryRankAndInEveryRun) {
  for (const DType t : {DType::Float32, DType::BFloat16})
    for (const int64_t n : {1000, 40000, 2000000}) {
      std::string first;
      for (int run = 0; run < 2; ++run) {
        std::vector<std::string> got(4);
        run_ranks(4, [&](std::shared_ptr<Job> job) {
          const Ref<Group> g = world(job, 0, make_flat_gloo);
          Tensor x = uneven(job->env().rank, n, t);
          g->start(desc(Verb::AllReduce, x), x, x, false);
          got[static_cast<size_t>(job->env().rank)] = bytes(x);
        });
        if (first.empty()) first = got[0];
        for (const std::string& s : got) EXPECT_TRUE(s == first);
      }
    }
}

TEST(Gloo, MessagesArriveByTagFromWhomTheyAreAskedOf) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job, 0, make_flat_gloo);
    const int me = job->env().rank;
    const auto numbers = [](int rank, int64_t n, int salt) {
      return data(rank, n, DType::Float32, salt);
    };
    // In a circle, large and crossing.
    const Tensor mine = numbers(me, 500000, 0), theirs = empty({500000}, DType::Float32);
    const Ref<Work> sent = g->start_send(mine, (me + 1) % 3, 0, true);
    g->start_receive(theirs, (me + 2) % 3, 0, false);
    sent->wait();
    EXPECT_EQ(bytes(theirs), bytes(numbers((me + 2) % 3, 500000, 0)));
    // Two tags in the other order, none of the elements, and from anybody.
    if (me > 0) {
      const Tensor a = numbers(me, 10, 1), b = numbers(me, 20, 2),
                   none = empty({0}, DType::Float32);
      std::vector<Ref<Work>> works;
      if (me == 1) {
        works.push_back(g->start_send(a, 0, 5, true));
        works.push_back(g->start_send(b, 0, 6, true));
        works.push_back(g->start_send(none, 0, 7, true));
      }
      works.push_back(g->start_send(a, 0, 8, true));
      for (const auto& w : works) w->wait();
      return;
    }
    const Tensor a = empty({10}, DType::Float32), b = empty({20}, DType::Float32),
                 none = empty({0}, DType::Float32);
    g->start_receive(b, 1, 6, false);
    EXPECT_EQ(bytes(b), bytes(numbers(1, 20, 2)));
    g->start_receive(a, 1, 5, false);
    EXPECT_EQ(bytes(a), bytes(numbers(1, 10, 1)));
    g->start_receive(none, -1, 7, false);
    int senders = 0;
    for (int i = 0; i < 2; ++i) {
      const Ref<Work> w = g->start_receive(a, -1, 8, true);
      w->wait();
      EXPECT_EQ(bytes(a), bytes(numbers(w->sender(), 10, 1)));
      senders += w->sender();
    }
    EXPECT_EQ(senders, 3);
  });
}

TEST(Gloo, AHundredMessagesCrossWhileCollectivesRun) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job, 0, make_flat_gloo);
    const int me = job->env().rank;
    std::vector<Ref<Work>> works;
    std::vector<Tensor> in;
    for (int i = 0; i < 100; ++i) {
      works.push_back(g->start_send(data(me, 100 + i, DType::Int32, i), 1 - me, i % 3, true));
      in.push_back(empty({100 + i}, DType::Int32));
      works.push_back(g->start_receive(in.back(), 1 - me, i % 3, true));
      if (i % 10 == 0) {
        Tensor x = data(me, 1000, DType::Float32);
        g->start(desc(Verb::AllReduce, x), x, x, false);
      }
    }
    for (const auto& w : works) w->wait();
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(bytes(in[static_cast<size_t>(i)]), bytes(data(1 - me, 100 + i, DType::Int32, i)));
  });
}

TEST(Gloo, MessagesOfAnotherSizeAreRefusedOnBothSides) {
  const auto outcomes = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job, 0, make_flat_gloo);
    const Tensor x = empty({10 + job->env().rank}, DType::Float32);
    if (job->env().rank == 0)
      g->start_send(x, 1, 0, false);
    else
      g->start_receive(x, 0, 0, false);
  });
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.reason, Reason::Disagree);
    EXPECT_EQ(o.ranks, (std::vector<int>{0, 1}));
    EXPECT_EQ(
        o.text,
        "ranks disagree in a message; r0 sends 10 elements of float32, r1 expects 11 elements of "
        "float32");
  }
}

}  // namespace
}  // namespace tycho::dist
