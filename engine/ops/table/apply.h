// The thread's modes, and the raw helpers that ops may use inside shape rules and kernels, where
// nothing is recorded.
#pragma once
#include "engine/ops/table/observer.h"

namespace tycho {

struct Mode {
  bool grad = true;        // operations record their graph
  bool inference = false;  // inference_mode: results can never join a graph
  bool autocast = false;   // any device's autocast is on (amp/autocast.h)
  bool sweeping = false;   // a sweep computes gradients, not the user
  bool eager = false;      // nothing is deferred (defer.h): in kernels, and while somebody watches
  Observer* observer = nullptr;
};
extern constinit thread_local Mode mode;

// The outermost operation that is being composed of others: what somebody asked for. Null outside.
extern constinit thread_local const Op* composing;

// Turns recording off while it lives.
struct NoGrad {
  bool before = mode.grad;
  NoGrad() { mode.grad = false; }
  ~NoGrad() { mode.grad = before; }
  NoGrad(const NoGrad&) = delete;
};

// Nothing is deferred while it lives.
struct Eager {
  bool before = mode.eager;
  Eager() { mode.eager = true; }
  ~Eager() { mode.eager = before; }
  Eager(const Eager&) = delete;
};

// While shapes_only (tensor/storage.h) is set, operations compute shapes and dtypes and run no
// kernel, as on PyTorch's meta device. Their inputs are stand-ins: tensors of the same shape,
// strides, dtype and device without values.
Tensor stand_in(const Tensor& t);
// Whether values may be looked at: checks of values are left out while there are none.
inline bool has_values(const Impl* t) { return !shapes_only || !has_no_values(*t->storage); }
inline bool has_values(const Tensor& t) { return has_values(t.get()); }
// Where values decide a shape: raises Kind::Value when there are none.
void need_values(const char* op, const Tensor& t);

// Copies values into a tensor of the same shape (or a broadcast one), converting the type, between
// any devices; no graph, no version.
void copy_raw(const Tensor& to, const Tensor& from);
// The tensor itself when it is row-major, else a row-major copy. No graph.
Tensor packed(const Tensor& t);
// Ends the inner layout (tensor/tensor.h) of a tensor and of all that share its memory: what looks
// at strides or memory itself calls this first. Other tensors stay as they are. No graph.
void straighten_inner(const Tensor& t);
inline void straighten(const Tensor& t) {
  if (t->inner) [[unlikely]]
    straighten_inner(t);
}

}  // namespace tycho
