// Graphs by stream capture: every operation replayed, memory that stays with its graph, streams that
// fork and join, random numbers, and captures that break.
#include <random>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/start.h"
#include "engine/ops/random/random.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/ops/replayed.h"

namespace tycho {
namespace {

constexpr Device kDevice{0};

// --- every operation ---
namespace every {
using namespace optest;
class CudaGraphs : public EveryOp {
 protected:
  void SetUp() override {
    cuda::emulated::start();
    cuda::start();
  }
};
TEST_P(CudaGraphs, ReplayWhatWasCaptured) {
  // The kernels are those of CudaKernels; sanitizers see enough of the capture in a part of the operations.
  if (std::getenv("TYCHO_SANITIZED") && std::hash<std::string>{}(op().name) % 4) return;
  const bool runs =
      op().row >= 0 || op().kernel[static_cast<int>(BackendKind::Cuda)] || op().is_composition();
  if (!runs || op().random || op().any_device || reads_memory() || gives_any_values()) return;
  each_sample([&](const Samples::Item& item) {
    for (const Value& v : item.args)
      if (v.tag == Tag::Device) return;
    if (mapped(item.args, copied).tensors.empty()) return;
    const std::string why = same_when_replayed(op(), item, kDevice);
    if (!why.empty()) skip(why);
  });
}
TYCHO_EVERY_OP(CudaGraphs);
}  // namespace every

// --- what a graph is made of ---
struct CudaGraph : testing::Test {
  CudaGraph() {
    cuda::emulated::start();
    cuda::start();
    on_stream(backend().new_stream(kDevice));
  }
  ~CudaGraph() override {
    set_current_stream(kDevice, 0);
    for (const StreamId s : streams_) backend().release_stream(kDevice, s);
  }
  static Backend& backend() { return backend_of(kDevice); }
  static Tensor ones(int64_t n) { return filled({n}, 1, DType::Float32, kDevice); }
  static double at(const Tensor& t, int64_t i = 0) {
    backend().synchronize(kDevice);
    return number_at(t, i);
  }
  StreamId on_stream(StreamId s) {
    streams_.push_back(s);
    set_current_stream(kDevice, s);
    return s;
  }
  template <class F>
  void capture(Graph& g, F&& f, PoolId pool = 0) {
    g.begin(kDevice, pool);
    f();
    g.end();
  }
  template <class F>
  static void refused(F&& f, const char* why) {
    try {
      f();
      ADD_FAILURE() << "was allowed: " << why;
    } catch (const Error& e) {
      EXPECT_NE(e.text.find(why), std::string::npos) << e.text;
    }
    EXPECT_EQ(capturing, nullptr);
  }
  std::vector<StreamId> streams_;
};

TEST_F(CudaGraph, NothingRunsBeforeTheReplay) {
  const Tensor x = ones(1000);
  Graph g;
  capture(g, [&] { op_<"mul">(x, 3.0); });
  EXPECT_EQ(at(x, 999), 1);
  for (int i = 0; i < 3; ++i) g.replay();
  EXPECT_EQ(at(x, 999), 27);
}

TEST_F(CudaGraph, ItsMemoryIsNobodyElsesWhileItLives) {
  const Tensor x = ones(1000);
  const int64_t before = backend().live_bytes(kDevice);
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    Tensor y;
    auto g = std::make_unique<Graph>();
    capture(*g, [&] {
      y = op<"add">(x, 1);
      for (int i = 0; i < 30; ++i) {
        y = op<"add">(y, 1);
        if (random() % 4 == 0) y = op<"mul">(y, op<"exp">(op<"sub">(y, y)));
      }
    });
    // What is used for other things meanwhile has nothing to do with the graph's blocks.
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(filled({1000}, -1, DType::Float32, kDevice));
    g->replay();
    backend().synchronize(kDevice);
    for (const Tensor& t : others) ASSERT_EQ(number_at(t, 500), -1);
    ASSERT_EQ(number_at(y, 500), 32);
    // A graph whose temporaries needed a block each would hold thirty.
    EXPECT_LT(backend().live_bytes(kDevice) - before, int64_t{4096} * 30);
    if (random() % 2) {
      g.reset();
      EXPECT_EQ(number_at(y, 500), 32);  // its result outlives it
    }
  }
  EXPECT_EQ(backend().live_bytes(kDevice), before);
  EXPECT_EQ(cuda::emulated::held().lost, 0u);
}

TEST_F(CudaGraph, GraphsCanShareAPool) {
  const Tensor x = ones(1000);
  Graph a, b;
  Tensor y;
  capture(a, [&] { op_<"copy">(x, op<"add">(op<"add">(x, 1), 1)); });
  const int64_t live = backend().live_bytes(kDevice);
  capture(
      b, [&] { op_<"copy">(x, op<"mul">(op<"mul">(x, 2), 2)); }, a.pool());
  EXPECT_LT(backend().live_bytes(kDevice) - live, 4096);  // the same blocks
  a.replay(), b.replay(), a.replay();
  EXPECT_EQ(at(x), 14);
  a.reset();
  b.replay();
  EXPECT_EQ(at(x), 56);
}

TEST_F(CudaGraph, StreamsThatForkAndJoinArePartOfIt) {
  const Tensor x = ones(1000);
  const StreamId one = streams_[0], two = backend().new_stream(kDevice);
  streams_.push_back(two);
  Tensor a, b, sum;
  Graph g;
  capture(g, [&] {
    a = op<"mul">(x, 2);
    backend().wait_on_device(kDevice, two, kDevice, one, backend().mark(kDevice, one));
    set_current_stream(kDevice, two);
    for (int i = 0; i < 5; ++i) b = op<"add">(i ? b : a, 1);
    set_current_stream(kDevice, one);
    for (int i = 0; i < 5; ++i) a = op<"add">(a, 10);
    backend().wait_on_device(kDevice, one, kDevice, two, backend().mark(kDevice, two));
    sum = op<"add">(a, b);
  });
  for (int i = 1; i < 4; ++i) {
    op_<"fill">(x, i);
    g.replay();
    EXPECT_EQ(at(sum), 4 * i + 55);
  }
}

TEST_F(CudaGraph, AStreamThatIsNotJoinedIsAnErrorAndLeavesNothing) {
  const Tensor x = ones(10);
  const StreamId one = streams_[0], two = backend().new_stream(kDevice);
  streams_.push_back(two);
  const size_t graphs = cuda::emulated::held().graphs;
  Graph g;
  g.begin(kDevice, 0);
  backend().wait_on_device(kDevice, two, kDevice, one, backend().mark(kDevice, one));
  set_current_stream(kDevice, two);
  op_<"add">(x, 1);
  set_current_stream(kDevice, one);
  refused([&] { g.end(); }, "streams that took part must be waited for");
  EXPECT_EQ(cuda::emulated::held().graphs, graphs);
  op_<"add">(x, 1);
  EXPECT_EQ(at(x), 2);
}

TEST_F(CudaGraph, ReplaysDrawNewNumbersAndTheSameAsSingleCalls) {
  Graph g;
  Tensor a, b;
  const Tensor x = ones(1003);
  capture(g, [&] {
    a = op<"rand_like">(x);
    b = op<"dropout">(x, 0.5, true);
  });
  seed_all(9);
  std::vector<Tensor> want;
  for (int i = 0; i < 3; ++i) {
    want.push_back(fetch(op<"rand_like">(x)));
    want.push_back(fetch(op<"dropout">(x, 0.5, true)));
  }
  const Tensor last = fetch(op<"rand_like">(x));
  seed_all(9);
  for (size_t i = 0; i < 3; ++i) {
    g.replay();
    EXPECT_EQ(optest::difference(fetch(a), want[2 * i], -1), "");
    EXPECT_EQ(optest::difference(fetch(b), want[2 * i + 1], -1), "");
  }
  EXPECT_EQ(optest::difference(fetch(op<"rand_like">(x)), last, -1), "");
  PhiloxStream other(3);
  DeviceGenerator own{kDevice, RandomStream(other)};
  Graph h;
  refused([&] { capture(h, [&] { op_<"uniform">(x, 0.0, 1.0, &own); }); }, "another generator");
}

TEST_F(CudaGraph, CopiesFromPinnedMemoryReadItAtEachReplay) {
  const Tensor x = ones(100);
  Graph g;
  float* host = nullptr;
  capture(g, [&] {
    const Tensor pinned = empty_pinned({100}, DType::Float32);
    host = pinned.host<float>();
    backend().copy_later(x, pinned, false);
  });
  for (int i = 1; i < 4; ++i) {  // the graph keeps it
    for (int k = 0; k < 100; ++k) host[k] = static_cast<float>(i * k);
    g.replay();
    EXPECT_EQ(at(x, 50), 50 * i);
  }
}

TEST_F(CudaGraph, WhatTheHostWouldWaitForIsRefusedAndEndsTheCapture) {
  const Tensor x = ones(10);
  const size_t graphs = cuda::emulated::held().graphs;
  const StreamId s = streams_[0];
  const auto never = [&](const char* why, auto&& f) {
    Graph g;
    refused([&] { capture(g, f); }, why);
    refused([&] { g.end(); }, "nothing was captured");
    capture(g, [&] { op_<"add">(x, 1); });  // and can be used again
    g.replay();
  };
  never("reading values", [&] { item(op<"sum">(x)); });
  never("to the host", [&] { fetch(x); });
  never("memory that is not pinned", [&] { sent(empty({3}, DType::Float32), kDevice); });
  if (cuda_device_count() > 1) {
    const Tensor far = filled({10}, 1, DType::Float32, Device{1});
    never("between devices", [&] { backend().copy(x, far); });
  }
  never("waiting for the device", [&] { backend().synchronize(kDevice); });
  never("waiting for a stream", [&] { backend().wait(kDevice, s, backend().mark(kDevice, s)); });
  never("how far a stream is", [&] { backend().passed(kDevice, s, backend().mark(kDevice, s)); });
  never("measuring time", [&] { backend().new_time(kDevice, s); });
  EXPECT_EQ(cuda::emulated::held().graphs, graphs);
  EXPECT_EQ(at(x), 9);
}

TEST_F(CudaGraph, AGraphOfTheDefaultStreamAndReplaysOfNothingAreRefused) {
  Graph g;
  refused([&] { g.replay(); }, "nothing to replay");
  refused([&] { g.end(); }, "is not being captured");
  set_current_stream(kDevice, 0);
  refused([&] { g.begin(kDevice, 0); }, "default stream");
}

TEST_F(CudaGraph, AFaultInAReplayIsToldWhereTheHostWaits) {
  const Tensor x = ones(10), at_bad = filled({3}, 99, DType::Int64, kDevice);
  Graph g;
  Tensor y;
  capture(g, [&] { y = op<"index_select">(x, 0, at_bad); });
  g.replay();
  EXPECT_THROW(backend().synchronize(kDevice), Error);
  op_<"fill">(at_bad, 3);
  g.replay();
  EXPECT_EQ(at(y, 1), 1);
}

}  // namespace
}  // namespace tycho
