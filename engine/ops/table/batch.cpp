// Batched tensors and how calls with them are computed (see batch.h).
#include "engine/ops/table/batch.h"

#include <unordered_map>

#include "engine/grad/inplace.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/storage.h"

namespace tycho {
namespace {

thread_local int maps = 0;  // that run
thread_local const char* refused = nullptr;
struct Before {
  Tensor changed, values;
};
thread_local std::vector<Before> kept;

[[noreturn]] void refuse(const char* why) {
  refused = why;
  fail(Kind::Value, format("vmap: %s", why));
}
constexpr char kValueAsked[] =
    "the value of one example is asked for, and all are computed at once";
constexpr char kShapeFollows[] = "the shape of a result follows from the values of an example";

struct Batch final : InFlight {
  Tensor all;
  int depth;
  bool viewed = false;  // is a view, or has one: a change would have to reach the other's graph

  Batch(Tensor all, int depth) : all(std::move(all)), depth(depth) {}

  void wait(Storage&) override { refuse(kValueAsked); }
};

void free_batch(void*, size_t, void* storage) {
  auto* s = static_cast<Storage*>(storage);
  delete static_cast<Batch*>(s->in_flight);
  set_in_flight(*s, nullptr);
}

Batch* batch_of(const Impl* t) {
  const Storage& s = *t->storage;
  if (!s.in_flight || s.free_data != free_batch) return nullptr;
  auto* b = static_cast<Batch*>(s.in_flight);
  const Sizes shape(t->shape, t->rank), one(b->all->shape + 1, b->all.rank() - 1);
  if (!(shape == one)) refuse("a tensor was given another shape without an operation");
  return b;
}

template <class F>
void each_argument(const Call& c, F&& f) {
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensor) f(c.arg[i].t);
    if (c.arg[i].tag == Tag::Tensors)
      for (uint32_t k = 0; k < c.arg[i].n; ++k)
        if (c.arg[i].tensors[k]) f(c.arg[i].tensors[k]);
  }
}

constinit BatchRule* announced_rules = nullptr;

BatchFunction rule_of(const Op& op) {
  static const auto rules = [] {
    std::unordered_map<const Op*, BatchFunction> all;
    for (const BatchRule* r = announced_rules; r; r = r->next) all[&get_op(r->op)] = r->function;
    return all;
  }();
  const auto found = rules.find(op.alias_of ? op.alias_of : &op);
  return found == rules.end() ? nullptr : found->second;
}

BatchResults by_rows(Spread& s) {
  int rank = 0;
  const Impl* first = nullptr;
  bool same = true, number = false;
  for (int i = 0; i < s.one.n; ++i) {
    if (s.one.arg[i].tag != Tag::Tensor) continue;
    const Impl* t = s.one.arg[i].t;
    same = same && (!first || first->dtype == t->dtype);
    number = number || t->rank == 0;
    rank = std::max(rank, s.rank(i));
    first = t;
  }
  if (number && !same)
    return {};  // a 0-d tensor yields to others' types, and all examples' have a dimension
  for (int i = 0; i < s.one.n; ++i)
    if (s.one.arg[i].tag == Tag::Tensor && s.batched(i)) s.all.set(i, s.lifted(i, rank));
  return s.run();
}

// The examples one after the other, by operations that are recorded.
BatchResults one_by_one(Spread& s) {
  const Op& op = *s.one.op;
  if (op.random) refuse("random numbers are drawn for one example");
  if (op.scalar_result) refuse(kValueAsked);
  if (op.size_from_values) refuse(kShapeFollows);
  std::vector<std::vector<Tensor>> results;
  for (int64_t k = 0; k < s.examples; ++k) {
    Call c(op);
    c.n = s.one.n;
    c.inplace = s.one.inplace;
    const auto example = [&](Impl* t) {
      const Tensor all = all_of(t, s.depth);
      return all ? tycho::op<"select">(all, 0, k) : Tensor(t);
    };
    for (int i = 0; i < c.n; ++i) {
      c.arg[i] = s.one.arg[i];
      if (c.arg[i].tag == Tag::Tensor) c.set(i, example(c.arg[i].t));
      if (c.arg[i].tag != Tag::Tensors) continue;
      std::vector<Tensor> list;
      for (uint32_t j = 0; j < s.one.arg[i].n; ++j) {
        Impl* t = s.one.arg[i].tensors[j];
        list.push_back(t ? example(t) : Tensor());
      }
      c.keep_list(i, std::move(list));
    }
    apply(c);
    results.resize(static_cast<size_t>(c.out.size()));
    for (int r = 0; r < c.out.size(); ++r) results[static_cast<size_t>(r)].push_back(c.out[r]);
  }
  BatchResults out;
  if (s.one.inplace) return out;
  for (const auto& list : results) {
    for (const Tensor& t : list)
      if (!t || !(t.shape() == list[0].shape())) refuse(kShapeFollows);
    out.push_back(tycho::op<"stack">(list));
  }
  return out;
}

