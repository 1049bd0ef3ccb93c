// What a gradient reads need not be kept where a cheap operation computes it again from what is kept
// anyway: a gelu in front of a linear layer, a norm's result, a cast for autocast. Such a result is
// recorded with its call (Again); once only gradients hold its values they are let go, and the sweep
// calls the operation again, which gives the same bits. Before something changes what the call read,
// the values are computed while they can be.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

struct Node;
struct Saved;
struct SavedArgs;

namespace grad {

struct Again final : Counted {
  const Op* op = nullptr;
  SavedArgs* args = nullptr;       // numbers, lists and names
  SmallVec<Tensor, 3> inputs;      // by argument: without their graph
  SmallVec<Ref<Again>, 3> from;    // by argument: inputs that are themselves computed again
  SmallVec<uint32_t, 3> versions;  // of inputs
  int depth = 1;                   // how many calls in a row
  // The result as the call left it, to be told from others only: it may be gone.
  const Storage* made = nullptr;
  uint32_t version = 0;
  Tensor value;  // while it is kept for a gradient
  // All of this thread that gradients want.
  Again *next = nullptr, *before = nullptr;
  bool listed = false;

  ~Again();
  void list();
  bool fresh() const;                  // nothing that it reads has changed
  bool reads(const Storage& s) const;  // itself, or what its inputs are computed from
  Tensor get();
  static void destroy(Again* a) { delete a; }
};

// Called when the node of a call is made: gives it an Again where its result can be had so.
void remember_call(Node& node, const Call& c);
// The saved input t of a node, put down as something to be computed again; false where it must stay.
bool save_again(Saved& s, Impl* t);
// Computes what reads s and is not kept: s is about to change.
void keep_before_change(const Storage& s);
// Lets go the values that only gradients hold.
void let_go_unseen();

}  // namespace grad
}  // namespace tycho
