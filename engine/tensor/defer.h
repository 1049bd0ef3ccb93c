// Deferral: large elementwise rows may be held back, to be run together with the rows that follow
// (engine/fuse, which registers itself here because layers look down only). A held result has its
// shape and type, and no memory yet: its storage is in flight (tensor/storage.h), so whoever reads
// the values, Impl::data above all, has the rows run first. What a held row reads must not change
// before it has run: in-place calls run all that is held, see apply and about_to_change; but rows in
// place of what is held may be held back in their turn.
#pragma once
#include <memory>

#include "engine/tensor/tensor.h"

namespace tycho {

struct Op;
struct RowEnd;
struct RowStart;
struct Value;

struct Deferral {
  // The row's result, of the layout and device of `like` and the type `result`, or undefined when it
  // is to be computed now. `compute` is what the operands promote to: float64, or what float32
  // lanes hold.
  virtual Tensor take(int row, DType compute, DType result, const Value* args, int n,
                      const Impl* like) = 0;
  // Is a result of this type, laid out as `like`, held back where there is room?
  virtual bool takes(DType compute, DType result, const Impl* like) = 0;
  // A row in place, of a tensor that is held back: true when its result is held back there instead.
  virtual bool take_in_place(int row, DType compute, const Value* args, int n,
                             const Tensor& self) = 0;
  virtual bool holds(const Storage& s) = 0;  // a row's result that this thread holds back?
  virtual bool ends(const Op& op) = 0;       // may its kernel call `end`?
  // Takes over what a kernel makes of a held row's result x; `out` are the kernel's results, which
  // have memory. False when the kernel has to do its work now.
  virtual bool end(const Impl* x, std::unique_ptr<RowEnd>& e, const Tensor* out, int n) = 0;
  // Holds back a kernel of a device, whose only result is `out`, for the row that follows. False when
  // the kernel has to do its work now.
  virtual bool start(std::unique_ptr<RowStart>& s, const Tensor& out) = 0;
  virtual void run() = 0;  // everything that this thread holds back

 protected:
  ~Deferral() = default;
};
extern constinit Deferral* deferral;

// Results with fewer elements are computed at once (INT64_MAX: all are): the CPU's, and devices'.
extern constinit std::atomic<int64_t> deferred_from, deferred_on_devices;
inline bool may_be_deferred(int64_t numel, Device device) {
  return numel >=
         (device.is_cpu() ? deferred_from : deferred_on_devices).load(std::memory_order_relaxed);
}
// How many rows this thread holds back.
extern constinit thread_local int rows_held;
// While rows are held, or devices in use: may the kernel that was just called leave its work to their
// end, or to their start?
extern constinit thread_local bool rows_may_end;

inline void run_held_rows() {
  if (rows_held) [[unlikely]]
    deferral->run();
}

// Called before held rows run, on the thread that set it, when that many bytes would be written that
// perhaps nobody can see any more: it is the scripts' collector, which knows.
using DropUnseen = void (*)(int64_t bytes);
extern constinit thread_local DropUnseen drop_unseen;

}  // namespace tycho
