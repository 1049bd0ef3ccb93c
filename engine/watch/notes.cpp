// What the notes look for (see notes.h). Everything here runs off the hot path: behind a mismatch
// of shapes or types, or once in many sweeps.
#include "engine/watch/notes.h"

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/trace.h"

namespace tycho::watch {

void (*show_note)(const char*, const char*, Where, std::initializer_list<NoteValue>) = nullptr;
bool (*note_is_done)(const char*, Where) = nullptr;

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

namespace {

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

// p[{1, 5}], one element, beside a tensor that has the shape of p's rows 1 to 5.
void note_range(const Tensor& a, const Tensor& b) {
  const Tensor &one = a.rank() == 0 ? a : b, &other = a.rank() == 0 ? b : a;
  const Impl* base = one->base.get();
  if (mode.sweeping || shapes_only) return;
  if (one.rank() != 0 || other.rank() != 2 || !base || base->rank != 2 || !base->contiguous) return;
  const int64_t columns = base->shape[1], place = one->offset - base->offset;
  if (columns == 0 || other.size(1) != columns) return;
  const int64_t first = place / columns + 1, last = place % columns + 1;
  if (first >= last || other.size(0) != last - first + 1 || last > base->shape[0]) return;
  const Where where = here();
  if (!wants_note("RANGE", where)) return;
  show_note("RANGE", "range", where,
            {{"first", std::to_string(first)},
             {"last", std::to_string(last)},
             {"shape", to_string(Sizes(base->shape, base->rank))},
             {"other", to_string(other.shape())},
             {"at", at(where)}});
}

void note_softmax(const Tensor& scores) {
  static const Op* const softmax = &get_op("softmax");
  static const Op* const log_softmax = &get_op("log_softmax");
  if (!scores->node) return;
  const Node* n = static_cast<const Node*>(scores->node.get());
  if (n->op != softmax && n->op != log_softmax) return;
  const Where where = here();
  if (wants_note("SOFT", where))
    show_note("SOFT", "loss", where, {{"op", bare_name(n->name())}, {"at", at(n->where)}});
}

void count_classes(const Tensor& scores) {
  if (scores.rank() == 0) return;
  ++class_losses.count;
  class_losses.classes = scores.shape()[scores.rank() == 1 ? 0 : 1];
  if (class_losses.offers == 0 || !show_note) return;
  --class_losses.offers;
  show_note("LABEL", "used", here(), {{"classes", std::to_string(class_losses.classes)}});
}

// --- Running totals ---

constexpr int kOften = 32;  // sweeps between looks, and additions that make a total
thread_local int totals_noted = 0;
// On while records are looked at for total = total + loss; the sweep turns it on now and then.
constinit thread_local bool watch_totals = false;

const Node* graph_node(const Edge& e) { return static_cast<const Node*>(e.node.get()); }

// Was this graph swept already? Sums and the like keep nothing that could be freed: look below.
bool was_swept(const Node* n, int depth = 6) {
  if (!n || depth == 0) return false;
  if (n->freed) return true;
  for (const Edge& e : n->edges)
    if (was_swept(graph_node(e), depth - 1)) return true;
  return false;
}

void set_watch_totals(bool on) {
  watch_totals = on;
  standing_wants.records = on || standing_wants.numbers;  // pairs want records too
}

void count_sweep() {
  static thread_local int sweeps = 0;
  if (const bool on = ++sweeps % kOften == 0 && totals_noted < 4; on != watch_totals)
    set_watch_totals(on);
}

void look_for_total(const Call& c, const Node& node) {
  if (!node.op || node.op->row != static_cast<int>(Row::add) || node.edges.size() != 2) return;
  if (c.out[0].numel() != 1) return;
  for (int side = 0; side < 2; ++side) {
    int additions = 0, swept = 0;
    const Node* n = graph_node(node.edges[side]);
    while (n && n->op == node.op && n->where == node.where && additions < kOften) {
      swept += was_swept(graph_node(n->edges[1 - side]));
      ++additions;
      n = graph_node(n->edges[side]);
    }
    // Of a sum that is only being collected, to be swept as a whole, nothing is swept yet.
    if (additions < kOften - 2 || swept < additions) continue;
    set_watch_totals(false);
    if (wants_note("SUM", node.where)) {
      ++totals_noted;
      show_note("SUM", "total", node.where, {{"at", at(node.where)}});
    }
    return;
  }
}

// --- A float64 constant that made a float64 result of a float32 chain ---
// Noted when a sweep comes by: where only values are compared, the wider type is welcome.

struct Promotion {
  uint64_t node = 0;
  std::string op, constant, chain;
};
thread_local Promotion promotions[8];  // the newest
thread_local uint32_t promotion_count = 0;

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
  promotions[promotion_count++ % 8] = {node.id, bare_name(node.name()),
                                       to_string(constant->shape()), to_string(chain->shape())};
  standing_wants.steps = true;
}

void promotion_swept(const Node& node) {
  if (node.outputs[0].dtype != DType::Float64) return;
  for (const Promotion& p : promotions)
    if (p.node == node.id && wants_note("F64", node.where))
      show_note("F64", "op", node.where,
                {{"op", p.op}, {"constant", p.constant}, {"chain", p.chain}});
}

// --- The observer that stands all the time ---

struct Notes final : Observer {
  void stretched(Call& c) override { look_for_pairs(c); }
  void made_number(const Call& c) override { look_at_reduction(c); }
  void unrecorded(Call& c) override { leave_trace(c); }
  void recording(const Call& c, const Node& node) override {
    for (const Tensor& t : c.out)
      if (t->trace && !t->node) pairs_recorded(t.get(), node.id);
    if (c.out[0].dtype() == DType::Float64 && c.op->row >= 0) promotion_recorded(c, node);
    if (watch_totals) look_for_total(c, node);
  }
  void compared(const char* op, const Tensor& prediction, const Tensor& target) override {
    if (std::string_view(op) == "nll_loss") return count_classes(prediction);
    if (prediction.rank() == 0 || target.rank() == 0) return note_range(prediction, target);
    note_pairs(op, prediction, target);
  }
  void scored(const Tensor& scores) override {
    count_classes(scores);
    note_softmax(scores);
  }
  void step(const Node& node, std::span<const Tensor>, std::span<const Tensor>) override {
    promotion_swept(node);
  }
  void swept() override { count_sweep(); }
  // Said once for an operation, wherever it stands: who shows notes knows for which.
  void leaving_device(const Call& c, Device device) override {
    if (!show_note) return;
    const Where where = here();
    show_note("DEV", "op", where,
              {{"op", bare_name(c.op->name)}, {"device", device_name(device)}, {"at", at(where)}});
  }
  void needed_before_change(const Node& node, const Storage& s) override {
    last_blame = {bare_name(node.name()), bare_name(s.changed_by.get()), node.where, s.changed_at};
  }
  void explain_cut(const Impl* t, std::string& why, std::string& hint) override {
    watch::explain_cut(t, why, hint);
  }
};
constinit Notes notes;
[[maybe_unused]] const bool standing = (standing_observer = &notes, true);

}  // namespace
}  // namespace tycho::watch
