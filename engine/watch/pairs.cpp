// [n, 1] with [n]: tables of every pair that a sum or a mean then makes one number of (see
// trace.h). Where broadcasting stretches both sides like that, the result is remembered: by a trace
// when it has no graph, by its node's number when it has one.
#include <vector>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/notes.h"
#include "engine/watch/trace.h"

namespace tycho::watch {
namespace {

struct Table {
  Where where;
  const Op* op;
  Sizes a, b, shape;
};
struct Tables {
  std::vector<Table> all;
  struct {
    uint64_t node = 0;
    int table = -1;
  } nodes[64];  // the newest
  uint32_t next = 0;
};
Tables& tables() {
  static thread_local Tables t;
  return t;
}
constexpr size_t kMostPairs = 4096;

// How a row makes pairs. The sum of all products or sums of pairs is worth a note only where it is
// taken at once: a table that is used otherwise first is mostly meant.
enum class Way { None, AtOnce, Later };
Way way_of(const Op& op) {
  switch (static_cast<Row>(op.row)) {
    case Row::sub:
    case Row::rsub:
    case Row::eq:
    case Row::ne:
      return Way::Later;
    case Row::add:
    case Row::mul:
    case Row::div:
      return Way::AtOnce;
    default:
      return Way::None;
  }
}

int table_of_node(const Node* n) {
  for (const auto& known : tables().nodes)
    if (known.table >= 0 && known.node == n->id) return known.table;
  return -1;
}

// The table that a tensor with a graph was made from by element-wise operations on it alone, or -1.
int find_table(const Node* n, int depth) {
  if (!n || depth == 0) return -1;
  const int table = table_of_node(n);
  if (table >= 0) return way_of(*tables().all[table].op) == Way::Later || depth == 8 ? table : -1;
  if (!n->op || n->op->row < 0) return -1;
  int found = -1;
  for (int i = 0; i < n->edges.size(); ++i) {
    if (n->args && n->args->arg[i].tag != Tag::Tensor) continue;
    const int at = find_table(static_cast<const Node*>(n->edges[i].node.get()), depth - 1);
    if (at < 0 || (found >= 0 && at != found)) return -1;
    found = at;
  }
  return found;
}

const char* symbol(const Op& op) {
  switch (static_cast<Row>(op.row)) {
    case Row::sub:
      return "-";
    case Row::add:
      return "+";
    case Row::mul:
      return "*";
    case Row::div:
      return "/";
    default:
      return op.name;
  }
}

}  // namespace

void look_for_pairs(Call& c) {
  if (mode.sweeping || shapes_only || c.n < 2 || way_of(*c.op) == Way::None) return;
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  if (!a || !b || a->storage.get() == b->storage.get())
    return;  // all pairs of one tensor are meant
  if (!stretched_over_pairs(a.shape(), b.shape())) return;
  const Where where = here();
  if (!wants_note("B2", where)) return;
  auto& all = tables().all;
  size_t i = 0;
  while (i < all.size() && (all[i].op != c.op || all[i].where.source != where.source ||
                            all[i].where.line != where.line))
    ++i;
  if (i == kMostPairs) return;
  if (i == all.size()) all.emplace_back();
  all[i] = {where, c.op, a.shape(), b.shape(), c.out[0].shape()};
  uint32_t under = 0;
  for (const Tensor* t : {&a, &b})
    if (const Trace* trace = trace_of(t->get()); trace && trace->pairs < 0) under = (*t)->trace;
  c.out[0]->trace = new_pairs_trace(static_cast<int>(i), under);
  standing_wants.numbers = true;
  standing_wants.records = true;
}

void pairs_recorded(const Impl* result, uint64_t node_id) {
  const Trace* t = trace_of(result);
  if (!t || t->pairs < 0) return;
  Tables& all = tables();
  all.nodes[all.next++ % 64] = {node_id, t->pairs};
}

bool hands_pairs_on(const Call& c, const Trace& t) {
  if (c.op->row < 0) return std::string_view(c.op->name) == "to.dtype";
  if (way_of(*tables().all[static_cast<size_t>(t.pairs)].op) != Way::Later) return false;
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag != Tag::Tensor) continue;
    const Trace* other = trace_of(c.arg[i].t);
    if (!other || other->pairs != t.pairs) return false;
  }
  return true;
}

void look_at_reduction(const Call& c) {
  const std::string_view name = c.op->name;
  const Tensor& x = c.tensor(0);
  if (mode.sweeping || !x || x.numel() < 2) return;
  if (name != "sum" && name != "mean" && name.substr(0, 4) != "sum." &&
      name.substr(0, 5) != "mean.")
    return;
  int found = -1;
  if (const Trace* t = trace_of(x.get()))
    found = t->pairs;
  else
    found = find_table(static_cast<const Node*>(x->node.get()), 8);
  if (found < 0) return;
  const Table& t = tables().all[static_cast<size_t>(found)];
  if (!wants_note("B2", t.where)) return;
  show_note("B2", "op", t.where,
            {{"a", to_string(t.a)},
             {"b", to_string(t.b)},
             {"symbol", symbol(*t.op)},
             {"shape", to_string(t.shape)}});
}

}  // namespace tycho::watch
