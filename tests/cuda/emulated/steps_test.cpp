// Random steps of allocation, copies, fills, kernels, streams, marks and faults on the emulated driver,
// whose streams run in any order that their events allow. A program that waits where it must sees its
// own values, and so does one whose streams never wait by themselves: tensors know who used them; memory serves one owner at a time, and counts add up. TYCHO_CUDA_STEPS says how many.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "engine/base/check.h"
#include "engine/base/device_memory.h"
#include "engine/cuda/faults.h"
#include "engine/cuda/kernels/prelude.cuh"
#include "engine/cuda/start.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

__global__ void add_one_to_bytes(uint8_t* p, int64_t n) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    p[i] = static_cast<uint8_t>(p[i] + 1);
}
TYCHO_KERNEL(add_one_to_bytes)
__global__ void find_a_bad_index(Fault* fault, int32_t op, int64_t value) {
  if (threadIdx.x == 0) report(fault, op, 2, value, 10);
}
TYCHO_KERNEL(find_a_bad_index)

constexpr Device kDevice{1};
constexpr size_t kRoom = size_t(3) << 19;  // beyond what the other tests left

struct Use {
  StreamId stream;
  uint64_t mark;
};
struct Held {
  Tensor tensor;
  std::vector<uint8_t> bytes;  // what it holds
  Use write{};
  std::vector<Use> reads;  // since then
};

class Steps {
 public:
  Steps(uint64_t seed, bool waits) : random_(seed), waits_(waits) {
    emulated::Options options;
    options.seed = seed;
    options.eager_percent = static_cast<int>(seed % 3 * 40);
    emulated::start(options);
    cuda::start();
    empty_pinned({1}, DType::UInt8);  // opens the current device
    context().synchronize(kDevice);
    context().empty_cache(kDevice);
    context().passed(kDevice, 0, 0);
    before_ = emulated::held();
    options.memory = before_.bytes + kRoom;
    emulated::start(options);
    live_ = context().live_bytes(kDevice);
  }

