// What the others see when a rank or the server dies, is stopped, or never comes: the same reason and
// the same culprits on all of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "engine/dist/socket.h"
#include "engine/dist/token.h"
#include "tests/dist/children.h"

namespace tycho::dist {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;  // TSan does not follow threads that begin after a fork
#else
constexpr bool kForks = true;
#endif
#define NEEDS_FORK() \
  if (!kForks) GTEST_SKIP() << "the thread sanitizer does not follow forks"

std::vector<int> all(int n) {
  std::vector<int> v;
  for (int r = 0; r < n; ++r) v.push_back(r);
  return v;
}

// Agrees for ever; says 'a' when it has begun.
void agree_for_ever(const std::shared_ptr<Job>& job) {
  Desc d;
  d.verb = Verb::AllReduce;
  d.shape = {784, 10};
  d.line = {intern_source("train.lua"), 41};
  for (d.seq = 1;; ++d.seq) {
    job->doing(&d);
    job->agree(d, all(job->env().world_size));
    if (d.seq == 3) Children::say('a');
  }
}

TEST(Fault, KilledRanksAreNamedOnEveryOther) {
  NEEDS_FORK();
  const int times = std::getenv("TYCHO_SOAK") ? 100 : 5;
  for (int i = 0; i < times; ++i) {
    Children ranks(4, [](const Env& e) { agree_for_ever(Job::join(e)); });
    const HangLimit limit;
    const auto server = Server::start();
    ranks.begin(*server);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.heard(r), 'a');
    const int victim = i % 4;
    usleep(static_cast<useconds_t>(i * 137 % 1000));
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < 4; ++r) {
      const Outcome o = ranks.outcome(r);
      if (r == victim) {
        EXPECT_EQ(o.text, "signal 9");
        continue;
      }
      EXPECT_EQ(o.reason, Reason::Died);
      EXPECT_EQ(o.ranks, std::vector<int>{victim});
      EXPECT_EQ(o.op, "all_reduce");
      EXPECT_NE(o.text.find("rank " + std::to_string(victim) + " (pid "), std::string::npos)
          << o.text;
      EXPECT_NE(o.text.find("died; rank " + std::to_string(r) + " was in all_reduce"),
                std::string::npos)
          << o.text;
      EXPECT_NE(o.text.find(" at train.lua:41"), std::string::npos) << o.text;
    }
  }
}

TEST(Fault, ARankKilledWhileTheOthersMeetEndsTheMeeting) {
  NEEDS_FORK();
  Children ranks(3, [](const Env& e) {
    Children::say('j');
    Job::join(e);
  });
  const HangLimit limit;
  const auto server = Server::start();
  for (int r = 0; r < 2; ++r) ranks.begin(r, env_of(*server, r, 3));
  while (server->ranks_here() < 2) usleep(1000);
  ranks.signal(1, SIGKILL);
  const Outcome o = ranks.outcome(0);
  EXPECT_EQ(o.reason, Reason::Died);
  EXPECT_EQ(o.ranks, std::vector<int>{1});
  // Who comes later is told the same.
  ranks.begin(2, env_of(*server, 2, 3));
  const Outcome late = ranks.outcome(2);
  EXPECT_EQ(late.reason, Reason::Died);
  EXPECT_EQ(late.ranks, std::vector<int>{1});
}

TEST(Fault, AStoppedRankIsLateForAllAndLearnsOfItAfterwards) {
  NEEDS_FORK();
  RanksOptions o;
  o.timeout = Seconds(2);
  o.late = Seconds(0.3);
  Children ranks(3, [](const Env& e) { agree_for_ever(Job::join(e)); });
  const HangLimit limit;
  const auto server = Server::start();
  ranks.begin(*server, o);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.heard(r), 'a');
  ranks.signal(1, SIGSTOP);
  for (const int r : {0, 2}) {
    const Outcome out = ranks.outcome(r);
    EXPECT_EQ(out.reason, Reason::Timeout) << out.text;
    EXPECT_EQ(out.ranks, std::vector<int>{1}) << out.text;
  }
  ranks.signal(1, SIGCONT);
  const Outcome out = ranks.outcome(1);
  EXPECT_EQ(out.reason, Reason::Timeout) << out.text;
  EXPECT_EQ(out.ranks, std::vector<int>{1});
}

