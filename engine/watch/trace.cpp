// Traces of cut graphs (see trace.h).
#include "engine/watch/trace.h"

#include <cstring>
#include <unordered_map>
#include <vector>

#include "engine/ops/table/apply.h"

namespace tycho::watch {
namespace {

struct Traces {
  std::vector<Trace> all{Trace{}};
  std::unordered_map<uint64_t, uint32_t> index;
  std::pair<uint64_t, uint32_t> newest[16] = {};  // found without the map
};
Traces& traces() {
  static thread_local Traces t;
  return t;
}
constexpr size_t kMostSpans = 1 << 20;

// The last numbers that item() took out of graphs.
struct Taken {
  double value;
  uint32_t trace;
};
thread_local Taken taken[16];
thread_local uint32_t taken_count = 0;

}  // namespace

uint32_t new_trace(Cut cut, const char* op) {
  const Where where = here();
  Traces& t = traces();
  const uint64_t key =
      (static_cast<uint64_t>(where.source) << 40 |
       static_cast<uint64_t>(static_cast<uint32_t>(where.line)) << 8 | static_cast<uint64_t>(cut)) *
          31 +
      reinterpret_cast<uintptr_t>(op);
  auto& newest = t.newest[key / 31 % 16];
  if (newest.first == key) return newest.second;
  const auto it = t.index.find(key);
  if (it != t.index.end()) {
    newest = *it;
    return it->second;
  }
  if (t.all.size() >= kMostSpans) return 0;
  const auto id = static_cast<uint32_t>(t.all.size());
  t.all.push_back({cut, op, where});
  t.index.emplace(key, id);
  return id;
}

const Trace* trace_of(const Impl* t) {
  if (t->node || !t->trace || t->trace >= traces().all.size()) return nullptr;
  return &traces().all[t->trace];
}

uint32_t new_pairs_trace(int pairs, uint32_t under) {
  Traces& t = traces();
  for (size_t i = t.all.size(); i-- > 1 && i + 64 > t.all.size();)
    if (t.all[i].pairs == pairs && t.all[i].under == under) return static_cast<uint32_t>(i);
  if (t.all.size() >= kMostSpans) return 0;
  t.all.push_back(t.all[under]);
  t.all.back().pairs = pairs;
  t.all.back().under = under;
  return static_cast<uint32_t>(t.all.size() - 1);
}

std::string cut_text(const Impl* t) {
  const Trace* trace = trace_of(t);
  if (!trace || trace->cut == Cut::None) return {};
  const std::string_view full = trace->op;
  const std::string op = std::string(full.substr(0, full.find('.'))) + at(trace->where);
  switch (trace->cut) {
    case Cut::NoGrad:
      return op + " ran inside no_grad";
    case Cut::Inference:
      return op + " ran inside inference_mode";
    case Cut::Integers:
      return op + " made integers of it, which have no gradient";
    case Cut::Number:
      return "item()" + at(trace->where) + " turned it into a plain number";
    default:
      return std::string_view(trace->op) == "detach" || std::string_view(trace->op) == "data"
                 ? op + " cut it off"
                 : op + " has no gradient";
  }
}

void leave_trace(Call& c) {
  if (mode.sweeping) return;
  bool wanted = false;
  uint32_t id = 0;
  const auto look = [&](Impl* t) {
    if (!t) return;
    if (t->requires_grad)
      wanted = true;
    else if (!t->node && t->trace)
      id = t->trace;
  };
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensor) look(c.arg[i].t);
    if (c.arg[i].tag == Tag::Tensors)
      for (uint32_t k = 0; k < c.arg[i].n; ++k) look(c.arg[i].tensors[k]);
  }
  if (wanted)
    id = new_trace(mode.inference          ? Cut::Inference
                   : !mode.grad            ? Cut::NoGrad
                   : !c.op->differentiable ? Cut::Constant
                                           : Cut::Integers,
                   c.op->name);
  if (!id) return;
  if (const Trace& t = traces().all[id]; t.pairs >= 0 && !hands_pairs_on(c, t)) id = t.under;
  for (Tensor& t : c.out)
    if (t && !t->requires_grad && !t->node && !(standing_wants.numbers && t->trace)) t->trace = id;
}

void explain_cut(const Impl* t, std::string& why, std::string& hint) {
  const std::string cut = cut_text(t);
  if (cut.empty()) {
    const Where now = here();
    if (const Trace* number = last_number_taken(); number && number->where.source == now.source &&
                                                   now.line - number->where.line < 20 &&
                                                   number->where.line <= now.line)
      why += " (item()" + at(number->where) + " turned a tensor with a graph into a plain number)";
    return;
  }
  why = cut;
  const Trace& trace = *trace_of(t);
  if (trace.cut == Cut::NoGrad || trace.cut == Cut::Inference)
    hint = "move that line out of " +
           std::string(trace.cut == Cut::NoGrad ? "no_grad" : "inference_mode");
  else if (trace.cut == Cut::Number)
    hint = "leave out :item() there: a tensor keeps its graph";
  else if (std::string_view(trace.op) == "detach")
    hint = "leave out :detach() there";
  else if (trace.cut == Cut::Integers)
    hint = "keep it in floating point";
  else
    hint = "compute the loss from what comes before it";
}

void number_taken(double value) {
  taken[taken_count++ % 16] = {value, new_trace(Cut::Number, "item")};
}

uint32_t trace_of_number(double value) {
  for (uint32_t i = 0; i < 16 && i < taken_count; ++i)
    if (taken[i].value == value) return taken[i].trace;
  return 0;
}

const Trace* last_number_taken() {
  return taken_count ? &traces().all[taken[(taken_count - 1) % 16].trace] : nullptr;
}

}  // namespace tycho::watch
