// Ranks that die while they call collectives over shared memory: the others raise within a moment,
// with the same reason and culprit, wherever the dead one was.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "engine/dist/group.h"
#include "engine/dist/socket.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/dist/children.h"

namespace tycho::dist {
namespace {

#if defined(__SANITIZE_THREAD__)
#define NEEDS_FORK() GTEST_SKIP() << "the thread sanitizer does not follow forks"
#else
#define NEEDS_FORK() static_cast<void>(0)
#endif

constexpr int kRanks = 3;

int times(int usual, int soak) { return std::getenv("TYCHO_SOAK") ? soak : usual; }

// Descriptors that are open, and children that nobody has waited for.
std::pair<size_t, bool> left_behind() {
  const std::filesystem::directory_iterator open("/proc/self/fd"), end;
  return {static_cast<size_t>(std::distance(open, end)), waitpid(-1, nullptr, WNOHANG) >= 0};
}

Desc desc_of(Verb verb, const Tensor& t, int root = -1) {
  Desc d;
  d.verb = verb;
  d.dtype = t.dtype();
  d.shape = t.shape();
  d.root = root;
  d.line = {intern_source("train.lua"), 41};
  return d;
}

// Everything that a rank may be in when it dies, round after round.
void work_for_ever(const std::shared_ptr<Job>& job, const Ref<Group>& g) {
  const Tensor small = filled({100}, 1, DType::Float32), big = filled({1 << 20}, 1, DType::Float32);
  const Tensor all = empty({kRanks << 20}, DType::Float32);
  const Tensor from = filled({50000}, 1, DType::Int32), to = filled({50000}, 0, DType::Int32);
  const int me = g->members().rank;
  for (int round = 0;; ++round) {
    for (int i = 0; i < 20; ++i) g->start(desc_of(Verb::AllReduce, small), small, small, false);
    g->start(desc_of(Verb::AllReduce, big), big, big, false);
    const Ref<Work> a = g->start(desc_of(Verb::AllGather, big), big, all, true);
    const Ref<Work> b = g->start(desc_of(Verb::Broadcast, small, 1), small, small, true);
    const Ref<Work> s = g->start_send(from, (me + 1) % kRanks, 0, true);
    const Ref<Work> r = g->start_receive(to, (me + kRanks - 1) % kRanks, 0, true);
    r->wait();
    b->wait();
    a->wait();
    s->wait();
    const Ref<Group> once = Group::make(job, static_cast<uint32_t>(round + 1), {0, 1, 2}, "shm");
    once->start(desc_of(Verb::Barrier, small), Tensor(), Tensor(), false);
    if (round == 0) Children::say('a');
  }
}

TEST(GroupFault, ARankKilledAtAnyMomentIsNamedByAllOthers) {
  NEEDS_FORK();
  const auto before = left_behind();
  for (int i = 0; i < times(20, 200); ++i) {
    Children ranks(kRanks, [](const Env& e) {
      const auto job = Job::join(e);
      work_for_ever(job, Group::make(job, 0, {0, 1, 2}, ""));
    });
    const HangLimit limit;
    const auto server = Server::start();
    const int victim = i % kRanks;
    // Every fourth time it dies at the beginning, among those that still meet.
    const bool early = i % 4 == 3;
    RanksOptions options;
    if (early) options.init_timeout = Seconds(3);
    ranks.begin(*server, options);
    for (int r = 0; r < kRanks && !early; ++r) ASSERT_EQ(ranks.heard(r), 'a');
    usleep(static_cast<useconds_t>(early ? 2000 + i * 531 % 9000 : i * 1371 % 20000));
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < kRanks; ++r) {
      const Outcome o = ranks.outcome(r);
      if (r == victim) {
        EXPECT_EQ(o.text, "signal 9");
        continue;
      }
      // Whoever dies before all have met may not be known to the others yet.
      if (early && o.reason == Reason::Timeout) continue;
      EXPECT_EQ(o.reason, Reason::Died) << "try " << i << ", rank " << r << ": " << o.text;
      EXPECT_EQ(o.ranks, std::vector<int>{victim}) << o.text;
      EXPECT_NE(o.text.find("rank " + std::to_string(victim) + " (pid "), std::string::npos)
          << o.text;
    }
  }
  EXPECT_EQ(left_behind(), before);
}

// At the end of a job: those who live end too, and nothing is wrong but with the one that was killed.
TEST(GroupFault, ARankKilledWhileAllEndHoldsNobodyUp) {
  NEEDS_FORK();
  const auto before = left_behind();
  for (int i = 0; i < times(10, 100); ++i) {
    Children ranks(kRanks, [](const Env& e) {
      const auto job = Job::join(e);
      {
        const Ref<Group> g = Group::make(job, 0, {0, 1, 2}, "");
        const Tensor x = filled({1 << 20}, 1, DType::Float32);
        g->start(desc_of(Verb::AllReduce, x), x, x, false);
        Children::say('a');
        g->close();
      }
      job->close();
    });
    const HangLimit limit;
    const auto server = Server::start();
    ranks.begin(*server);
    for (int r = 0; r < kRanks; ++r) ranks.heard(r);
    const int victim = i % kRanks;
    usleep(static_cast<useconds_t>(i * 37 % 700));
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < kRanks; ++r) {
      const Outcome o = ranks.outcome(r);
      if (r == victim && o.text == "signal 9") continue;
      EXPECT_TRUE(o.reason == Reason::None || o.reason == Reason::Died)
          << "try " << i << ", rank " << r << ": " << o.text;
      if (o.reason == Reason::Died) {
        EXPECT_EQ(o.ranks, std::vector<int>{victim}) << o.text;
      }
    }
  }
  EXPECT_EQ(left_behind(), before);
}