// Depth and number of the examples of a call: those of the innermost map.
int depth_of(const Call& c) {
  int depth = 0;
  each_argument(c, [&](const Impl* t) {
    if (const Batch* b = batch_of(t)) depth = std::max(depth, b->depth);
  });
  return depth;
}

bool counts_from_the_end(const Call& c) {
  for (int i = 0; i < c.n; ++i) {
    const Value& v = c.arg[i];
    const Take take = c.op->params[static_cast<size_t>(i)].take;
    if (take == Take::Dim && v.tag == Tag::Int && v.i < 0) return true;
    for (uint32_t k = 0; take == Take::Dims && v.tag == Tag::Ints && k < v.n; ++k)
      if (v.ints[k] < 0) return true;
  }
  return false;
}

// An operation's checks write dimensions in the form that its gradient reads.
void check_one(Call& c) {
  if (!c.op->shape || !counts_from_the_end(c)) return;
  try {
    const ShapesOnly no_memory;
    const NoGrad quiet;
    c.op->shape(c);
  } catch (const Error&) {
    if (!refused) throw;
    refused = nullptr;  // a check of values: those of all examples are checked
  }
  c.out.clear();
}

void keep_before_change(const Tensor& t) {
  const NoGrad quiet;
  kept.push_back({t, op<"clone">(t)});
}

// A map inside that changes what the outer one maps is not kept apart: the outer one goes by examples.
void want_plain(const Tensor& t) {
  if (batch_of(t.get())) refuse("a map inside another one changes a tensor in place");
}

}  // namespace

BatchRule::BatchRule(const char* op, BatchFunction function)
    : op(op), function(function), next(announced_rules) {
  announced_rules = this;
}

Tensor one_of(const Tensor& all, int depth) {
  const Sizes shape(all->shape + 1, all.rank() - 1);
  const Tensor t = alias(all, shape, row_major(shape), 0);
  Ref<Storage> s = promised_storage(0, all.device());
  s->free_data = free_batch;
  s->context = s.get();
  t->storage = s;
  set_in_flight(*s, new Batch(all, depth));
  return t;
}

Tensor all_of(const Impl* t, int depth) {
  const Batch* b = batch_of(t);
  return b && b->depth == depth ? b->all : Tensor();
}

bool is_batched(const Impl* t) { return batch_of(t) != nullptr; }

const char* refused_batch() { return std::exchange(refused, nullptr); }

size_t begin_map() {
  ++maps;
  return kept.size();
}

void end_map(size_t from, bool take_changes_back) {
  maps = std::max(0, maps - 1);
  from = maps == 0 ? 0 : from;
  for (; kept.size() > from; kept.pop_back())
    if (take_changes_back) copy_raw(kept.back().changed, kept.back().values);
}

bool Spread::batched(int i) const {
  return one.arg[i].tag == Tag::Tensor && all_of(one.arg[i].t, depth);
}

Tensor Spread::tensor(int i) const {
  const Tensor all = all_of(one.arg[i].t, depth);
  return all ? all : one.tensor(i);
}

Tensor Spread::lifted(int i, int rank) const {
  Tensor t = tensor(i);
  if (!batched(i)) return t;
  for (int d = this->rank(i); d < rank; ++d) t = op<"unsqueeze">(t, 1);
  return t;
}

Tensor Spread::repeated(const Tensor& t) const {
  if (const Tensor all = all_of(t.get(), depth)) return all;
  Sizes shape = t.shape();
  shape.insert(0, examples);
  return op<"expand">(t, shape);
}

SmallVec<Tensor, 2> Spread::run() const {
  apply(all);
  return all.out;
}

namespace {

// by_dims, where dimensions are those of a tensor of `rank` dimensions and argument `sizes` tells its sizes.
BatchResults further(Spread& s, int rank, int sizes) {
  int tensors = 0;
  each_argument(s.one, [&](const Impl*) { ++tensors; });
  for (int i = 0; i < s.one.n; ++i) {
    const Value& v = s.one.arg[i];
    const Take take = s.one.op->params[static_cast<size_t>(i)].take;
    Sizes& list = s.ints[i];
    if (v.tag == Tag::Tensor) {
      s.all.set(i, tensors > 1 ? s.repeated(s.one.tensor(i)) : s.tensor(i));
    } else if (v.tag == Tag::Tensors) {
      std::vector<Tensor> each;
      for (int k = 0; k < s.one.count(i); ++k) each.push_back(s.repeated(s.one.tensor(i, k)));
      s.all.keep_list(i, std::move(each));
    } else if (i == sizes) {
      list = s.one.ints(i);
      list.insert(0, s.examples);
      s.all.arg[i] = Value(list);
    } else if (take == Take::Dim) {
      if (v.tag == Tag::None || rank == 0) return {};
      s.all.arg[i] = Value(int64_t{wrap_dim(v.i, rank) + 1});
    } else if (take == Take::Dims) {
      if (rank == 0) return {};
      if (v.tag == Tag::None || v.n == 0)
        for (int d = 1; d <= rank; ++d) list.push_back(d);
      else
        for (uint32_t k = 0; k < v.n; ++k) list.push_back(wrap_dim(v.ints[k], rank) + 1);
      s.all.arg[i] = Value(list);
    }
  }
  return s.run();
}

}  // namespace