TEST(Fault, TheServersDeathIsLostOrItsRanksDeath) {
  NEEDS_FORK();
  for (const bool rank0 : {false, true}) {
    char path[] = "/tmp/tycho_meet_XXXXXX";
    const int fd = mkstemp(path);
    close(fd);
    unlink(path);
    // Child 3 is the parent of the others when no rank serves.
    Children ranks(4, [&](const Env& e) {
      if (e.rank == 3) {
        ServerOptions o;
        o.port = e.local_rank;
        const Address a = parse_address(e.address);
        o.port = a.port;
        o.token = e.token;
        const auto server = Server::start(o);
        Children::say('s');
        pause();
      }
      agree_for_ever(Job::join(e));
    });
    const HangLimit limit;
    Env e;
    e.world_size = 3;
    if (rank0) {
      e.file = path;
    } else {
      e.token = random_token();
      e.address = to_string(Address{"127.0.0.1", port_of(listen_at("127.0.0.1", 0).get())});
      e.rank = 3;
      ranks.begin(3, e);
      EXPECT_EQ(ranks.heard(3), 's');
    }
    for (e.rank = 0; e.rank < 3; ++e.rank) {
      e.serves = rank0 && e.rank == 0;
      ranks.begin(e.rank, e);
    }
    for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.heard(r), 'a');
    EXPECT_NE(access(path, F_OK), 0);  // all have met: the file is gone
    ranks.signal(rank0 ? 0 : 3, SIGKILL);
    for (int r = rank0 ? 1 : 0; r < 3; ++r) {
      const Outcome o = ranks.outcome(r);
      EXPECT_EQ(o.reason, rank0 ? Reason::Died : Reason::Lost) << o.text;
      EXPECT_EQ(o.ranks, rank0 ? std::vector<int>{0} : std::vector<int>{});
      EXPECT_NE(o.text.find(rank0 ? "which served the store, died" : "is gone"), std::string::npos)
          << o.text;
    }
  }
}

TEST(Fault, TheSurvivorsGoOnTogether) {
  NEEDS_FORK();
  Children ranks(4, [](const Env& e) {
    const auto job = Job::join(e);
    std::vector<int> who = all(4);
    Desc d;
    // Twice somebody dies; the others go on, and agree again.
    for (int generation = 0; generation < 3; ++generation) {
      const bool last = generation == 2;
      const Outcome o = outcome([&] {
        for (d.seq = 1; !last || d.seq <= 20; ++d.seq) {
          job->agree(d, who);
          if (d.seq == 5) Children::say(static_cast<char>('0' + generation));
        }
      });
      EXPECT_EQ(o.reason, last ? Reason::None : Reason::Died);
      if (last) break;
      if (o.reason != Reason::Died) throw DistError({o.reason, o.ranks, o.text});
      who = job->shrink(o.ranks);
      EXPECT_FALSE(job->failed());
    }
    throw DistError({Reason::None, who, "well"});
  });
  const HangLimit limit;
  const auto server = Server::start();
  ranks.begin(*server);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.heard(r), '0');
  ranks.signal(2, SIGKILL);
  for (const int r : {0, 1, 3}) EXPECT_EQ(ranks.heard(r), '1');
  ranks.signal(0, SIGKILL);
  for (const int r : {1, 3}) {
    const Outcome o = ranks.outcome(r);
    EXPECT_EQ(o.text, "well");
    EXPECT_EQ(o.ranks, (std::vector<int>{1, 3}));
  }
}

TEST(Fault, RanksThatRegroupWithoutAnotherLeaveItOut) {
  const auto out = try_ranks(3, [](const std::shared_ptr<Job>& job) {
    Desc d;
    d.seq = 1;
    if (job->env().rank == 2) {
      job->agree(d, {0, 1, 2});  // the others never come to this
      return;
    }
    EXPECT_EQ(job->shrink({2}), (std::vector<int>{0, 1}));
    job->agree(d, {0, 1});
  });
  EXPECT_EQ(out[0].text, "");
  EXPECT_EQ(out[1].text, "");
  EXPECT_EQ(out[2].reason, Reason::Refused) << out[2].text;
  EXPECT_EQ(out[2].ranks, std::vector<int>{2});
}

TEST(Fault, RanksThatDisagreeAboutWhoGoesOnAreToldSo) {
  const auto out = try_ranks(3, [](const std::shared_ptr<Job>& job) {
    const int rank = job->env().rank;
    const auto store = job->store();
    if (rank == 2) return void(store->get("over", Seconds(10)));
    const Outcome o = outcome([&] { job->shrink({rank == 0 ? 1 : 2}); });
    EXPECT_EQ(o.reason, Reason::Disagree) << o.text;
    if (store->add("told", 1) == 2) store->set("over", "");
  });
  for (const Outcome& o : out) EXPECT_EQ(o.text, "");
}

TEST(Fault, AReportOfOneRankReachesAll) {
  const auto out = try_ranks(3, [](const std::shared_ptr<Job>& job) {
    std::atomic<int> told{0};
    const int id = job->on_failure([&](const Failure& f) {
      if (f.reason == Reason::System) ++told;
    });
    if (job->env().rank == 1) job->report({Reason::System, {1}, "rank 1 has no memory left"});
    while (!job->failed()) usleep(100);
    while (told == 0) usleep(100);
    job->remove_listener(id);
    const Failure f = job->failure();
    EXPECT_EQ(f.reason, Reason::System);
    EXPECT_EQ(f.ranks, std::vector<int>{1});
    EXPECT_EQ(f.text, "rank 1 has no memory left");
    Desc d;
    d.seq = 1;
    job->agree(d, {0, 1, 2});
  });
  for (const Outcome& o : out) EXPECT_EQ(o.reason, Reason::System);
}

}  // namespace
}  // namespace tycho::dist