  void run(int count) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      set_current_stream(kDevice, streams_[below(streams_.size())]);
      try {
        step(below(100));
      } catch (const Error& e) {
        if (e.kind == Kind::Oom) {
          ++full_;
        } else {
          EXPECT_EQ(e.kind, Kind::Index) << e.text;
          EXPECT_NE(e.text.find("position 3 is out of range (1 to 10)"), std::string::npos)
              << e.text;
          EXPECT_LE(++told_, faults_);  // of several, the first one
        }
      }
      if (i % 500 == 499) look_at_all();
    }
    end();
  }

  int full_ = 0, told_ = 0;

 private:
  static Backend& context() { return backend_of(kDevice); }
  size_t below(size_t n) { return random_() % n; }
  StreamId stream() const { return current_stream(kDevice); }

  void after(const Use& use) {
    if (waits_ && use.stream != stream())
      context().wait_on_device(kDevice, stream(), kDevice, use.stream, use.mark);
  }
  void will_read(Held& h) { after(h.write); }
  void was_read(Held& h) { h.reads.push_back({stream(), context().mark(kDevice, stream())}); }
  void will_write(Held& h) {
    after(h.write);
    for (const Use& use : h.reads) after(use);
  }
  void was_written(Held& h) {
    h.reads.clear();
    h.write = {stream(), context().mark(kDevice, stream())};
  }
  Held& some() { return all_[below(all_.size())]; }

  void step(size_t what) {
    if (what < 26 || all_.empty()) return add();
    if (what < 48) return drop(below(all_.size()));
    Held& h = some();
    if (what < 56) return fill(h);
    if (what < 64) return put(h);
    if (what < 74) return copy(h);
    if (what < 82) return look(h);
    if (what < 87) return bump(h);
    if (what < 90) return context().wait(kDevice, h.write.stream, h.write.mark);
    if (what < 92) return (void)context().passed(kDevice, h.write.stream, h.write.mark);
    if (what < 94) return more_streams();
    if (what < 96) return fewer_streams();
    if (what < 97) return context().synchronize(kDevice);
    if (what < 98) return context().empty_cache(kDevice);
    ++faults_;
    launch(kDevice, {"steps", "find_a_bad_index"}, {}, {32}, 0, fault_of(kDevice),
           fault_number("gather"), int64_t(99));
  }

  void add() {
    const size_t most[] = {100, 1000, 20'000, 300'000};
    const int64_t n = 1 + static_cast<int64_t>(below(most[below(4)]));
    Held h{empty({n}, DType::UInt8, kDevice), {}, {}, {}};
    const auto begin = reinterpret_cast<Address>(h.tensor.data());
    const auto next = ranges_.lower_bound(begin);
    EXPECT_TRUE(next == ranges_.end() || begin + static_cast<Address>(n) <= next->first)
        << "memory was given twice";
    if (next != ranges_.begin()) {
      EXPECT_LE(std::prev(next)->second, begin) << "memory was given twice";
    }
    ranges_[begin] = begin + static_cast<Address>(n);
    live_ += memory::counted(static_cast<size_t>(n));
    h.write = {stream(), context().mark(kDevice, stream())};
    fill(h);
    all_.push_back(std::move(h));
    counts();
  }
  void drop(size_t at) {
    Held& h = all_[at];
    ranges_.erase(reinterpret_cast<Address>(h.tensor.data()));
    live_ -= memory::counted(h.bytes.size());
    std::swap(h, all_.back());
    all_.pop_back();
    counts();
  }
  void fill(Held& h) {
    const auto byte = static_cast<uint8_t>(random_());
    will_write(h);
    context().fill(h.tensor, &byte);
    was_written(h);
    h.bytes.assign(static_cast<size_t>(h.tensor.numel()), byte);
  }
  void put(Held& h) {
    for (size_t k = 0; k < h.bytes.size(); k += 97) h.bytes[k] = static_cast<uint8_t>(random_());
    const bool later = below(2);
    const Tensor& shape = h.tensor;
    const Tensor host =
        later ? empty_pinned(shape.shape(), DType::UInt8) : empty(shape.shape(), DType::UInt8);
    std::memcpy(host.host(), h.bytes.data(), h.bytes.size());
    will_write(h);
    if (later)
      context().copy_later(h.tensor, host, false);
    else
      context().copy(h.tensor, host);
    was_written(h);
  }
  void copy(Held& from) {
    Held& to = some();
    if (&to == &from) return;
    const int64_t n = std::min(to.tensor.numel(), from.tensor.numel());
    will_read(from), will_write(to);
    context().copy(alias(to.tensor, {n}, {1}, 0), alias(from.tensor, {n}, {1}, 0));
    was_read(from), was_written(to);
    std::copy_n(from.bytes.begin(), n, to.bytes.begin());
  }
  void bump(Held& h) {
    if (h.bytes.size() > 300) return;  // threads cost time here
    will_write(h);
    context().use(h.tensor.get(), true);
    launch(kDevice, {"steps", "add_one_to_bytes"}, {2}, {32}, 0, h.tensor.data<uint8_t>(),
           h.tensor.numel());
    was_written(h);
    for (uint8_t& b : h.bytes) ++b;
  }
  void look(Held& h) {
    std::vector<uint8_t> got(h.bytes.size());
    will_read(h);
    if (below(4) == 0) {  // into pinned memory, which is looked at when the copy is done
      const Tensor host = empty_pinned(h.tensor.shape(), DType::UInt8);
      context().copy_later(host, h.tensor, true);
      was_read(h);
      try {
        context().wait(kDevice, stream(), h.reads.back().mark);
      } catch (const Error&) {
        EXPECT_EQ(std::memcmp(host.host(), h.bytes.data(), got.size()), 0);
        throw;
      }
      EXPECT_EQ(std::memcmp(host.host(), h.bytes.data(), got.size()), 0);
      return;
    }
    try {
      context().use(h.tensor.get(), false);
      context().read(kDevice, got.data(), h.tensor.data(), got.size());
    } catch (const Error&) {  // a fault: told once the values are there
      EXPECT_EQ(std::memcmp(got.data(), h.bytes.data(), got.size()), 0);
      throw;
    }
    EXPECT_EQ(std::memcmp(got.data(), h.bytes.data(), got.size()), 0);
  }
  void more_streams() {
    if (streams_.size() < 5) streams_.push_back(context().new_stream(kDevice));
  }
  void fewer_streams() {
    if (streams_.size() < 3) return;
    const size_t at = 1 + below(streams_.size() - 1);
    const StreamId id = streams_[at];
    streams_.erase(streams_.begin() + static_cast<int64_t>(at));
    set_current_stream(kDevice, 0);
    context().release_stream(kDevice, id);
  }

  void counts() const { EXPECT_EQ(context().live_bytes(kDevice), live_); }
  void quiet() {
    try {
      context().synchronize(kDevice);
    } catch (const Error&) {
      EXPECT_LE(++told_, faults_);
    }
  }
  // Of the driver's memory, all is either live or kept.
  void look_at_all() {
    set_current_stream(kDevice, 0);
    quiet();
    counts();
    int64_t live = 0;
    for (Held& h : all_) {
      look(h);
      live += static_cast<int64_t>(DeviceMemory::block_bytes(h.bytes.size()));
    }
    context().synchronize(kDevice);
    EXPECT_EQ(static_cast<int64_t>(emulated::held().bytes - before_.bytes),
              live + context().memory_stats(kDevice).cached);
    EXPECT_EQ(emulated::held().lost, before_.lost) << "memory went while work wanted it";
  }
  void end() {
    look_at_all();
    while (!all_.empty()) drop(all_.size() - 1);
    while (streams_.size() > 1) {
      context().release_stream(kDevice, streams_.back());
      streams_.pop_back();
    }
    quiet();
    context().passed(kDevice, 0, 0);
    context().empty_cache(kDevice);
    context().synchronize(kDevice);
    const emulated::Held now = emulated::held();
    EXPECT_EQ(now.blocks, before_.blocks);
    EXPECT_EQ(now.bytes, before_.bytes);
    EXPECT_LE(now.events, before_.events);  // other tests left some
    EXPECT_EQ(now.streams, before_.streams);
    EXPECT_EQ(now.lost, before_.lost);
    EXPECT_EQ(context().memory_stats(kDevice).cached, 0);
    emulated::start();
  }

  std::mt19937_64 random_;
  const bool waits_;  // by itself
  emulated::Held before_{};
  int64_t live_ = 0;
  int faults_ = 0;  // that kernels found
  std::vector<StreamId> streams_{0};
  std::vector<Held> all_;
  std::map<Address, Address> ranges_;
};

