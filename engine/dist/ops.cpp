// Collectives as operations of the table: they go through apply as all others, so that profiles,
// Ctrl-C, notes and gradients know them. The group is a number (Group::handle), 0 for a group of
// this process alone. `async` returns before the bytes have moved; Group::last is the work then.
//
// all_reduce, broadcast and reduce also have an in-place form. Those whose result has another size
// have one that writes into a given tensor ("into"), which is what PyTorch's names do; the other
// form has a gradient (torch.distributed.nn.functional) and stacks along a new first dimension.
#include "engine/dist/group.h"
#include "engine/grad/node.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho::dist {
namespace {

struct Request {
  Verb verb;
  int64_t group;
  bool async = false;
  RedOp red = RedOp::Sum;
  int64_t root = -1;
  std::vector<int64_t> send = {}, receive = {};
};

RedOp red_of(int64_t op) {
  TYCHO_CHECK(Kind::Value, op >= 0 && op <= static_cast<int64_t>(RedOp::Bxor),
              "there is no ReduceOp %lld", static_cast<long long>(op));
  return static_cast<RedOp>(op);
}

// What a collective is asked for: its verb, and where in its call the rest stands (-1: nowhere).
struct Form {
  Verb verb;
  int group;
  int async = -1, red = -1, root = -1;
};
template <Form f>
Request asked(const Call& c) {
  Request r{.verb = f.verb, .group = c.integer(f.group)};
  if (f.async >= 0) r.async = c.flag(f.async);
  if (f.red >= 0) r.red = red_of(c.integer(f.red));
  if (f.root >= 0) r.root = c.integer(f.root);
  return r;
}

// `share` has the shape and type that all ranks must agree in.
void start(const Request& r, const Tensor& share, const Tensor& in, const Tensor& out) {
  const Ref<Group> group = Group::of(r.group);
  Desc d;
  d.verb = r.verb;
  d.red = r.red;
  d.dtype = share.dtype();
  d.root = static_cast<int32_t>(r.root);
  d.shape = share.shape();
  d.line = here();
  d.of = asks_for;
  d.send = r.send;
  d.receive = r.receive;
  // What has gaps goes through a tensor without.
  const Tensor from = in ? packed(in) : in;
  const bool direct = !out || out.contiguous();
  const bool same = in && out && in.get() == out.get();
  const Tensor to = direct ? out : same ? from : empty(out.shape(), out.dtype(), out.device());
  if (!direct && !same) copy_raw(to, out);  // those who get nothing keep what they have
  group->start(d, from, to, r.async && direct);
  if (!direct) copy_raw(out, to);
}

int ranks_of(int64_t group) { return Group::of(group)->members().size(); }
bool is_root(int64_t group, int64_t root) { return Group::of(group)->members().rank == root; }
bool is_root(const Request& r) { return is_root(r.group, r.root); }

// x in place, or a new tensor like x.
void like_self(Call& c) {
  c.out.push_back(c.inplace
                      ? c.tensor(0)
                      : empty(c.tensor(0).shape(), c.tensor(0).dtype(), c.tensor(0).device()));
}
template <int group>
void stacked(Call& c) {
  const Tensor& t = c.tensor(0);
  Sizes s = t.shape();
  s.insert(0, ranks_of(c.integer(group)));
  c.out.push_back(empty(s, t.dtype(), t.device()));
}
void check_stack(const char* op, const Tensor& t, int64_t n) {
  TYCHO_CHECK(Kind::Shape, t.rank() > 0 && t.size(0) == n,
              "%s: wants a share for each of %lld ranks along the first dimension, not shape %s",
              op, static_cast<long long>(n), to_string(t.shape()).c_str());
}
void unstacked(Call& c, const char* op, int group) {
  const Tensor& t = c.tensor(0);
  check_stack(op, t, ranks_of(c.integer(group)));
  Sizes s = t.shape();
  s.erase(0);
  c.out.push_back(empty(s, t.dtype(), t.device()));
}
void check_types(const char* op, const Tensor& out, const Tensor& in) {
  TYCHO_CHECK(Kind::DType, out.dtype() == in.dtype(), "%s: the output is %s, the input %s", op,
              dtype_name(out.dtype()), dtype_name(in.dtype()));
}
// `many` holds n of `one`; they are `out` and `in` in one order or the other.
void check_fit(const char* op, const Tensor& out, const Tensor& in, const Tensor& many,
               const Tensor& one, int64_t n) {
  check_types(op, out, in);
  TYCHO_CHECK(Kind::Shape, many.numel() == one.numel() * n,
              "%s: %lld elements do not hold %lld of %s", op, static_cast<long long>(many.numel()),
              static_cast<long long>(n), to_string(one.shape()).c_str());
}
// Writing into what is read would change it half-way.
Tensor apart(const Tensor& in, const Tensor& out) {
  if (in->storage.get() != out->storage.get()) return in;
  return op<"clone">(in);
}

// The gradient of a mean over the ranks, given that of their sum.
Tensor per_rank(const Tensor& g, int64_t red, int64_t group) {
  return red == static_cast<int64_t>(RedOp::Avg) ? op<"div">(g, ranks_of(group)) : g;
}
void check_gradient(const char* name, int64_t red) {
  TYCHO_CHECK(Kind::Autograd, red <= static_cast<int64_t>(RedOp::Avg),
              "%s: has a gradient for "
              "SUM and AVG only, not for %s",
              name, red_name(red_of(red)));
}

Op hidden(Op op) {
  op.where = kHidden;
  return op;
}

const Op& all_reduce = add_op(hidden({
    .name = "all_reduce",
    .args = "self, op: int = 0, group: int = 0, async: bool = false",
    .doc = "The elements of all ranks, combined; the same on every rank.",
    .inplace = Inplace::Direct,
    .shape = like_self,
    .run =
        [](Call& c) {
          start(asked<Form{Verb::AllReduce, 2, 3, 1}>(c), c.tensor(0), c.tensor(0), c.out[0]);
        },
    .grad =
        [](Backward& b) {
          check_gradient("all_reduce", b.integer(1));
          b.set(0, op<"all_reduce">(b.g(), b.integer(1), b.integer(2)));
        },
    .samples =
        [](Samples& s) {
          s.add({s.normal({3, 4})});
          s.add({s.normal({5}), 1});
          s.add({s.integers({2, 3}, -9, 9), 4});
        },
}));

const Op& broadcast = add_op(hidden({
    .name = "broadcast",
    .args = "self, src: int, group: int = 0, async: bool = false",
    .doc = "The tensor of rank `src` of the group, on every rank.",
    .inplace = Inplace::Direct,
    .shape = like_self,
    .run =
        [](Call& c) {
          const Request r = asked<Form{Verb::Broadcast, 2, 3, -1, 1}>(c);
          start(r, c.tensor(0), is_root(r) || c.inplace ? c.tensor(0) : c.out[0], c.out[0]);
        },
    .grad =
        [](Backward& b) {
          const Tensor g = op<"reduce">(b.g(), b.integer(1), 0, b.integer(2));
          b.set(0, is_root(b.integer(2), b.integer(1)) ? g : op<"zeros_like">(g));
        },
    .samples =
        [](Samples& s) {
          s.add({s.normal({3, 4}), 0});
        },
}));

const Op& reduce = add_op(hidden({
    .name = "reduce",
    .args = "self, dst: int, op: int = 0, group: int = 0, async: bool = false",
    .doc = "The elements of all ranks, combined, on rank `dst` of the group; others keep theirs.",
    .inplace = Inplace::Direct,
    .shape = like_self,
    .run =
        [](Call& c) {
          const Request r = asked<Form{Verb::Reduce, 3, 4, 2, 1}>(c);
          if (!is_root(r) && !c.inplace) copy_raw(c.out[0], c.tensor(0));
          start(r, c.tensor(0), c.tensor(0), is_root(r) ? c.out[0] : Tensor());
        },
    .grad =
        [](Backward& b) {
          check_gradient("reduce", b.integer(2));
          const Tensor g = op<"broadcast">(b.g(), b.integer(1), b.integer(3));
          b.set(0, per_rank(g, b.integer(2), b.integer(3)));
        },
    .samples =
        [](Samples& s) {
          s.add({s.normal({3, 4}), 0});
        },
}));

const Op& all_gather = add_op(hidden({
    .name = "all_gather",
    .args = "self, group: int = 0, async: bool = false",
    .doc = "The tensors of all ranks, stacked along a new first dimension.",
    .shape = stacked<1>,
    .run =
        [](Call& c) {
          start(asked<Form{Verb::AllGather, 1, 2}>(c), c.tensor(0), c.tensor(0), c.out[0]);
        },
    .grad = [](Backward& b) { b.set(0, op<"reduce_scatter">(b.g(), 0, b.integer(1))); },
    .samples =
        [](Samples& s) {
          s.add({s.normal({3, 4})});
        },
}));

const Op& reduce_scatter = add_op(hidden({
    .name = "reduce_scatter",
    .args = "self, op: int = 0, group: int = 0, async: bool = false",
    .doc = "Of stacked shares, one for each rank, this rank's, combined over all ranks.",
    .shape = [](Call& c) { unstacked(c, "reduce_scatter", 2); },
    .run =
        [](Call& c) {
          start(asked<Form{Verb::ReduceScatter, 2, 3, 1}>(c), c.out[0], c.tensor(0), c.out[0]);
        },
    .grad =
        [](Backward& b) {
          check_gradient("reduce_scatter", b.integer(1));
          const Tensor g = op<"all_gather">(b.g(), b.integer(2));
          b.set(0, per_rank(g, b.integer(1), b.integer(2)));
        },
    .samples =
        [](Samples& s) {
          s.add({s.normal({1, 3, 4})});
        },
}));

const Op& gather = add_op(hidden({
    .name = "gather_ranks",
    .args = "self, dst: int, group: int = 0",
    .doc = "The tensors of all ranks, stacked, on rank `dst` of the group; zeros on others.",
    .shape = stacked<2>,
    .run =
        [](Call& c) {
          const Request r = asked<Form{Verb::Gather, 2, -1, -1, 1}>(c);
          if (!is_root(r)) copy_raw(c.out[0], number_tensor(0.0));
          start(r, c.tensor(0), c.tensor(0), is_root(r) ? c.out[0] : Tensor());
        },
    .grad = [](Backward& b) { b.set(0, op<"scatter_ranks">(b.g(), b.integer(1), b.integer(2))); },
    .samples =
        [](Samples& s) {
          s.add({s.normal({3, 4}), 0});
        },
}));

const Op& scatter = add_op(hidden({
    .name = "scatter_ranks",
    .args = "self, src: int, group: int = 0",
    .doc = "This rank's share of what rank `src` of the group has stacked.",
    .shape = [](Call& c) { unstacked(c, "scatter", 2); },
    .run =
        [](Call& c) {
          const Request r = asked<Form{Verb::Scatter, 2, -1, -1, 1}>(c);
          start(r, c.out[0], is_root(r) ? c.tensor(0) : Tensor(), c.out[0]);
        },
    .grad = [](Backward& b) { b.set(0, op<"gather_ranks">(b.g(), b.integer(1), b.integer(2))); },
    .samples =
        [](Samples& s) {
          s.add({s.normal({1, 3, 4}), 0});
        },
}));

// How many elements all_to_all sends to and receives from each rank, from rows: what is not said is
// the same for all. A Value, because there may be more ranks than a Sizes holds.
std::vector<int64_t> elements(const char* which, const Tensor& t, const Value& rows, int64_t n) {
  const int64_t all = t.rank() ? t.size(0) : 0, row = all ? t.numel() / all : 0;
  TYCHO_CHECK(Kind::Shape, rows.is_none() ? all % n == 0 : rows.n == n,
              "all_to_all_single: the %s has %lld rows, and %lld splits for %lld ranks", which,
              static_cast<long long>(all), static_cast<long long>(rows.is_none() ? n : rows.n),
              static_cast<long long>(n));
  std::vector<int64_t> result;
  int64_t sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t m = rows.is_none() ? all / n : rows.ints[k];
    TYCHO_CHECK(Kind::Value, m >= 0, "all_to_all_single: a split of %lld rows",
                static_cast<long long>(m));
    sum += m;
    result.push_back(m * row);
  }
  TYCHO_CHECK(Kind::Shape, sum == all,
              "all_to_all_single: the splits of the %s add up to %lld rows of %lld", which,
              static_cast<long long>(sum), static_cast<long long>(all));
  return result;
}

