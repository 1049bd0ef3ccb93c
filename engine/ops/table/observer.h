// Observers: what apply, the record of graphs and the sweep tell those who look on. They change no
// result. One stands all the time (engine/watch: traces and notes); mode.observer is a thread's,
// for a while (profilers, searches); SweepOptions::observer is one sweep's.
#pragma once
#include <span>

#include "engine/base/where.h"
#include "engine/ops/table/op.h"

namespace tycho {

struct Node;
struct RowProgram;

struct Observer {
  // --- Of a thread: every operation that the user's code calls, not those inside a composition ---
  virtual void before(const Call&) {}
  virtual void after(const Call&, double /*seconds*/) {}  // not called when the op raised
  virtual bool lets_hold() const {
    return false;
  }  // rows may be held back (tensor/defer.h) under its eyes
  // Rows that were held back have run as one, during a call or between two; each row's line.
  virtual void ran(const RowProgram&, std::span<const Where> /*lines*/, double /*seconds*/) {}

  // --- Of a sweep, and the standing one's where it wants steps ---
  // The gradients that came to a node, and those that it gave its inputs.
  virtual void step(const Node&, std::span<const Tensor> /*in*/, std::span<const Tensor> /*out*/) {}
  virtual void freeing(Node&) {}  // its saved tensors
  virtual void reached(const Ref<Impl>& /*leaf*/) {}

  // --- The standing one's ---
  // A row stretched its operands until none had the result's shape; the result has no values yet.
  virtual void stretched(Call&) {}
  virtual void made_number(const Call&) {}  // a result of one element, where it wants numbers
  virtual void unrecorded(Call&) {}         // results without graph of inputs with graph or trace
  // A node has its edges; the results do not hang on it yet. Of float64 rows; of all operations,
  // where it wants records.
  virtual void recording(const Call&, const Node&) {}
  virtual void compared(const char* /*op*/, const Tensor& /*prediction*/,
                        const Tensor& /*target*/) {}
  virtual void scored(const Tensor& /*scores*/) {}  // the input of a softmax loss
  virtual void swept() {}
  // The device has no kernel for the operation: the CPU's runs, on copies.
  virtual void leaving_device(const Call&, Device) {}
  // A gradient needs what the storage held before its last change.
  virtual void needed_before_change(const Node&, const Storage&) {}
  // Of a root without graph: completes the error.
  virtual void explain_cut(const Impl*, std::string& /*why*/, std::string& /*hint*/) {}

 protected:
  ~Observer() = default;
};

namespace detail {
struct Nobody final : Observer {};
extern constinit Nobody nobody;
}  // namespace detail
extern constinit Observer* standing_observer;
// Whom this thread tells what rows ran as one; null: nobody. (mode.observer rests during a call.)
extern constinit thread_local Observer* program_observer;

// What lies on hot paths and is told to the standing observer only while it wants it.
struct Wants {
  bool numbers = false, records = false, steps = false;
};
extern constinit thread_local Wants standing_wants;

}  // namespace tycho