TEST(CudaSteps, RandomOnesKeepValuesMemoryAndCounts) {
  const char* asked = std::getenv("TYCHO_CUDA_STEPS");
  const int count = asked ? std::atoi(asked) : 1500;
  int full = 0, told = 0;
  for (const bool waits : {true, false})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Steps steps(seed, waits);
      steps.run(count / 3);
      full += steps.full_;
      told += steps.told_;
      if (HasFailure()) FAIL() << "with seed " << seed << (waits ? "" : " and no waits");
    }
  EXPECT_GT(full, 0) << "the memory never was full";
  EXPECT_GT(told, 0) << "no fault was told";
}

TEST(CudaSteps, MemoryThatAnotherStreamUsedComesBackToItsOwnAndDoesNotPileUp) {
  emulated::Options options;
  options.eager_percent = 0;  // streams go on only where the host waits
  emulated::start(options);
  start();
  Backend& backend = backend_of(kDevice);
  backend.synchronize(kDevice);
  backend.empty_cache(kDevice);
  const StreamId other = backend.new_stream(kDevice);
  const float one = 1;
  const auto use = [&](StreamId stream, const Tensor& t) {
    set_current_stream(kDevice, stream);
    backend.fill(t, &one);
    set_current_stream(kDevice, 0);
  };
  std::vector<void*> seen;
  for (int i = 0; i < 40; ++i) {
    const Tensor t = empty({1000}, DType::Float32, kDevice);
    if (seen.empty() || seen.back() != t.data()) seen.push_back(t.data());
    use(0, t);
    use(other, t);
    if (i % 4 == 3) backend.synchronize(kDevice);
  }
  EXPECT_GT(seen.size(), 1u);  // what the other stream still wants is nobody's
  backend.synchronize(kDevice);
  EXPECT_LE(backend.memory_stats(kDevice).cached, 5 * 4096);
  // Of its own order a stream takes a block again at once, and the other stream another one.
  void* mine = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Tensor t = empty({5000}, DType::Float32, kDevice);
    EXPECT_TRUE(!mine || t.data() == mine);
    mine = t.data();
    use(0, t);
  }
  set_current_stream(kDevice, other);
  EXPECT_NE(empty({5000}, DType::Float32, kDevice).data(), mine);
  set_current_stream(kDevice, 0);
  backend.release_stream(kDevice, other);
  backend.synchronize(kDevice);
  backend.empty_cache(kDevice);
  EXPECT_EQ(backend.memory_stats(kDevice).cached, 0);
  emulated::start();
}

