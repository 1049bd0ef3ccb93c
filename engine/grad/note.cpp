// What the notes look for (see note.h). Everything here runs off the hot path: behind a mismatch of
// shapes or types, or once in many sweeps.
#include "engine/grad/note.h"

#include "engine/ops/elementwise/elementwise.h"

namespace tycho::grad {

void (*show_note)(const char*, const char*, Where, std::initializer_list<NoteValue>) = nullptr;
bool (*note_is_done)(const char*, Where) = nullptr;

Where here() { return current_where ? current_where() : Where{}; }

std::string bare_name(const Node& n) {
  const std::string_view name = n.name();
  return std::string(name.substr(0, name.find('.')));
}

bool stretched_over_pairs(const Sizes& a, const Sizes& b) {
  if (a.n == b.n) return false;
  const Sizes &tall = a.n > b.n ? a : b, &flat = a.n > b.n ? b : a;
  if (flat.n < 1 || flat.n + 1 != tall.n) return false;
  const int64_t n = flat[flat.n - 1];
  if (n < 2 || tall[tall.n - 1] != 1 || tall[tall.n - 2] != n) return false;
  // In front of those: the flat one's sizes are the tall one's, moved by one.
  for (int d = 0; d + 1 < flat.n; ++d)
    if (flat[d] != tall[d]) return false;
  return true;
}

void note_pairs(const char* op, const Tensor& prediction, const Tensor& target) {
  if (prediction.rank() == target.rank()) return;
  if (!stretched_over_pairs(prediction.shape(), target.shape())) return;
  const Where where = here();
  if (!wants_note("B2", where)) return;
  int64_t count = 1;
  for (int64_t n : broadcast(prediction.shape(), target.shape())) count *= n;
  show_note("B2", "loss", where,
            {{"op", op},
             {"a", to_string(prediction.shape())},
             {"b", to_string(target.shape())},
             {"count", std::to_string(count)}});
}

void note_softmax(const Tensor& scores) {
  static const Op* const softmax = &get_op("softmax");
  static const Op* const log_softmax = &get_op("log_softmax");
  if (!scores->node) return;
  const Node* n = static_cast<const Node*>(scores->node.get());
  if (n->op != softmax && n->op != log_softmax) return;
  const Where where = here();
  if (wants_note("SOFT", where))
    show_note("SOFT", "loss", where, {{"op", bare_name(*n)}, {"at", at(n->where)}});
}

// --- Gradients that were not zeroed ---

namespace {
const char kMarks[3][4] = {"add", "add", "add"};
const char* const kAdded = kMarks[0];  // several passes, none of them used
const char* const kUsed = kMarks[1];   // all of them used by a step
const char* const kStale = kMarks[2];  // used by a step, and added to since

bool is_mark(const char* s) { return s == kAdded || s == kUsed || s == kStale; }
bool sets_values(std::string_view op) {
  return op == "zero" || op.substr(0, 4) == "fill" || op.substr(0, 4) == "copy";
}
}  // namespace

Passes passes_of(const Storage& s) {
  if (is_mark(s.changed_by)) return {s.changed_by, s.changed_line};
  return {s.changed_by, s.changed_by && sets_values(s.changed_by) ? 0 : 1};
}

void gradient_added(Storage& s, Passes before) {
  if (before.count == 0) return;  // zeroed in place: this pass is the first
  s.changed_by = before.mark == kUsed || before.mark == kStale ? kStale : kAdded;
  s.changed_line = before.count + 1;
}

// Clipping, between the passes and the step, leaves the sum what it is; a gradient that is changed
// after the step is kept on purpose (a momentum by hand).
bool keeps_passes(const Storage& s, const char* op) {
  return is_mark(s.changed_by) && s.changed_by != kUsed && !sets_values(op);
}

int use_gradient(Storage& s) {
  const Passes p = passes_of(s);
  s.changed_by = kUsed;
  s.changed_line = p.count > 0 ? p.count : 1;
  return p.mark == kStale ? p.count : 0;
}

// --- Running totals ---

namespace {

constexpr int kOften = 32;  // sweeps between looks, and additions that make a total
thread_local int totals_noted = 0;

bool same_place(Where a, Where b) { return a.source == b.source && a.line == b.line; }
const Node* node_of(const Edge& e) { return static_cast<const Node*>(e.node.get()); }

// Was this graph swept already? Sums and the like keep nothing that could be freed: look below.
bool was_swept(const Node* n, int depth = 6) {
  if (!n || depth == 0) return false;
  if (n->freed) return true;
  for (const Edge& e : n->edges)
    if (was_swept(node_of(e), depth - 1)) return true;
  return false;
}

}  // namespace

void count_sweep() {
  static thread_local int sweeps = 0;
  watch_totals = ++sweeps % kOften == 0 && totals_noted < 4;
}

void look_for_total(const Node& node) {
  if (!node.op || node.op->row != static_cast<int>(Row::add) || node.edges.size() != 2) return;
  for (int64_t n : node.outputs[0].shape)
    if (n != 1) return;
  for (int side = 0; side < 2; ++side) {
    int additions = 0, swept = 0;
    const Node* n = node_of(node.edges[side]);
    while (n && n->op == node.op && same_place(n->where, node.where) && additions < kOften) {
      swept += was_swept(node_of(n->edges[1 - side]));
      ++additions;
      n = node_of(n->edges[side]);
    }
    // Of a sum that is only being collected, to be swept as a whole, nothing is swept yet.
    if (additions < kOften - 2 || swept < additions) continue;
    watch_totals = false;
    if (wants_note("SUM", node.where)) {
      ++totals_noted;
      show_note("SUM", "total", node.where, {{"at", at(node.where)}});
    }
    return;
  }
}

// --- float64 ---

namespace {

struct Promotion {
  uint64_t node = 0;
  std::string op, constant, chain;
};
thread_local Promotion promotions[8];  // the newest
thread_local uint32_t promotion_count = 0;

}  // namespace

void promotion_recorded(const Call& c, const Node& node) {
  const Tensor *chain = nullptr, *constant = nullptr;
  for (int i = 0; i < c.n && i < 2; ++i) {
    const Tensor& t = c.tensor(i);
    if (!t || t.rank() == 0) continue;
    if (t.dtype() == DType::Float32 && t->node) chain = &t;
    if (t.dtype() == DType::Float64 && !t.requires_grad()) constant = &t;
  }
  if (!chain || !constant) return;
  if (!wants_note("F64", node.where)) return;
  promotions[promotion_count++ % 8] = {node.id, bare_name(node), to_string(constant->shape()),
                                       to_string(chain->shape())};
  promotions_seen = true;
}

void promotion_swept(const Node& node) {
  for (const Promotion& p : promotions)
    if (p.node == node.id && wants_note("F64", node.where))
      show_note("F64", "op", node.where,
                {{"op", p.op}, {"constant", p.constant}, {"chain", p.chain}});
}

}  // namespace tycho::grad