const Op& all_to_all = add_op(hidden({
    .name = "all_to_all_single",
    .args = "self, group: int = 0",
    .doc = "Of stacked shares, one for each rank, those that all ranks have for this one.",
    .shape =
        [](Call& c) {
          check_stack("all_to_all_single", c.tensor(0), ranks_of(c.integer(1)));
          like_self(c);
        },
    .run =
        [](Call& c) {
          start(asked<Form{Verb::AllToAll, 1}>(c), c.tensor(0), c.tensor(0), c.out[0]);
        },
    .grad = [](Backward& b) { b.set(0, op<"all_to_all_single">(b.g(), b.integer(1))); },
    .samples =
        [](Samples& s) {
          s.add({s.normal({1, 3, 4})});
        },
}));

// --- Into a given tensor ---

Op into_given(Op op) {
  op.inplace = Inplace::Only;
  op.differentiable = false;
  op.shape = [](Call& c) {
    like_self(c);
    if (!c.inplace && has_values(c.tensor(0))) copy_raw(c.out[0], c.tensor(0));
  };
  if (!op.samples)
    op.samples = [](Samples& s) { s.add({s.normal({3, 4}), s.normal({3, 4})}, false); };
  return hidden(std::move(op));
}
void sample_of_root(Samples& s) { s.add({s.normal({3, 4}), s.normal({3, 4}), 0}, false); }

