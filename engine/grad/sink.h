// Who takes the gradients of leaves as soon as they are final, while the sweep goes on: what sums
// gradients over ranks (dist/reducer.h). A gradient is final once the oldest node that leads to its
// leaf has been looked at, because a sweep goes from the youngest node to the oldest: one walk from
// the roots tells when, and which leaves will be reached at all.
#pragma once
#include <vector>

#include "engine/grad/node.h"

namespace tycho::grad {

struct LeafSink {
  virtual bool owns(Impl* leaf) const = 0;
  // A backward pass begins. It leads to `leaves` (owned ones), whose gradients become final in this
  // order. False: the sink leaves the pass alone.
  virtual bool begin(const std::vector<Impl*>& leaves, bool create_graph) = 0;
  // Where the gradient of a leaf that has none yet is to lie.
  virtual Tensor place(Impl* leaf) = 0;
  virtual void final(
      Impl* leaf) = 0;         // its .grad has taken up the pass's gradient, if there was one
  virtual void finish() = 0;   // all are final; returns when the sink is done
  virtual void abandon() = 0;  // the pass raised
  // A sweep inside of the pass, which begin has not seen, added to the gradient.
  virtual void added_inside(Impl* leaf) = 0;

 protected:
  ~LeafSink() = default;
};

// Of this thread's passes.
std::vector<LeafSink*>& leaf_sinks();

// Which sinks take part in a pass, and when which leaf of theirs is final.
class SinkPass {
 public:
  SinkPass(const std::vector<Tensor>& roots, const std::vector<Tensor>& only, bool create_graph);
  ~SinkPass() { abandon(); }  // what was not finished
  SinkPass(const SinkPass&) = delete;
  LeafSink* sink_of(Impl* leaf) const;
  // The next leaf whose gradient is final when no node younger than this one is left.
  Impl* next_final(uint64_t youngest_left) {
    if (at_ == leaves_.size() || leaves_[at_].oldest <= youngest_left) return nullptr;
    return leaves_[at_++].leaf;
  }
  void finish();

  static bool open();  // on this thread: a sweep that begins now stands inside of another one
  static void added_inside(Impl* leaf);

 private:
  struct Reached {
    Impl* leaf;
    uint64_t oldest;  // id of the oldest node that leads to it
    LeafSink* sink;
  };
  void abandon();
  std::vector<Reached> leaves_;  // in the order in which they become final
  std::vector<LeafSink*> open_;
  size_t at_ = 0;
};

}  // namespace tycho::grad
