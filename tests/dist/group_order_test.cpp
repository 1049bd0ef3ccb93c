// Groups: views, equal bits, works that are waited for in any order, several groups at once, messages,
// and what ranks that disagree are told; ranks are threads here.
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/dist/group.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

Ref<Group> group_of(const std::shared_ptr<Job>& job, uint32_t id, std::vector<int> ranks) {
  return Group::make(job, id, std::move(ranks), "");
}
Ref<Group> world(const std::shared_ptr<Job>& job, uint32_t id = 0) {
  std::vector<int> ranks;
  for (int r = 0; r < job->env().world_size; ++r) ranks.push_back(r);
  return group_of(job, id, ranks);
}

Tensor numbers(int64_t n, double first, DType t = DType::Float32) {
  const Tensor x = empty({n}, DType::Float64);
  for (int64_t i = 0; i < n; ++i) x.host<double>()[i] = first + static_cast<double>(i % 11);
  return op<"to.dtype">(x, t);
}
std::string bytes(const Tensor& t) {
  ready(*t->storage);
  const Tensor c = packed(t);
  return std::string(c.host<char>(), static_cast<size_t>(c.numel() * dtype_size(c.dtype())));
}

Desc all_reduce(const Tensor& t) {
  Desc d;
  d.verb = Verb::AllReduce;
  d.dtype = t.dtype();
  d.shape = t.shape();
  return d;
}

TEST(Group, OperationsTakeViewsWithGapsAndLeaveTheGapsAlone) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = g->members().rank;
    const Tensor base = filled({40, 30}, me + 1, DType::Float32);
    const Tensor view = op<"slice">(op<"transpose">(base, 0, 1), 0, 3, 25, 2);
    const uint32_t version = base->storage->version;
    op_<"all_reduce">(view, 0, g->handle());
    EXPECT_GT(base->storage->version, version);
    const Tensor sums = op<"slice">(op<"transpose">(base, 0, 1), 0, 3, 25, 2);
    EXPECT_EQ(bytes(sums), bytes(filled(sums.shape(), 6, DType::Float32)));
    EXPECT_EQ(number_at(op<"sum">(base).get(), 0), 6.0 * 11 * 40 + (me + 1) * 19.0 * 40);
    const Tensor out = op<"transpose">(filled({5, 3}, -1, DType::Float32), 0, 1);
    op_<"all_gather_into">(out, filled({5}, me, DType::Float32), g->handle());
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(number_at(op<"sum">(op<"select">(out, 0, r)).get(), 0), 5.0 * r);
  });
}

TEST(Group, FloatsHaveEqualBitsOnEveryRankAndInEveryRun) {
  for (const DType t : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64})
    for (const int64_t n : {1000, 100000}) {
      std::vector<std::string> seen(8);
      for (int run = 0; run < 2; ++run)
        run_ranks(4, [&](std::shared_ptr<Job> job) {
          const Ref<Group> g = world(job);
          const int me = g->members().rank;
          const Tensor x = op<"div">(numbers(n, me * 1e-3, DType::Float64), 3.7);
          const Tensor y = op<"to.dtype">(x, t);
          g->start(all_reduce(y), y, y, false);
          seen[static_cast<size_t>(run * 4 + me)] = bytes(y);
        });
      for (const std::string& s : seen) EXPECT_EQ(s, seen[0]) << dtype_name(t);
    }
}

TEST(Group, HalvesAreAddedAsFloatsAndRoundedOnce) {
  run_ranks(4, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    // 2048 + 1 + 1 + 1 is 2048 where each sum is rounded to a half, and 2052 (2051 rounded) here.
    const Tensor x = filled({3}, g->members().rank == 0 ? 2048 : 1, DType::Float16);
    g->start(all_reduce(x), x, x, false);
    EXPECT_EQ(number_at(x.get(), 0), 2052);
  });
}

TEST(Group, SixtyFourWorksAreWaitedForInReverse) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    std::vector<Tensor> tensors;
    std::vector<Ref<Work>> works;
    for (int i = 0; i < 64; ++i) {
      tensors.push_back(filled({100 + 997 * (i % 7)}, i + g->members().rank, DType::Float32));
      works.push_back(g->start(all_reduce(tensors.back()), tensors.back(), tensors.back(), true));
    }
    for (int i = 63; i >= 0; --i) {
      works[static_cast<size_t>(i)]->wait();
      EXPECT_TRUE(works[static_cast<size_t>(i)]->done());
      EXPECT_EQ(number_at(tensors[static_cast<size_t>(i)].get(), 0), 3 * i + 3);
    }
    EXPECT_EQ(g->seq(), 64u);
  });
}