// Operations on some tensors, each on any stream, against the same on the CPU.
TEST(CudaSteps, OperationsOfSeveralStreamsSeeEachOthersValuesWithoutWaits) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    emulated::Options options;
    options.seed = seed;
    options.eager_percent = 0;
    emulated::start(options);
    start();
    std::mt19937_64 random(seed);
    Backend& backend = backend_of(kDevice);
    StreamId streams[] = {0, backend.new_stream(kDevice), backend.new_stream(kDevice)};
    std::vector<Tensor> there, here;
    for (int i = 0; i < 4; ++i) {
      here.push_back(filled({6, 50}, i + 1, DType::Float64));
      there.push_back(sent(here.back(), kDevice));
    }
    const auto both = [&](auto&& f) { f(there), f(here); };
    for (int step = 0; step < 120; ++step) {
      set_current_stream(kDevice, streams[random() % 3]);
      const size_t a = random() % 4, b = random() % 4, what = random() % 7;
      both([&](std::vector<Tensor>& t) {
        if (what == 0) op_<"add">(t[a], t[b]);
        if (what == 1) t[a] = op<"softmax">(t[b], 1);
        if (what == 2) t[a] = op<"flip">(t[b], Sizes{1});
        if (what == 3) op_<"copy">(op<"select">(t[a], 0, 2), op<"select">(t[b], 0, 4));
        if (what == 4) t[a] = op<"cumsum">(op<"mul">(t[b], 0.5), 1);
        if (what == 5) op_<"fill">(op<"narrow">(t[a], 1, 3, 9), 2.5);
        if (what == 6) t[a] = op<"expand">(op<"mean">(t[b], Sizes{0}, true), Sizes{6, 50});
        if (what == 6) t[a] = op<"clone">(t[a]);
      });
    }
    for (size_t i = 0; i < 4; ++i) {
      set_current_stream(kDevice, streams[random() % 3]);
      const Tensor got = fetch(there[i]);
      for (int64_t k = 0; k < got.numel(); ++k)
        ASSERT_NEAR(number_at(got, k), number_at(here[i], k), 1e-9 * (1 + number_at(got, k)))
            << "with seed " << seed;
    }
    set_current_stream(kDevice, 0);
    there.clear();
    for (const StreamId s : {streams[1], streams[2]}) backend.release_stream(kDevice, s);
  }
  emulated::start();
}

}  // namespace
}  // namespace tycho::cuda
