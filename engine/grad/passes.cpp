// Counting passes (see passes.h).
#include "engine/grad/passes.h"

#include <algorithm>
#include <string_view>

namespace tycho::grad {
namespace {

using Stepped = Storage::Stepped;

bool sets_values(std::string_view op) {
  return op == "zero" || op.starts_with("fill") || op.starts_with("copy");
}

}  // namespace

Passes passes_of(const Storage& s) {
  if (s.passes) return {s.passes, s.stepped};
  const char* by = s.changed_by;
  return {by && sets_values(by) ? 0u : 1u, Stepped::None};
}

void pass_added(Storage& s, Passes before) {
  s.changed_by = kPass;
  if (before.count == 0) return;  // zeroed in place: this pass is the first
  s.passes = before.count + 1;
  s.stepped = before.stepped == Stepped::None ? Stepped::None : Stepped::Some;
}

// Clipping, between the passes and the step, leaves the sum what it is; a gradient that is changed
// after the step is kept on purpose (a momentum by hand).
void counted_gradient_changed(Storage& s, const char* op) {
  if (s.stepped != Stepped::All && !sets_values(op)) return;
  s.passes = 0;
  s.stepped = Stepped::None;
}

uint32_t use_gradient(Storage& s) {
  const Passes p = passes_of(s);
  s.passes = std::max(p.count, 1u);
  s.stepped = Stepped::All;
  return p.stepped == Stepped::Some ? p.count : 0;
}

}  // namespace tycho::grad
