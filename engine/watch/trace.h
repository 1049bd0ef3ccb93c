// Why a tensor has no graph, and which tensors hold every pair of two others. Impl::trace is the
// number of a trace: the place where the tensor's graph was cut. Operations on tensors without a
// graph hand it on.
#pragma once
#include "engine/base/where.h"
#include "engine/ops/table/op.h"

namespace tycho::watch {

enum class Cut : uint8_t { None, NoGrad, Inference, Constant, Integers, Number };

struct Trace {
  Cut cut = Cut::None;
  const char* op = "";
  Where where;
  int pairs = -1;      // which of the noted pairs the tensor holds, see pairs.cpp,
  uint32_t under = 0;  // and the trace that it has besides
};

uint32_t new_trace(Cut cut, const char* op);  // at the running line
const Trace* trace_of(const Impl* t);         // null when nothing is known
uint32_t new_pairs_trace(int pairs, uint32_t under);
// "mul at train.lua:8 ran inside no_grad", or "" when nothing is known.
std::string cut_text(const Impl* t);

// After a call that was not recorded: its results remember why.
void leave_trace(Call& c);

// Completes the error of a sweep from a tensor without graph.
void explain_cut(const Impl* t, std::string& why, std::string& hint);

// --- [n, 1] with [n] ---
// The operands of a row have different shapes: is the result a table of pairs that may be unmeant?
void look_for_pairs(Call& c);
void pairs_recorded(const Impl* result, uint64_t node_id);
// A result of one number: a sum or a mean of such a table is worth a note.
void look_at_reduction(const Call& c);
bool hands_pairs_on(const Call& c, const Trace& t);

// item() of a tensor with a graph: a tensor made of the same number later has lost it there.
void number_taken(double value);
uint32_t trace_of_number(double value);  // 0 when no such number was taken
const Trace* last_number_taken();        // null when there was none

}  // namespace tycho::watch