TEST(Group, TheNextOperationWaitsForAWorkThatNobodyWaitedFor) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor flat = filled({1 << 20}, 1, DType::Float32);
    const Tensor left = alias(flat, Sizes{1 << 19}, Sizes{1}, 0);
    const Tensor right = alias(flat, Sizes{1 << 19}, Sizes{1}, 1 << 19);
    {
      // Two works on one storage, of which the handles are dropped.
      g->start(all_reduce(left), left, left, true);
      g->start(all_reduce(right), right, right, true);
      g->start(all_reduce(left), left, left, true);
    }
    EXPECT_EQ(number_at(op<"sum">(flat).get(), 0), (4.0 + 2.0) * (1 << 19));
    EXPECT_EQ(flat->storage->in_flight, nullptr);
  });
}

TEST(Group, InterleavedGroupsOfDifferentMembersDoNotMix) {
  run_ranks(4, [](std::shared_ptr<Job> job) {
    const int me = job->env().rank;
    const Ref<Group> all = world(job);
    const Ref<Group> half =
        group_of(job, me < 2 ? 1 : 2, me < 2 ? std::vector{0, 1} : std::vector{2, 3});
    const Ref<Group> odd =
        group_of(job, me % 2 ? 3 : 4, me % 2 ? std::vector{3, 1} : std::vector{2, 0});
    std::vector<Tensor> a, b, c;
    std::vector<Ref<Work>> works;
    for (int i = 0; i < 30; ++i) {
      a.push_back(filled({1 + i * 300}, me, DType::Float32));
      b.push_back(filled({5000}, me, DType::Float32));
      c.push_back(filled({7}, me, DType::Int64));
      works.push_back(all->start(all_reduce(a.back()), a.back(), a.back(), i % 3 != 0));
      works.push_back(odd->start(all_reduce(c.back()), c.back(), c.back(), i % 2 == 0));
      works.push_back(half->start(all_reduce(b.back()), b.back(), b.back(), i % 5 != 0));
    }
    for (size_t i = works.size(); i-- > 0;) works[i]->wait();
    for (size_t i = 0; i < 30; ++i) {
      EXPECT_EQ(number_at(a[i].get(), 0), 6);
      EXPECT_EQ(number_at(b[i].get(), 4999), me < 2 ? 1 : 5);
      EXPECT_EQ(number_at(c[i].get(), 6), me % 2 ? 4 : 2);
    }
  });
}

TEST(Group, ManyGroupsTakeLittleUntilTheyAreUsed) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    std::vector<Ref<Group>> groups;
    for (uint32_t i = 0; i < 100; ++i) groups.push_back(world(job, i));
    for (const Ref<Group>& g : groups) {
      const Tensor x = filled({2}, 1, DType::Float32);
      g->start(all_reduce(x), x, x, false);
      EXPECT_EQ(number_at(x.get(), 1), 2);
    }
  });
}

TEST(Messages, CrossInAnyOrderOfTagsAndSizes) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = g->members().rank;
    std::vector<Ref<Work>> works;
    std::vector<Tensor> kept, got;
    std::vector<double> expected;
    for (const int64_t n : {0, 1, 1000, 300000}) {
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == me) continue;
        for (int tag = 0; tag < 3; ++tag) {
          kept.push_back(filled({n}, me * 100 + tag, DType::Float32));
          works.push_back(g->start_send(kept.back(), peer, tag, true));
        }
        for (int tag = 2; tag >= 0; --tag) {
          got.push_back(filled({n}, -1, DType::Float32));
          expected.push_back(peer * 100 + tag);
          works.push_back(g->start_receive(got.back(), peer, tag, true));
        }
      }
      // A collective while messages are under way.
      const Tensor x = filled({9}, 1, DType::Float32);
      g->start(all_reduce(x), x, x, false);
      EXPECT_EQ(number_at(x.get(), 0), 3);
    }
    for (size_t i = works.size(); i-- > 0;) works[i]->wait();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(bytes(got[i]), bytes(filled(got[i].shape(), expected[i], DType::Float32)));
  });
}

TEST(Messages, AReceiveFromAnybodySaysWhoItWas) {
  run_ranks(4, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = g->members().rank;
    if (me != 0) {
      const Tensor x = filled({1000}, me, DType::Float32);
      g->start_send(x, 0, 7, false);
      return;
    }
    int seen = 0;
    for (int i = 0; i < 3; ++i) {
      const Tensor x = filled({1000}, -1, DType::Float32);
      const Ref<Work> w = g->start_receive(x, -1, 7, false);
      EXPECT_EQ(number_at(x.get(), 999), w->sender());
      seen |= 1 << w->sender();
    }
    EXPECT_EQ(seen, 0b1110);
  });
}