BatchResults by_dims(Spread& s) {
  int rank = -1;
  each_argument(s.one, [&](const Impl* t) { rank = rank < 0 ? t->rank : rank; });
  return further(s, rank, -1);
}

BatchResults by_dims_of_size(Spread& s) {
  int sizes = 0;
  while (s.one.op->params[static_cast<size_t>(sizes)].take != Take::Ints) ++sizes;
  return further(s, s.one.count(sizes), sizes);
}

BatchResults by_sizes(Spread& s) {
  for (int i = 0; i < s.one.n; ++i) {
    if (s.one.op->params[static_cast<size_t>(i)].take != Take::Ints) continue;
    Sizes& sizes = s.ints[i];
    sizes = s.one.ints(i);
    s.all.set(0, s.lifted(0, sizes.n));
    sizes.insert(0, s.examples);
    s.all.arg[i] = Value(sizes);
  }
  return s.run();
}

BatchResults by_leading(Spread& s) {
  for (int i = 0; i < s.one.n; ++i)
    if (s.one.arg[i].tag == Tag::Tensor) s.all.set(i, s.tensor(i));
  return s.run();
}

BatchResults by_images(Spread& s, bool shared) {
  for (int i = 0; i < s.one.n; ++i) {
    if (s.one.arg[i].tag != Tag::Tensor || (shared && !s.batched(i))) continue;
    if (s.rank(i) == 0) return {};
    s.all.set(i, op<"flatten">(s.repeated(s.one.tensor(i)), 0, 1));
  }
  BatchResults out = s.run();
  for (Tensor& t : out)
    if (t) t = op<"unflatten">(t, 0, Sizes{s.examples, t.size(0) / s.examples});
  return out;
}
BatchResults by_images(Spread& s) { return by_images(s, false); }

bool has_batches(const Call& c) {
  bool any = false;
  each_argument(c, [&](const Impl* t) { any = any || batch_of(t); });
  if (any || maps == 0) return any;
  if (c.inplace) keep_before_change(c.tensor(0));
  if (!c.op->written_inputs.empty()) refuse("tensors are changed by a step over several");
  return false;
}

void run_batched(Call& c) {
  const int depth = depth_of(c);
  Call all(*c.op);
  all.n = c.n;
  for (int i = 0; i < c.n; ++i) all.arg[i] = c.arg[i];
  Spread s{c, all, 0, depth, {}};
  each_argument(c, [&](const Impl* t) {
    if (const Tensor a = all_of(t, depth)) s.examples = a.size(0);
  });
  BatchResults out;
  if (c.inplace) {
    const Batch* self = batch_of(c.tensor(0).get());
    if (!self || self->depth != depth)
      refuse("a tensor that all examples share would be changed for one");
    if (self->viewed) refuse("a tensor is changed in place that has views, or is one");
    want_plain(self->all);
    keep_before_change(self->all);
    one_by_one(s);
    c.out.push_back(c.tensor(0));
    return;
  }
  check_one(c);
  const BatchFunction rule = c.op->row >= 0 ? by_rows : rule_of(*c.op);
  if (rule) {
    try {
      out = rule(s);
    } catch (const Error&) {
      if (refused) throw;
      out.clear();  // one example's error tells its own shapes
    }
  }
  if (out.empty()) out = one_by_one(s);
  for (Tensor& t : out) c.out.push_back(t ? one_of(t, depth) : t);
  if (!c.op->view) return;
  for (const Tensor& t : c.out) batch_of(t.get())->viewed = true;
  if (Batch* b = batch_of(c.tensor(0).get())) b->viewed = true;
}

void store_in_batch(const Call& c, const Tensor& result) {
  const Tensor& self = c.tensor(0);
  const Batch* b = batch_of(self.get());
  if (!b || b->depth < depth_of(c))
    refuse("a tensor that all examples share would be changed for one");
  if (b->viewed) refuse("a tensor is changed in place that has views, or is one");
  want_plain(b->all);
  keep_before_change(b->all);
  const Tensor all = all_of(result.get(), b->depth);
  op_<"copy">(b->all, all ? all : result);
}

}  // namespace tycho
