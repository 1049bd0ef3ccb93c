// NCCL behind a group: all verbs between ranks that are threads, each with an emulated device; order
// between streams, works that are not waited for, a rank that goes, two ranks on one GPU.
#include "engine/dist/module/nccl.h"

#include "engine/cuda/start.h"
#include "engine/dist/group.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/cuda/emulated/nccl_on_cpu.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

struct CudaNcclGroup : testing::Test {
  CudaNcclGroup() {
    cuda::emulated::start();
    cuda::start();
    cuda::set_nccl(&cuda::emulated::nccl_on_cpu());
  }
  ~CudaNcclGroup() override {
    cuda::set_nccl(nullptr);
    EXPECT_EQ(cuda::emulated::nccl_comms(), 0);
  }
  static std::unique_ptr<Transport> make(const Members& m) {
    return make_nccl_over(m, m.size() > 1 ? make_host_transport(m) : nullptr);
  }
  static Ref<Group> world(const std::shared_ptr<Job>& job) {
    std::vector<int> all;
    for (int r = 0; r < job->env().world_size; ++r) all.push_back(r);
    return Group::make(job, 0, all, "nccl", make);
  }
};

Desc desc(Verb verb, const Tensor& share, int root = -1, RedOp red = RedOp::Sum) {
  Desc d;
  d.verb = verb;
  d.dtype = share.dtype();
  d.shape = share.shape();
  d.root = root;
  d.red = red;
  return d;
}
// Small numbers, other ones on every rank.
double value(int rank, int64_t i) { return static_cast<double>((i * 3 + rank * 5) % 7 + 1); }
Tensor data(int rank, int64_t n, DType t, Device d) {
  const Tensor host = empty({n}, DType::Float64);
  for (int64_t i = 0; i < n; ++i) host.data<double>()[i] = value(rank, i);
  return sent(op<"to.dtype">(host, t), d);
}
void expect(const Tensor& got, int64_t from, int64_t n, const std::function<double(int64_t)>& want,
            const char* what) {
  const Tensor t = fetch(got);
  for (int64_t i = 0; i < n; ++i)
    ASSERT_NEAR(number_at(t, from + i), want(i), 1e-2 * std::abs(want(i))) << what << " at " << i;
}

void every_verb(Group& g, int64_t n, DType t) {
  const int me = g.members().rank, k = g.members().size();
  const Device d{static_cast<int8_t>(me)};
  const auto mine = [&] { return data(me, n, t, d); };
  const auto folded = [&](RedOp red, int64_t i) {
    double x = value(0, i);
    for (int r = 1; r < k; ++r) {
      const double y = value(r, i);
      x = red == RedOp::Product ? x * y
          : red == RedOp::Min   ? std::min(x, y)
          : red == RedOp::Max   ? std::max(x, y)
                                : x + y;
    }
    return red == RedOp::Avg ? x / k : x;
  };
  for (const RedOp red : {RedOp::Sum, RedOp::Avg, RedOp::Product, RedOp::Min, RedOp::Max}) {
    if (red == RedOp::Avg && !is_floating(t)) continue;
    for (const bool async : {false, true}) {
      const Tensor x = mine();
      g.start(desc(Verb::AllReduce, x, -1, red), x, x, async)->wait();
      expect(
          x, 0, n, [&](int64_t i) { return folded(red, i); }, "all_reduce");
    }
    for (int root = 0; root < k; ++root) {
      const Tensor x = mine();
      g.start(desc(Verb::Reduce, x, root, red), x, me == root ? x : Tensor(), false);
      if (me == root)
        expect(
            x, 0, n, [&](int64_t i) { return folded(red, i); }, "reduce");
    }
    const Tensor all = data(me, n * k, t, d), share = mine();
    g.start(desc(Verb::ReduceScatter, share, -1, red), all, share, false);
    expect(
        share, 0, n, [&](int64_t i) { return folded(red, me * n + i); }, "reduce_scatter");
  }
  const auto of_all = [&](const Tensor& y, const char* what) {
    for (int r = 0; r < k; ++r)
      expect(
          y, r * n, n, [&](int64_t i) { return value(r, i); }, what);
  };
  Tensor x = mine(), y = data(9, n * k, t, d);
  g.start(desc(Verb::AllGather, x), x, y, false);
  of_all(y, "all_gather");
  for (int root = 0; root < k; ++root) {
    x = mine();
    g.start(desc(Verb::Broadcast, x, root), x, x, false);
    expect(
        x, 0, n, [&](int64_t i) { return value(root, i); }, "broadcast");
    x = mine(), y = data(9, n * k, t, d);
    g.start(desc(Verb::Gather, x, root), x, me == root ? y : Tensor(), false);
    if (me == root) of_all(y, "gather");
    x = mine(), y = data(root, n * k, t, d);
    g.start(desc(Verb::Scatter, x, root), me == root ? y : Tensor(), x, false);
    expect(
        x, 0, n, [&](int64_t i) { return value(root, me * n + i); }, "scatter");
  }
  x = data(me, n * k, t, d), y = data(9, n * k, t, d);
  g.start(desc(Verb::AllToAll, x), x, y, false);
  for (int r = 0; r < k; ++r)
    expect(
        y, r * n, n, [&](int64_t i) { return value(r, me * n + i); }, "all_to_all");
  // Rank r sends r + 1 elements to everyone.
  Desc uneven = desc(Verb::AllToAll, mine());
  int64_t received = 0;
  for (int r = 0; r < k; ++r) {
    uneven.send.push_back(me + 1);
    uneven.receive.push_back(r + 1);
    received += r + 1;
  }
  uneven.shape = Sizes{};
  x = data(me, (me + 1) * k, t, d), y = data(9, received, t, d);
  g.start(uneven, x, y, false);
  int64_t at = 0;
  for (int r = 0; r < k; at += r + 1, ++r)
    expect(
        y, at, r + 1, [&](int64_t i) { return value(r, me * (r + 1) + i); }, "splits");
  if (k > 1) {
    x = mine(), y = data(9, n, t, d);
    const Ref<Work> work = g.start_send(x, (me + 1) % k, 3, true);
    g.start_receive(y, (me + k - 1) % k, 3, false);
    work->wait();
    expect(
        y, 0, n, [&](int64_t i) { return value((me + k - 1) % k, i); }, "send and recv");
  }
  const Tensor host = filled({n}, me + 1, DType::Float32);  // over the host
  g.start(desc(Verb::AllReduce, host), host, host, false);
  EXPECT_EQ(number_at(host, n - 1), k * (k + 1) / 2);
  const Tensor nobody = empty({0}, DType::UInt8);
  g.start(desc(Verb::Barrier, nobody), nobody, nobody, false);
}