const Op& all_gather_into = add_op(into_given({
    .name = "all_gather_into",
    .args = "out, self, group: int = 0, async: bool = false",
    .doc = "The tensors of all ranks, one behind the other, in `out`.",
    .run =
        [](Call& c) {
          const Tensor &out = c.out[0], &in = c.tensor(1);
          check_fit("all_gather_into_tensor", out, in, out, in, ranks_of(c.integer(2)));
          start(asked<Form{Verb::AllGather, 2, 3}>(c), in, apart(in, out), out);
        },
}));

const Op& reduce_scatter_into = add_op(into_given({
    .name = "reduce_scatter_into",
    .args = "out, self, op: int = 0, group: int = 0, async: bool = false",
    .doc = "This rank's share of the elements of all ranks, combined, in `out`.",
    .run =
        [](Call& c) {
          const Tensor &out = c.out[0], &in = c.tensor(1);
          check_fit("reduce_scatter_tensor", out, in, in, out, ranks_of(c.integer(3)));
          start(asked<Form{Verb::ReduceScatter, 3, 4, 2}>(c), out, apart(in, out), out);
        },
}));

const Op& all_to_all_into = add_op(into_given({
    .name = "all_to_all_into",
    .args = "out, self, out_splits: ints?, in_splits: ints?, group: int = 0, async: bool = false",
    .doc = "Rows for each rank of `self`, and those from each rank in `out`.",
    .run =
        [](Call& c) {
          const Tensor &out = c.out[0], &in = c.tensor(1);
          Request r = asked<Form{Verb::AllToAll, 4, 5}>(c);
          const int n = ranks_of(r.group);
          if (c.has(2) || c.has(3)) {
            check_types("all_to_all_single", out, in);
            r.receive = elements("output", out, c.arg[2], n);
            r.send = elements("input", in, c.arg[3], n);
          } else {
            check_fit("all_to_all_single", out, in, out, in, 1);
            elements("input", in, Value(), n);
          }
          start(r, in, apart(in, out), out);
        },
}));

