// Messages between ranks of a group of NCCL, each with an emulated device, whose sends hold up their
// stream until the receiver has come, as the library's do.
#include <array>
#include <random>

#include "engine/cuda/start.h"
#include "engine/dist/group.h"
#include "engine/dist/module/nccl.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/cuda/emulated/nccl_on_cpu.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

struct CudaNcclMessages : testing::Test {
  CudaNcclMessages() { start(1); }
  ~CudaNcclMessages() override {
    cuda::set_nccl(nullptr);
    EXPECT_EQ(cuda::emulated::nccl_comms(), 0);
    for (int8_t d = 0; d < 4; ++d) backend_of(Device{d}).empty_cache(Device{d});
  }
  static void start(uint64_t seed, int eager = 50) {
    cuda::emulated::Options options;
    options.seed = seed;
    options.devices = 4;
    options.eager_percent = eager;
    cuda::emulated::start(options);
    cuda::start();
    cuda::set_nccl(&cuda::emulated::nccl_on_cpu());
  }
  static std::unique_ptr<Transport> make(const Members& m) {
    return make_nccl_over(m, m.size() > 1 ? make_host_transport(m) : nullptr);
  }
  static Ref<Group> world(const std::shared_ptr<Job>& job, uint32_t id = 0,
                          const char* backend = "nccl") {
    std::vector<int> all;
    for (int r = 0; r < job->env().world_size; ++r) all.push_back(r);
    return Group::make(job, id, all, backend, std::string(backend) == "nccl" ? make : nullptr);
  }
};

Device device_of(const std::shared_ptr<Job>& job) {
  return Device{static_cast<int8_t>(job->env().rank)};
}
Tensor numbers(double from, int64_t n, Device d, DType t = DType::Float32) {
  const Tensor host = empty({n}, DType::Float64);
  for (int64_t i = 0; i < n; ++i) host.data<double>()[i] = from + static_cast<double>(i % 5);
  return sent(op<"to.dtype">(host, t), d);
}
Tensor part(const Tensor& t, int64_t from, int64_t n) {
  return alias(t, {n}, row_major({n}), t->offset + from);
}
void expect(const Tensor& got, double from) {
  const Tensor t = fetch(got);
  for (int64_t i = 0; i < t.numel(); ++i)
    ASSERT_EQ(number_at(t, i), from + static_cast<double>(i % 5)) << "at " << i;
}

TEST_F(CudaNcclMessages, CrossingMessagesOfAnyTypeAndSizeArrive) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Device d = device_of(job);
    const int me = job->env().rank, other = 1 - me;
    for (const DType t : {DType::Float32, DType::BFloat16, DType::Int64, DType::UInt8})
      for (const int64_t n : {0, 1, 37, 100'000}) {
        const Tensor x = numbers(10 * me, n, d, t), y = numbers(99, n, d, t);
        const Ref<Work> out = g->start_send(x, other, 0, true);
        const Ref<Work> in = g->start_receive(y, other, 0, true);
        in->wait();
        out->wait();
        expect(y, 10 * other);
        EXPECT_EQ(in->sender(), other);
      }
    g->close();
  });
}

TEST_F(CudaNcclMessages, PlainSendsAndReceivesOrderTheStreamOfTheCaller) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    start(seed, 0);  // nothing is done before somebody waits
    run_ranks(2, [](std::shared_ptr<Job> job) {
      const Ref<Group> g = world(job);
      const Device d = device_of(job);
      const StreamId side = backend_of(d).new_stream(d);
      set_current_stream(d, side);
      const Tensor x = numbers(1, 50, d);
      for (int i = 0; i < 8; ++i) {  // there and back, twice as much each time
        if (job->env().rank == 0) {
          g->start_send(x, 1, 0, false);
          op_<"mul">(x, 0.0);  // not before it is sent
          g->start_receive(x, 1, 0, false);
        } else {
          g->start_receive(x, 0, 0, false);
          op_<"mul">(x, 2.0);
          g->start_send(x, 0, 0, false);
          op_<"fill">(x, -1.0);
        }
      }
      if (job->env().rank == 0) {
        EXPECT_EQ(number_at(x, 0), 256);
        EXPECT_EQ(number_at(x, 4), 5 * 256);
      }
      g->close();
      set_current_stream(d, 0);
      backend_of(d).release_stream(d, side);
    });
  }
}

TEST_F(CudaNcclMessages, AResultThatNobodyWaitedForIsThereForTheNextOperation) {
  run_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Device d = device_of(job);
    for (int i = 0; i < 20; ++i) {
      const Tensor x = numbers(i, 1000, d);
      if (job->env().rank == 0) {
        g->start_send(x, 1, 0, true);
        op_<"add">(x, 100.0);
        expect(x, i + 100);
      } else {
        const Tensor y = numbers(-1, 1000, d);
        g->start_receive(y, 0, 0, true);
        op_<"add">(y, 1.0);
        expect(y, i + 1);
      }
    }
    g->close();
  });
}