TEST_F(CudaNcclGroup, MovesEveryVerbBetweenTwoRanks) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16,
                          DType::Int32, DType::Int64, DType::UInt8, DType::Int8})
      for (const int64_t n : {1, 37}) every_verb(*g, n, t);
    EXPECT_STREQ(g->transport(), "nccl");
    g->close();
  });
}

TEST_F(CudaNcclGroup, MovesEveryVerbInAWorldOfOne) {
  run_ranks(1, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (const DType t : {DType::Float32, DType::Int64}) every_verb(*g, 1000, t);
    g->close();
  });
}

TEST_F(CudaNcclGroup, WaitsForTheStreamThatAsksAndLetsItWait) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    cuda::emulated::Options options;
    options.seed = seed;
    options.eager_percent = 0;  // nothing is done before somebody waits
    cuda::emulated::start(options);
    run_ranks(2, [](std::shared_ptr<Job> job) {
      const Ref<Group> g = world(job);
      const Device d{static_cast<int8_t>(job->env().rank)};
      const StreamId side = backend_of(d).new_stream(d);
      set_current_stream(d, side);
      const Tensor x = filled({50}, 1, DType::Float32, d);
      std::vector<Ref<Work>> works;
      for (int i = 0; i < 10; ++i) {
        op_<"mul">(x, 3.0);
        op_<"sub">(x, 1.0);
        const bool async = i % 3 == 1;
        const Ref<Work> w = g->start(desc(Verb::AllReduce, x, -1, RedOp::Avg), x, x, async);
        if (async) works.push_back(w);
        op_<"add">(x, 1.0);
      }
      EXPECT_EQ(number_at(x, 7), 59049);
      for (const Ref<Work>& w : works) w->wait();
      g->close();
      set_current_stream(d, 0);
      backend_of(d).release_stream(d, side);
    });
  }
}

TEST_F(CudaNcclGroup, ARankThatGoesIsNamedAndNobodyHangs) {
  const auto seen = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Device d{static_cast<int8_t>(job->env().rank)};
    const Tensor x = filled({50}, 1, DType::Float32, d);
    g->start(desc(Verb::AllReduce, x), x, x, false);
    if (job->env().rank == 1) return job->report({Reason::Died, {1}, "rank 1 died"});
    for (;;) g->start(desc(Verb::AllReduce, x), x, x, true)->wait();
  });
  EXPECT_EQ(seen[0].reason, Reason::Died) << seen[0].text;
  EXPECT_EQ(seen[0].ranks, std::vector<int>{1});
}

TEST_F(CudaNcclGroup, RefusesTwoRanksOnOneGpuAndWhatItCannotCombine) {
  const auto seen = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor x = filled({5}, 1, DType::Float32, Device{0});
    const Tensor flags = filled({5}, 1, DType::Int16, Device{0});
    EXPECT_THROW(g->start(desc(Verb::AllReduce, flags), flags, flags, false), Error);
    const Tensor bits = filled({5}, 1, DType::Int32, Device{0});
    EXPECT_THROW(g->start(desc(Verb::AllReduce, bits, -1, RedOp::Bxor), bits, bits, false), Error);
    g->start(desc(Verb::AllReduce, x), x, x, false);
  });
  for (const Outcome& o : seen) {
    EXPECT_EQ(o.reason, Reason::Refused) << o.text;
    EXPECT_NE(o.text.find("ranks 0 and 1 use one GPU (0000:00:00.0)"), std::string::npos) << o.text;
  }
}

}  // namespace
}  // namespace tycho::dist