const Op& gather_into = add_op(into_given({
    .name = "gather_into",
    .args = "out, self, dst: int, group: int = 0, async: bool = false",
    .doc = "The tensors of all ranks, one behind the other, in `out` of rank `dst`.",
    .run =
        [](Call& c) {
          const Tensor &out = c.out[0], &in = c.tensor(1);
          const Request r = asked<Form{Verb::Gather, 3, 4, -1, 2}>(c);
          if (!is_root(r)) {
            check_types("gather", out, in);
            return start(r, in, in, Tensor());
          }
          check_fit("gather", out, in, out, in, ranks_of(r.group));
          start(r, in, apart(in, out), out);
        },
    .samples = sample_of_root,
}));

const Op& scatter_into = add_op(into_given({
    .name = "scatter_into",
    .args = "out, shares: tensor?, src: int, group: int = 0, async: bool = false",
    .doc = "This rank's share of what rank `src` has one behind the other, in `out`.",
    .run =
        [](Call& c) {
          const Tensor &out = c.out[0], &in = c.tensor(1);
          const Request r = asked<Form{Verb::Scatter, 3, 4, -1, 2}>(c);
          if (!is_root(r)) return start(r, out, Tensor(), out);
          TYCHO_CHECK(Kind::Argument, in, "scatter: rank %lld gives the tensors",
                      static_cast<long long>(r.root));
          check_fit("scatter", out, in, in, out, ranks_of(r.group));
          start(r, out, apart(in, out), out);
        },
    .samples = sample_of_root,
}));

const Op& barrier = add_op(hidden({
    .name = "barrier",
    .args = "group: int = 0, async: bool = false",
    .doc = "Waits until all ranks of the group are here; an empty tensor.",
    .differentiable = false,
    .shape = [](Call& c) { c.out.push_back(empty({0}, DType::UInt8)); },
    .run =
        [](Call& c) {
          start(asked<Form{Verb::Barrier, 0, 1}>(c), c.out[0], c.out[0], c.out[0]);
        },
    .samples = [](Samples& s) { s.add({}, false); },
}));

}  // namespace
}  // namespace tycho::dist