TEST(GroupFault, RanksRegroupTwentyTimes) {
  const auto out = try_ranks(kRanks, [](const std::shared_ptr<Job>& job) {
    for (uint32_t id = 0; id < 20; ++id) {
      const std::vector<int> stay = job->shrink({});
      EXPECT_EQ(stay, (std::vector<int>{0, 1, 2}));
      const Ref<Group> g = Group::make(job, id, stay, "");
      Tensor x = filled({20000}, 1, DType::Float32);
      g->start(desc_of(Verb::AllReduce, x), x, x, false);
      EXPECT_EQ(number_at(x.get(), 19999), 3);
      g->close();
    }
  });
  for (const Outcome& o : out) EXPECT_EQ(o.text, "");
}

TEST(GroupFault, ARankThatIsStoppedTimesOutAndIsNamed) {
  NEEDS_FORK();
  Children ranks(kRanks, [](const Env& env) {
    Env e = env;
    e.timeout = Seconds(1);
    const auto job = Job::join(e);
    const Ref<Group> g = Group::make(job, 0, {0, 1, 2}, "");
    const Tensor x = filled({100}, 1, DType::Float32);
    for (int i = 0;; ++i) {
      g->start(desc_of(Verb::AllReduce, x), x, x, false);
      if (i == 10) Children::say('a');
    }
  });
  const HangLimit limit;
  const auto server = Server::start();
  ranks.begin(*server);
  for (int r = 0; r < kRanks; ++r) ASSERT_EQ(ranks.heard(r), 'a');
  ranks.signal(1, SIGSTOP);
  for (const int r : {0, 2}) {
    const Outcome o = ranks.outcome(r);
    EXPECT_EQ(o.reason, Reason::Timeout) << o.text;
    EXPECT_EQ(o.ranks, std::vector<int>{1});
  }
  ranks.signal(1, SIGKILL);
}

TEST(GroupFault, TheSurvivorsGoOnWithoutTheDead) {
  NEEDS_FORK();
  Children ranks(4, [](const Env& e) {
    const auto job = Job::join(e);
    Ref<Group> g = Group::make(job, 0, {0, 1, 2, 3}, "");
    const Tensor x = filled({70000}, 1, DType::Float32);
    try {
      for (int i = 0;; ++i) {
        g->start(desc_of(Verb::AllReduce, x), x, x, false);
        if (i == 3) Children::say('a');
      }
    } catch (const DistError& error) {
      const std::vector<int> stay = job->shrink(error.ranks);
      g = Group::make(job, 1, stay, "");
    }
    const Tensor y = filled({70000}, 1, DType::Float32);
    g->start(desc_of(Verb::AllReduce, y), y, y, false);
    if (number_at(y.get(), 69999) != 3) fail(Kind::Value, "a wrong sum");
    g->close();
    job->close();
  });
  const HangLimit limit;
  const auto server = Server::start();
  ranks.begin(*server);
  for (int r = 0; r < 4; ++r) ASSERT_EQ(ranks.heard(r), 'a');
  ranks.signal(2, SIGKILL);
  for (const int r : {0, 1, 3}) EXPECT_EQ(ranks.outcome(r).text, "");
}

}  // namespace
}  // namespace tycho::dist
