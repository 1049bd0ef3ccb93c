// Recording: turning a finished call into a node of the graph.
#pragma once
#include "engine/grad/inplace.h"
#include "engine/grad/node.h"

namespace tycho::grad {

// Makes the node of a call whose inputs want gradients; its floating outputs now require grad.
void record(Call& c);
// Does the tensor take part in the graph? Brings a view of a changed base up to date first.
inline bool requires_grad(Impl* t) {
  if (t->base && t->generation != t->base->generation) [[unlikely]]
    refresh_view(t);
  return t->requires_grad;
}
// Gives what `s` holds to the hooks, with the edge that the saved input had.
void pack_saved(Saved& s, Impl* input);
// Hangs output `index` of `node` on `t`.
void set_history(const Tensor& t, Node* node, uint32_t index);

}  // namespace tycho::grad