TEST_F(CudaNcclMessages, TagsAndMessagesFromAnybodyMeanWhatTheyMeanOnTheHost) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Device d = device_of(job);
    const int me = job->env().rank;
    if (me == 0) {
      const Tensor a = numbers(0, 9, d), b = numbers(0, 9, d);
      g->start_receive(b, 1, 8, false);  // the second that is sent
      g->start_receive(a, 1, 7, false);
      expect(a, 7);
      expect(b, 8);
      int seen = 0;
      for (int k = 0; k < 2; ++k) {
        const Ref<Work> w = g->start_receive(a, -1, 5, false);
        expect(a, w->sender());
        seen += w->sender();
      }
      EXPECT_EQ(seen, 3);
    } else {
      if (me == 1) {
        const Ref<Work> w = g->start_send(numbers(7, 9, d), 0, 7, true);
        g->start_send(numbers(8, 9, d), 0, 8, false);
        w->wait();
      }
      g->start_send(numbers(me, 9, d), 0, 5, false);
    }
    g->close();
  });
}

// Of one buffer, as rings of all_gather have them.
TEST_F(CudaNcclMessages, ARingPassesPartsOfOneBufferOn) {
  for (const int k : {2, 3, 4})
    for (const int64_t n : {7, 50'000})
      run_ranks(k, [&](std::shared_ptr<Job> job) {
        const Ref<Group> g = world(job);
        const int me = job->env().rank;
        const Tensor all = numbers(-1, n * k, device_of(job));
        copy_raw(part(all, me * n, n), numbers(me, n, device_of(job)));
        for (int step = 0; step < k - 1; ++step) {
          const Ref<Work> out =
              g->start_send(part(all, (me + k - step) % k * n, n), (me + 1) % k, 0, true);
          const Ref<Work> in = g->start_receive(part(all, (me + k - step - 1) % k * n, n),
                                                (me + k - 1) % k, 0, true);
          out->wait();
          in->wait();
        }
        for (int r = 0; r < k; ++r) expect(part(all, r * n, n), r);
        g->close();
      });
}

TEST_F(CudaNcclMessages, OneTensorGoesToManyWhoSendTheSame) {
  run_ranks(4, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = job->env().rank;
    const Tensor x = numbers(me, 70'000, device_of(job));
    const Tensor all = numbers(-1, 4 * 70'000, device_of(job));
    std::vector<Ref<Work>> works;
    for (int r = 0; r < 4; ++r)
      if (r != me) works.push_back(g->start_send(x, r, 0, true));
    for (int r = 0; r < 4; ++r)
      if (r != me) works.push_back(g->start_receive(part(all, r * 70'000, 70'000), r, 0, true));
    for (const auto& w : works) w->wait();
    for (int r = 0; r < 4; ++r)
      if (r != me) expect(part(all, r * 70'000, 70'000), r);
    g->close();
  });
}

TEST_F(CudaNcclMessages, APipelineGoesForwardsAndBackwards) {
  run_ranks(3, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const int me = job->env().rank;
    const Device d = device_of(job);
    constexpr int kParts = 5;
    for (int i = 0; i < kParts; ++i) {
      const Tensor x = numbers(i, 40, d);
      if (me > 0) g->start_receive(x, me - 1, 0, false);
      op_<"add">(x, 1.0);
      if (me < 2) g->start_send(x, me + 1, 0, false);
      if (me == 2) expect(x, i + 3);
    }
    for (int i = 0; i < kParts; ++i) {
      const Tensor gradient = numbers(i, 40, d);
      if (me < 2) g->start_receive(gradient, me + 1, 1, false);
      op_<"mul">(gradient, 2.0);
      if (me > 0) g->start_send(gradient, me - 1, 1, false);
      if (me == 0) {
        EXPECT_EQ(number_at(gradient, 0), 8 * i);
      }
    }
    g->close();
  });
}

// The same programs over "shm" are the reference: what arrives, and from whom.
TEST_F(CudaNcclMessages, RandomProgramsBringWhatTheyBringOverTheHost) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    start(seed, static_cast<int>(seed % 3) * 40);
    const int k = 2 + static_cast<int>(seed % 3);
    run_ranks(k, [&](std::shared_ptr<Job> job) {
      const int me = job->env().rank;
      std::vector<std::vector<double>> got;
      for (const char* const backend : {"shm", "nccl"}) {
        const bool nccl = std::string(backend) == "nccl";
        const Ref<Group> g = world(job, nccl ? 2 : 1, backend);
        std::mt19937 random(static_cast<unsigned>(seed));  // the same on all ranks
        std::vector<Ref<Work>> works;
        std::vector<Tensor> arrived;
        for (int i = 0; i < 60; ++i) {
          const int from = static_cast<int>(random() % static_cast<unsigned>(k));
          const int step = 1 + static_cast<int>(random() % static_cast<unsigned>(k - 1));
          const int to = (from + step) % k, tag = static_cast<int>(random() % 3);
          const int64_t n = std::array{0, 1, 40, 5000}[random() % 4];
          const bool host = random() % 4 == 0, waits = random() % 5 == 0, both = random() % 7 == 0;
          const Device d = nccl && !host ? device_of(job) : Device{};
          if (me == from) works.push_back(g->start_send(numbers(i, n, d), to, tag, true));
          if (me == to) {
            arrived.push_back(numbers(-1, n, d));
            works.push_back(g->start_receive(arrived.back(), from, tag, true));
          }
          if (waits && (me == from || me == to)) works.back()->wait();
          if (both) {  // a collective between them
            const Tensor x = numbers(me, 3, nccl ? device_of(job) : Device{});
            Desc desc;
            desc.verb = Verb::AllReduce;
            desc.dtype = x.dtype();
            desc.shape = x.shape();
            g->start(desc, x, x, false);
            EXPECT_EQ(number_at(x, 0), k * (k - 1) / 2);
          }
        }
        for (const auto& w : works) w->wait();
        std::vector<double>& values = got.emplace_back();
        for (const Tensor& t : arrived) {
          const Tensor there = fetch(t);
          for (int64_t i = 0; i < there.numel(); ++i) values.push_back(number_at(there, i));
        }
        g->close();
      }
      EXPECT_EQ(got[0], got[1]);
    });
  }
}