TEST(Messages, BothSidesAreToldWhatTheOtherMeant) {
  const auto outcomes = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor x = filled({400000}, 1, g->members().rank ? DType::Float32 : DType::Float64);
    if (g->members().rank)
      g->start_receive(x, 0, 0, false);
    else
      g->start_send(x, 1, 0, false);
  });
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.reason, Reason::Disagree);
    EXPECT_EQ(o.text,
              "ranks disagree in a message; r0 sends 400000 elements of float64, r1 expects 400000 "
              "elements of float32");
  }
}

TEST(Messages, ARankHasNothingToSayToItself) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor x = filled({1}, 1, DType::Float32);
    const Outcome o = outcome([&] { g->start_send(x, g->members().rank, 0, false); });
    EXPECT_NE(o.text.find("nobody to talk to"), std::string::npos) << o.text;
  });
}

// --- Ranks that disagree ---

struct Case {
  const char* what;
  std::function<void(Group&, bool)> run;  // `other`: this rank does it differently
  const char* rows[2];
};

TEST(Disagreement, OfEveryFieldIsToldOnEveryRankAndNothingMoves) {
  const auto plain = [](Group& g, Desc d, Tensor t) { g.start(std::move(d), t, t, false); };
  const auto reduce = [plain](Group& g, const Tensor& t, RedOp red = RedOp::Sum) {
    Desc d = all_reduce(t);
    d.red = red;
    plain(g, d, t);
  };
  const std::vector<Case> cases = {
      {"shape",
       [=](Group& g, bool other) {
         reduce(g, filled({784, other ? 11 : 10}, 1, DType::Float32));
       },
       {"all_reduce sum float32 [784, 10]", "all_reduce sum float32 [784, 11]"}},
      {"rank of the tensor",
       [=](Group& g, bool other) {
         reduce(g, other ? filled({6}, 1, DType::Float32) : filled({2, 3}, 1, DType::Float32));
       },
       {"all_reduce sum float32 [2, 3]", "all_reduce sum float32 [6]"}},
      {"type",
       [=](Group& g, bool other) {
         reduce(g, filled({3}, 1, other ? DType::Int32 : DType::Float32));
       },
       {"all_reduce sum float32 [3]", "all_reduce sum int32 [3]"}},
      {"operation",
       [=](Group& g, bool other) {
         reduce(g, filled({3}, 1, DType::Float32), other ? RedOp::Max : RedOp::Sum);
       },
       {"all_reduce sum float32 [3]", "all_reduce max float32 [3]"}},
      {"size, where one is large",
       [=](Group& g, bool other) { reduce(g, filled({other ? 1 : 1000000}, 1, DType::Float32)); },
       {"all_reduce sum float32 [1000000]", "all_reduce sum float32 [1]"}},
      {"root",
       [=](Group& g, bool other) {
         const Tensor t = filled({3}, 1, DType::Float32);
         Desc d = all_reduce(t);
         d.verb = Verb::Broadcast;
         d.root = other ? 1 : 0;
         plain(g, d, t);
       },
       {"broadcast float32 [3] root 0", "broadcast float32 [3] root 1"}},
      {"verb",
       [=](Group& g, bool other) {
         Desc d = all_reduce(filled({3}, 1, DType::Float32));
         if (other) d.verb = Verb::Barrier;
         plain(g, d, filled({3}, 1, DType::Float32));
       },
       {"all_reduce sum float32 [3]", "barrier"}},
  };
  for (const Case& c : cases) {
    const int world_size = 3, wrong = 1;
    const auto outcomes = try_ranks(world_size, [&](std::shared_ptr<Job> job) {
      const Ref<Group> g = world(job);
      const Outcome o = outcome([&] { c.run(*g, g->members().rank == wrong); });
      // All are at the same place, so the group goes on.
      const Tensor x = filled({5}, 1, DType::Float32);
      g->start(all_reduce(x), x, x, false);
      EXPECT_EQ(number_at(x.get(), 4), 3);
      if (o.reason != Reason::None) throw DistError({o.reason, o.ranks, o.text});
    });
    for (const Outcome& o : outcomes) {
      EXPECT_EQ(o.reason, Reason::Disagree) << c.what;
      EXPECT_EQ(o.ranks, std::vector<int>{wrong}) << c.what;
      EXPECT_NE(o.text.find("ranks disagree in collective 1 of the world; nothing was sent"),
                std::string::npos)
          << o.text;
      EXPECT_NE(o.text.find(std::string("r0  ") + c.rows[0]), std::string::npos) << o.text;
      EXPECT_NE(o.text.find(std::string("r1  ") + c.rows[1]), std::string::npos) << o.text;
      EXPECT_NE(o.text.find(std::string("r2  ") + c.rows[0]), std::string::npos) << o.text;
    }
  }
}

