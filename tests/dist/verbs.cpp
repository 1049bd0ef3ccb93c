// The verbs, and the reference.
#include "tests/dist/verbs.h"

#include <cstring>

#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::dist {

Ref<Group> world(const std::shared_ptr<Job>& job, uint32_t id, Group::MakeTransport* transport) {
  std::vector<int> ranks;
  for (int r = 0; r < job->env().world_size; ++r) ranks.push_back(r);
  return Group::make(job, id, ranks, "", transport);
}

// What a rank holds: small numbers that every type has, different for every rank and place.
Tensor data(int rank, int64_t n, DType t, int salt) {
  const Tensor x = empty({n}, DType::Float32);
  auto* p = x.host<float>();
  constexpr int64_t kPeriod = 15000;
  for (int64_t i = 0; i < std::min(n, kPeriod); ++i)
    p[i] = static_cast<float>((i * 7 + rank * 13 + salt * 5 + i / 1000) % 5 + (i % 3 == rank % 3));
  for (int64_t i = kPeriod; i < n; i += kPeriod)
    std::memcpy(p + i, p, static_cast<size_t>(std::min(kPeriod, n - i)) * sizeof *p);
  return op<"to.dtype">(x, t);
}

std::string bytes(const Tensor& t) {
  const Tensor c = packed(t);
  return std::string(c.host<char>(), static_cast<size_t>(c.numel() * dtype_size(c.dtype())));
}

// The same, one rank after the other, by the engine's own operations in the widest type.
static Tensor reduced(RedOp red, int n, int64_t count, DType t, int salt = 0) {
  const bool is_float = is_floating(t);
  const DType wide = t == DType::Float64 ? t : is_float ? DType::Float32 : DType::Int64;
  Tensor y = op<"to.dtype">(data(0, count, t, salt), wide);
  for (int r = 1; r < n; ++r) {
    const Tensor x = op<"to.dtype">(data(r, count, t, salt), wide);
    switch (red) {
      case RedOp::Sum:
      case RedOp::Avg:
        y = op<"add">(y, x);
        break;
      case RedOp::Product:
        y = op<"mul">(y, x);
        break;
      case RedOp::Min:
        y = op<"minimum">(y, x);
        break;
      case RedOp::Max:
        y = op<"maximum">(y, x);
        break;
      case RedOp::Band:
        y = op<"bitwise_and">(y, x);
        break;
      case RedOp::Bor:
        y = op<"bitwise_or">(y, x);
        break;
      case RedOp::Bxor:
        y = op<"bitwise_xor">(y, x);
        break;
    }
  }
  if (red == RedOp::Avg) y = op<"div">(y, static_cast<double>(n));
  return op<"to.dtype">(y, t);
}

Desc desc(Verb verb, const Tensor& share, int root, RedOp red) {
  Desc d;
  d.verb = verb;
  d.red = red;
  d.dtype = share.dtype();
  d.root = root;
  d.shape = share.shape();
  return d;
}

static Tensor all_data(int n, int64_t count, DType t) {
  std::vector<Tensor> all;
  for (int r = 0; r < n; ++r) all.push_back(data(r, count, t));
  return op<"cat">(all, 0);
}

static bool fits(RedOp red, DType t) {
  const bool bits = red == RedOp::Band || red == RedOp::Bor || red == RedOp::Bxor;
  return is_floating(t) ? !bits : red != RedOp::Avg;
}

void every_verb(Group& g, int64_t n, DType t) {
  const int world = g.members().size(), me = g.members().rank;
  const std::string what =
      format("%lld of %s, %d ranks", static_cast<long long>(n), dtype_name(t), world);
  const auto same = [&](const Tensor& a, const Tensor& b, const char* verb) {
    ASSERT_EQ(bytes(a), bytes(b)) << verb << " of " << what << ", rank " << me;
  };
  for (const RedOp red : {RedOp::Sum, RedOp::Avg, RedOp::Product, RedOp::Min, RedOp::Max,
                          RedOp::Band, RedOp::Bor, RedOp::Bxor}) {
    if (!fits(red, t) || (n > 10000 && red > RedOp::Avg && t != DType::Int16)) continue;
    Tensor x = data(me, n, t);
    g.start(desc(Verb::AllReduce, x, -1, red), x, x, false)->wait();
    same(x, reduced(red, world, n, t), red_name(red));
  }
  for (int root = 0; root < world; ++root) {
    if (n > 10000 && root > 1) continue;
    Tensor x = data(me, n, t);
    g.start(desc(Verb::Broadcast, x, root), x, x, false);
    same(x, data(root, n, t), "broadcast");
    x = data(me, n, t);
    g.start(desc(Verb::Reduce, x, root), x, me == root ? x : Tensor(), false);
    same(x, me == root ? reduced(RedOp::Sum, world, n, t) : data(me, n, t), "reduce");
    x = data(me, n, t);
    const Tensor all = empty({world * n}, t);
    g.start(desc(Verb::Gather, x, root), x, me == root ? all : Tensor(), false);
    if (me == root) same(all, all_data(world, n, t), "gather");
    const Tensor one = empty({n}, t);
    g.start(desc(Verb::Scatter, one, root), me == root ? all_data(world, n, t) : Tensor(), one,
            false);
    same(one, data(me, n, t), "scatter");
  }
  const Tensor x = data(me, n, t), all = empty({world * n}, t);
  g.start(desc(Verb::AllGather, x), x, all, false);
  same(all, all_data(world, n, t), "all_gather");

  // Rank r's chunk for rank s is data(r, n, t, s).
  std::vector<Tensor> chunks, expected;
  for (int r = 0; r < world; ++r) {
    chunks.push_back(data(me, n, t, r));
    expected.push_back(data(r, n, t, me));
  }
  const Tensor mine = op<"cat">(chunks, 0), one = empty({n}, t);
  g.start(desc(Verb::ReduceScatter, one), mine, one, false);
  same(one, reduced(RedOp::Sum, world, n, t, me), "reduce_scatter");
  g.start(desc(Verb::AllToAll, mine), mine, all, false);
  same(all, op<"cat">(expected, 0), "all_to_all");
  // Splits: (n + r + s) % 3 of the way.
  const auto split = [&](int from, int to) { return n * ((from + 2 * to) % 3) / 2; };
  Desc d = desc(Verb::AllToAll, Tensor(x));
  chunks.clear();
  expected.clear();
  for (int r = 0; r < world; ++r) {
    d.send.push_back(split(me, r));
    d.receive.push_back(split(r, me));
    chunks.push_back(data(me, split(me, r), t, r));
    expected.push_back(data(r, split(r, me), t, me));
  }
  const Tensor splits = op<"cat">(chunks, 0), got = op<"cat">(expected, 0);
  const Tensor to = empty({got.numel()}, t);
  g.start(d, splits, to, false);
  same(to, got, "all_to_all in splits");
  g.start(desc(Verb::Barrier, empty({0}, t)), Tensor(), Tensor(), false);
}

}  // namespace tycho::dist