TEST_F(CudaNcclMessages, WhatDoesNotFitIsRefusedOnBothSides) {
  const auto seen = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    if (job->env().rank == 0)
      g->start_send(numbers(0, 10, device_of(job)), 1, 0, false);
    else
      g->start_receive(numbers(0, 11, device_of(job)), 0, 0, false);
  });
  for (const Outcome& o : seen) {
    EXPECT_EQ(o.reason, Reason::Disagree) << o.text;
    EXPECT_NE(o.text.find("r0 sends 10 elements of float32"), std::string::npos) << o.text;
    EXPECT_NE(o.text.find("r1 expects 11 elements of float32"), std::string::npos) << o.text;
  }
}

TEST_F(CudaNcclMessages, TwoRanksOnOneGpuAreRefused) {
  const auto seen = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    const Tensor x = numbers(0, 10, Device{0});
    if (job->env().rank == 0)
      g->start_send(x, 1, 0, false);
    else
      g->start_receive(x, 0, 0, false);
  });
  for (const Outcome& o : seen) {
    EXPECT_EQ(o.reason, Reason::Refused) << o.text;
    EXPECT_NE(o.text.find("ranks 0 and 1 use one GPU"), std::string::npos) << o.text;
  }
}

TEST_F(CudaNcclMessages, ATensorOfTheHostDoesNotMeetOneOfAGpu) {
  const auto seen = try_ranks(2, [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    if (job->env().rank == 0)
      g->start_send(numbers(0, 10, Device{}), 1, 0, false);
    else
      g->start_receive(numbers(0, 10, device_of(job)), 0, 0, false);
  });
  EXPECT_EQ(seen[1].reason, Reason::Disagree) << seen[1].text;
  EXPECT_NE(seen[1].hint.find("both on the CPU"), std::string::npos) << seen[1].hint;
}

TEST_F(CudaNcclMessages, ARankThatGoesIsNamedByWhoWaitsForItsMessages) {
  for (const bool sends : {false, true}) {
    const auto seen = try_ranks(2, [&](std::shared_ptr<Job> job) {
      const Ref<Group> g = world(job);
      const Tensor x = numbers(0, 1000, device_of(job));
      const auto pass = [&](bool send, int peer) {
        send ? g->start_send(x, peer, 0, false) : g->start_receive(x, peer, 0, false);
      };
      pass(sends == (job->env().rank == 0), 1 - job->env().rank);
      if (job->env().rank == 1) return job->report({Reason::Died, {1}, "rank 1 died"});
      for (;;) pass(sends, 1);
    });
    EXPECT_EQ(seen[0].reason, Reason::Died) << seen[0].text;
    EXPECT_EQ(seen[0].ranks, std::vector<int>{1});
  }
}

}  // namespace
}  // namespace tycho::dist
