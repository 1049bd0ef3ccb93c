// The stand-in's functions. Every rank's part of a collective is two works: it gives what it has, and
// takes the result when all have given.
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/cpu/reduce/ranks.h"
#include "engine/dist/types.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/cuda/emulated/nccl_on_cpu.h"

namespace tycho::cuda {

using Bytes = std::vector<char>;
struct Step {
  std::vector<Bytes> given;
  int count = 0;
};
// What the ranks of one id share.
struct World {
  std::mutex mutex;
  int ranks = 0, there = 0;
  bool aborted = false;
  std::map<uint64_t, Step> steps;
  // What is sent, by its two ranks, and how many of them were given and taken.
  struct Letters {
    std::deque<Bytes> there;
    uint64_t given = 0, taken = 0;
  };
  std::map<std::pair<int, int>, Letters> letters;
};
struct nccl::CommOf {
  std::shared_ptr<World> world;
  int rank = 0;
  uint64_t step = 0;
  int late = 3;  // how often it still says that it is not ready
};

namespace emulated {
namespace {

using nccl::Comm;
using nccl::Red;
using nccl::Status;
using nccl::Type;

constexpr Status kInvalidUse = 5;
std::mutex mutex;
std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto* all = new std::map<std::string, std::shared_ptr<World>>;
  return *all;
}
std::atomic<int> comms{0};

size_t size_of(Type t) {
  return t == Type::I8 || t == Type::U8      ? 1
         : t == Type::F16 || t == Type::BF16 ? 2
         : t == Type::I32 || t == Type::F32  ? 4
                                             : 8;
}
DType dtype_of(Type t) {
  switch (t) {
    case Type::I8:
      return DType::Int8;
    case Type::U8:
      return DType::UInt8;
    case Type::I32:
      return DType::Int32;
    case Type::I64:
      return DType::Int64;
    case Type::F16:
      return DType::Float16;
    case Type::F32:
      return DType::Float32;
    case Type::F64:
      return DType::Float64;
    default:
      return DType::BFloat16;
  }
}
dist::RedOp red_of(Red r) {
  return r == Red::Sum       ? dist::RedOp::Sum
         : r == Red::Product ? dist::RedOp::Product
         : r == Red::Max     ? dist::RedOp::Max
         : r == Red::Min     ? dist::RedOp::Min
                             : dist::RedOp::Avg;
}

Bytes folded(const Step& step, Type t, Red r) {
  std::vector<const void*> all;
  for (const Bytes& b : step.given) all.push_back(b.data());
  Bytes out(step.given[0].size());
  cpu::level_of::fold_ranks(out.data(), all.data(), static_cast<int>(all.size()),
                            static_cast<int64_t>(out.size() / size_of(t)),
                            static_cast<int>(dtype_of(t)), static_cast<int>(red_of(r)),
                            static_cast<double>(all.size()));
  return out;
}

// One collective: gives `bytes` of `in`, and calls take(step) when all have given.
template <class F>
Status meet(Comm c, Stream s, const void* in, size_t bytes, F&& take) {
  const uint64_t number = ++c->step;
  const std::shared_ptr<World> w = c->world;
  const int rank = c->rank;
  enqueue(s, [=] {
    const std::lock_guard lock(w->mutex);
    Step& step = w->steps[number];
    step.given.resize(static_cast<size_t>(w->ranks));
    step.given[static_cast<size_t>(rank)].assign(static_cast<const char*>(in),
                                                 static_cast<const char*>(in) + bytes);
    ++step.count;
  });
  enqueue(
      s,
      [=] {
        const std::lock_guard lock(w->mutex);
        if (!w->aborted) take(w->steps[number]);
      },
      [=] {
        const std::lock_guard lock(w->mutex);
        return w->aborted || w->steps[number].count == w->ranks;
      });
  c->late = 2;
  return nccl::kInProgress;
}

// Messages hold up their stream until the other side has come, as the library's do; those of a group go
// on side by side.
struct Message {
  std::shared_ptr<World> world;
  std::pair<int, int> way;
  void* memory;
  size_t bytes;
  Stream stream;
  bool sends;
};
thread_local int groups = 0;
thread_local std::vector<Message> grouped;

Status go() {
  const std::vector<Message> all = std::exchange(grouped, {});
  std::vector<std::shared_ptr<uint64_t>> numbers;
  for (const Message& m : all) {
    numbers.push_back(std::make_shared<uint64_t>(0));
    if (!m.sends) continue;
    enqueue(m.stream, [m, number = numbers.back()] {
      const std::lock_guard lock(m.world->mutex);
      World::Letters& l = m.world->letters[m.way];
      const auto* begin = static_cast<const char*>(m.memory);
      l.there.emplace_back(begin, begin + m.bytes);
      *number = ++l.given;
    });
  }
  for (const bool sends : {false, true})
    for (size_t i = 0; i < all.size(); ++i) {
      const Message& m = all[i];
      if (m.sends != sends) continue;
      const auto take = [m] {
        const std::lock_guard lock(m.world->mutex);
        if (m.world->aborted || m.sends) return;
        World::Letters& l = m.world->letters[m.way];
        if (l.there.front().size() == m.bytes)
          std::memcpy(m.memory, l.there.front().data(), m.bytes);
        l.there.pop_front();
        ++l.taken;
      };
      enqueue(m.stream, take, [m, number = numbers[i]] {
        const std::lock_guard lock(m.world->mutex);
        const World::Letters& l = m.world->letters[m.way];
        return m.world->aborted || (m.sends ? l.taken >= *number : !l.there.empty());
      });
    }
  return nccl::kInProgress;
}

Status message(Message m, Comm c) {
  c->late = 2;
  grouped.push_back(std::move(m));
  return groups ? nccl::kGood : go();
}

void copy(void* to, const Bytes& from) { std::memcpy(to, from.data(), from.size()); }

Nccl make() {
  Nccl n;
  n.new_id = [](nccl::Id* id) {
    static std::atomic<int> last{0};
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->bytes, sizeof id->bytes, "world %d", ++last);
    return nccl::kGood;
  };
  n.start = [](Comm* comm, int ranks, nccl::Id id, int rank, nccl::Config* config) {
    if (config->magic != 0xcafebeef || config->blocking != 0) return kInvalidUse;
    const std::lock_guard lock(mutex);
    std::shared_ptr<World>& w = worlds()[std::string(id.bytes, sizeof id.bytes)];
    if (!w) w = std::make_shared<World>();
    const std::lock_guard inside(w->mutex);
    w->ranks = ranks;
    ++w->there;
    ++comms;
    *comm = new nccl::CommOf{w, rank};
    return nccl::kInProgress;
  };
  n.ask = [](Comm c, Status* status) {
    const std::lock_guard lock(c->world->mutex);
    const bool ready = c->world->there >= c->world->ranks && --c->late <= 0;
    *status = ready ? nccl::kGood : nccl::kInProgress;
    return nccl::kGood;
  };
  n.finalize = [](Comm c) { return c->late = 2, nccl::kInProgress; };
  n.end = [](Comm c) { return --comms, delete c, nccl::kGood; };
  n.abort = [](Comm c) {
    {
      const std::lock_guard lock(c->world->mutex);
      c->world->aborted = true;
    }
    return --comms, delete c, nccl::kGood;
  };
  n.all_reduce = [](const void* in, void* out, size_t k, Type t, Red r, Comm c, Stream s) {
    return meet(c, s, in, k * size_of(t), [=](const Step& step) { copy(out, folded(step, t, r)); });
  };
  n.broadcast = [](const void* in, void* out, size_t k, Type t, int root, Comm c, Stream s) {
    return meet(c, s, in, k * size_of(t),
                [=](const Step& step) { copy(out, step.given[static_cast<size_t>(root)]); });
  };
  n.reduce = [](const void* in, void* out, size_t k, Type t, Red r, int root, Comm c, Stream s) {
    return meet(c, s, in, k * size_of(t), [=, mine = c->rank == root](const Step& step) {
      if (mine) copy(out, folded(step, t, r));
    });
  };
  n.all_gather = [](const void* in, void* out, size_t k, Type t, Comm c, Stream s) {
    return meet(c, s, in, k * size_of(t), [=](const Step& step) {
      for (size_t r = 0; r < step.given.size(); ++r)
        copy(static_cast<char*>(out) + r * k * size_of(t), step.given[r]);
    });
  };
  n.reduce_scatter = [](const void* in, void* out, size_t k, Type t, Red r, Comm c, Stream s) {
    const size_t bytes = k * size_of(t), at = static_cast<size_t>(c->rank) * bytes;
    return meet(c, s, in, bytes * static_cast<size_t>(c->world->ranks),
                [=](const Step& step) { std::memcpy(out, folded(step, t, r).data() + at, bytes); });
  };
  n.send = [](const void* in, size_t k, Type t, int to, Comm c, Stream s) {
    return message({c->world, {c->rank, to}, const_cast<void*>(in), k * size_of(t), s, true}, c);
  };
  n.receive = [](void* out, size_t k, Type t, int from, Comm c, Stream s) {
    return message({c->world, {from, c->rank}, out, k * size_of(t), s, false}, c);
  };
  n.begin_group = [] { return ++groups, nccl::kGood; };
  n.end_group = [] { return --groups ? nccl::kGood : go(); };
  n.error_text = [](Status) { return "invalid usage"; };
  return n;
}

}  // namespace

const Nccl& nccl_on_cpu() {
  static const Nccl table = make();
  return table;
}
int nccl_comms() { return comms; }

}  // namespace emulated
}  // namespace tycho::cuda