TEST(Disagreement, OfSplitsNamesThePair) {
  const auto outcomes = try_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = g->members().rank;
    Desc d;
    d.verb = Verb::AllToAll;
    d.shape = {6};
    d.send = {2, 2, 2};
    d.receive = {2, 2, 2};
    if (me == 2) d.receive = {2, 3, 1};
    const Tensor in = filled({6}, 1, DType::Float32), out = filled({6}, 0, DType::Float32);
    g->start(d, in, out, false);
  });
  for (const Outcome& o : outcomes) {
    EXPECT_EQ(o.reason, Reason::Disagree);
    EXPECT_EQ(o.ranks, (std::vector<int>{1, 2}));
    EXPECT_NE(o.text.find("r1  all_to_all float32 sends 2 elements to r2"), std::string::npos);
    EXPECT_NE(o.text.find("r2  all_to_all float32 expects 3 from r1"), std::string::npos);
  }
}

TEST(Disagreement, OfAnAsynchronousCallComesWithItsWait) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor a = filled({4 + g->members().rank}, 1, DType::Float32);
    const Tensor b = filled({8}, 1, DType::Float32);
    const Ref<Work> bad = g->start(all_reduce(a), a, a, true);
    const Ref<Work> good = g->start(all_reduce(b), b, b, true);
    EXPECT_EQ(outcome([&] { bad->wait(); }).reason, Reason::Disagree);
    good->wait();
    EXPECT_EQ(number_at(b.get(), 0), 2);
    EXPECT_EQ(a->storage->in_flight, nullptr);
  });
}

TEST(Group, RefusesMeansOfIntegersAndBitsOfFloats) {
  run_ranks(1, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor i = filled({3}, 1, DType::Int64), f = filled({3}, 1, DType::Float32);
    Desc d = all_reduce(i);
    d.red = RedOp::Avg;
    EXPECT_NE(outcome([&] { g->start(d, i, i, false); }).text.find("a mean of int64"),
              std::string::npos);
    d = all_reduce(f);
    d.red = RedOp::Bxor;
    EXPECT_NE(outcome([&] { g->start(d, f, f, false); }).text.find("bxor works on the bits"),
              std::string::npos);
    d.red = RedOp::Sum;
    d.root = 4;
    EXPECT_NE(outcome([&] { g->start(d, f, f, false); }).text.find("there is no rank 4"),
              std::string::npos);
    EXPECT_EQ(g->seq(), 0u);
  });
}

TEST(Group, AnEarlyEndIsToldToWhoStillWaits) {
  const auto outcomes = try_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (int i = 0; i < (job->env().rank == 1 ? 2 : 3); ++i) {
      const Tensor x = filled({100}, 1, DType::Float32);
      g->start(all_reduce(x), x, x, false);
    }
    g->close();
  });
  EXPECT_EQ(outcomes[1].reason, Reason::None);
  for (const int r : {0, 2}) {
    const Outcome& o = outcomes[static_cast<size_t>(r)];
    EXPECT_EQ(o.reason, Reason::Left) << o.text;
    EXPECT_EQ(o.ranks, std::vector<int>{1});
    EXPECT_NE(o.text.find("rank 1 left after collective 2"), std::string::npos) << o.text;
    EXPECT_EQ(o.op, "all_reduce");
  }
}

TEST(Group, AFailureIsRaisedByEveryLaterCall) {
  const auto outcomes = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    if (job->env().rank == 1) return;
    const Tensor x = filled({100}, 1, DType::Float32);
    const Outcome first = outcome([&] { g->start(all_reduce(x), x, x, false); });
    const Outcome later = outcome([&] { g->start_send(x, 1, 0, false); });
    EXPECT_EQ(first.reason, Reason::Left) << first.text;
    EXPECT_EQ(first.text, later.text);
    EXPECT_EQ(outcome([&] { g->start(all_reduce(x), x, x, true)->wait(); }).text, first.text);
  });
}

}  // namespace
}  // namespace tycho::dist
