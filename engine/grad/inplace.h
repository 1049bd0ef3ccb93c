// In-place changes and views. A view shares storage with its base, so a change of either changes
// both, and the graph must say so: an in-place op on a view v of b is recorded as
//   v' = op(v);  b' = as_strided_scatter(b, v')
// and other views of b get a new as_strided node from b' when they are next looked at.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::grad {

// Raises Kind::Autograd for leaves, Kind::Value for expanded tensors.
void check_inplace(const Call& c);
void count_change(const Tensor& self, const char* op);  // the storage's version, and who changed it
void link_views(Call& c);                               // after a view op: results remember a base
void refresh_view(Impl* view);              // new node when the base's graph has changed since
void changed_in_place(const Tensor& self);  // after self got a new node: its base and views follow
void follow(const Tensor& self, const Tensor& result);     // the same, when values stay as they are
void take_over(const Tensor& self, const Tensor& result);  // self's graph becomes result's

}  // namespace tycho::grad
