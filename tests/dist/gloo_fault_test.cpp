// What is seen over Gloo when a rank dies in a message: the same reason and culprit on all others,
// soon, without crashes; and what a rank sees that was stopped for a while, or is interrupted.
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "engine/base/interrupt.h"
#include "engine/dist/gloo.h"
#include "engine/ops/table/apply.h"
#include "tests/dist/children.h"
#include "tests/dist/elsewhere.h"
#include "tests/dist/verbs.h"

namespace tycho::dist {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;  // TSan does not follow threads that begin after a fork
#else
constexpr bool kForks = true;
#endif
#define NEEDS_FORK() \
  if (!kForks) GTEST_SKIP() << "the thread sanitizer does not follow forks"

constexpr int64_t kMany = int64_t{16} << 20;  // 64 MB of float32

Tensor many() { return op<"ones">(Sizes{kMany}, DType::Float32, Device{}); }

void reduce_for_ever(Group& g) {
  Tensor x = many();
  for (int i = 0;; ++i) {
    if (i == 1) Children::say('a');
    g.start(desc(Verb::AllReduce, x, -1, RedOp::Max), x, x, false);
  }
}

void broadcast_for_ever(Group& g) {
  Tensor x = many();
  for (int i = 0;; ++i) {
    if (i == 1) Children::say('a');
    g.start(desc(Verb::Broadcast, x, i % 3), x, x, false);
  }
}

void write_for_ever(Group& g) {
  const int me = g.members().rank;
  Tensor x = many(), y = many();
  for (int i = 0;; ++i) {
    if (i == 1) Children::say('a');
    const Ref<Work> sent = g.start_send(x, (me + 1) % 3, 0, true);
    g.start_receive(y, (me + 2) % 3, 0, false);
    sent->wait();
  }
}

// Kills one of three ranks at many moments of what they do.
void kill_often(const std::function<Ref<Group>(const Env&)>& make, void (*work)(Group&),
                int times) {
  if (std::getenv("TYCHO_SOAK")) times *= 10;
  for (int i = 0; i < times; ++i) {
    Children ranks(3, [&](const Env& e) { work(*make(e)); });
    const HangLimit limit;
    const auto server = Server::start();
    ranks.begin(*server);
    for (int r = 0; r < 3; ++r) ASSERT_EQ(ranks.heard(r), 'a');
    const int victim = i % 3;
    usleep(static_cast<useconds_t>(i * 7919 % 60000));
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < 3; ++r) {
      const Outcome o = ranks.outcome(r);
      if (r == victim) {
        EXPECT_EQ(o.text, "signal 9");
        continue;
      }
      EXPECT_EQ(o.reason, Reason::Died) << o.text;
      EXPECT_EQ(o.ranks, std::vector<int>{victim}) << o.text;
      EXPECT_EQ(o.text.find("rank " + std::to_string(victim) + " (pid "), 0u) << o.text;
    }
  }
}

Ref<Group> flat(const Env& e) { return world(Job::join(e), 0, make_flat_gloo); }

TEST(GlooFault, ARankKilledInASumIsNamedByAllOthers) {
  NEEDS_FORK();
  kill_often(flat, reduce_for_ever, 8);
}

TEST(GlooFault, ARankKilledInABroadcastIsNamedByAllOthers) {
  NEEDS_FORK();
  kill_often(flat, broadcast_for_ever, 3);
}

TEST(GlooFault, ARankKilledInAMessageIsNamedByAllOthers) {
  NEEDS_FORK();
  kill_often(flat, write_for_ever, 3);
}

TEST(GlooFault, ARankKilledBehindItsHostsMemoryIsNamedByAllOthers) {
  NEEDS_FORK();
  const auto hosts = [](const Env& e) {
    return world(std::make_shared<Elsewhere>(Job::join(e), "aab"), 0, make_gloo);
  };
  kill_often(hosts, reduce_for_ever, 2);
}

TEST(GlooFault, ARankKilledWhileTheyConnectIsNamedByAllOthers) {
  NEEDS_FORK();
  for (int i = 0; i < 4; ++i) {
    Children ranks(3, [](const Env& e) {
      const auto job = Job::join(e);
      Children::say('j');
      for (uint32_t id = 0;; ++id) {
        const Ref<Group> g = world(job, id, make_flat_gloo);
        Tensor x = data(e.rank, 10, DType::Float32);
        g->start(desc(Verb::AllReduce, x), x, x, false);
      }
    });
    const HangLimit limit;
    const auto server = Server::start();
    ranks.begin(*server);
    for (int r = 0; r < 3; ++r) ASSERT_EQ(ranks.heard(r), 'j');
    usleep(static_cast<useconds_t>(i * 13000));
    ranks.signal(1, SIGKILL);
    for (const int r : {0, 2}) {
      const Outcome o = ranks.outcome(r);
      EXPECT_EQ(o.reason, Reason::Died) << o.text;
      EXPECT_EQ(o.ranks, std::vector<int>{1}) << o.text;
    }
  }
}

TEST(GlooFault, AStoppedRankGoesOnWhereItWas) {
  NEEDS_FORK();
  Children ranks(2, [](const Env& e) {
    const Ref<Group> g = flat(e);
    Tensor x = data(e.rank, 1 << 20, DType::Float32);
    for (int i = 0; i < 30; ++i) {
      if (i == 3) Children::say('a');
      g->start(desc(Verb::AllReduce, x, -1, RedOp::Max), x, x, false);
    }
    g->close();
    g->members().job->close();
  });
  const HangLimit limit;
  const auto server = Server::start();
  ranks.begin(*server);
  for (int r = 0; r < 2; ++r) ASSERT_EQ(ranks.heard(r), 'a');
  ranks.signal(1, SIGSTOP);
  usleep(300000);
  ranks.signal(1, SIGCONT);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.outcome(r).text, "");
}

// One rank leaves after its last collective while the others are in it; nothing of it is lost.
TEST(GlooFault, LeavingAfterTheLastCollectiveDisturbsNobody) {
  for (int i = 0; i < 5; ++i)
    run_ranks(3, [](std::shared_ptr<Job> job) {
      const Ref<Group> g = world(job, 0, make_flat_gloo);
      Tensor x = data(job->env().rank, 2000000, DType::Float32);
      for (int k = 0; k < 3; ++k) g->start(desc(Verb::Broadcast, x, 0), x, x, false);
      g->close();
      job->close();
    });
}

}  // namespace
}  // namespace tycho::dist
