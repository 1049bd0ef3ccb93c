// Collectives over a mesh: rings of pieces for long messages, trees and exchanges of everyone with
// everyone for short ones. Which numbers are combined in which order follows from the ranks alone,
// and each sum is computed in one place or in the same way everywhere, so bits are equal on every
// rank and in every run.
#pragma once
#include "engine/dist/courier.h"

namespace tycho::dist {

// Who takes part: places in the mesh, and this one's index among them.
struct Circle {
  std::vector<int> members;
  int me = 0;
  int size() const { return static_cast<int>(members.size()); }
  int at(int k) const { return members[static_cast<size_t>((k % size() + size()) % size())]; }
};

class Rings {
 public:
  // `desc` stays as long as this. Averages are sums divided by `divisor`.
  Rings(Courier& courier, const Circle& circle, const Desc& desc, double divisor);
  // Memory as in Transport::run; roots are indices of the circle.
  void all_reduce(Span in, Span out);
  void broadcast(Span data, int root);
  void reduce(Span in, Span out, int root);
  void all_gather(Span in, Span out);
  void reduce_scatter(Span in, Span out);
  void all_to_all(Span in, Span out);
  void gather(Span in, Span out, int root);
  void scatter(Span in, Span out, int root);
  void barrier();

 private:
  using Buffer = Mesh::Buffer;
  struct Part {  // bytes at a place
    int64_t at = 0, bytes = 0;
  };
  // One member's share of `n` elements of `size` bytes.
  Part share(int64_t n, int64_t size, int k) const;
  uint64_t slot(int phase) const {
    return static_cast<uint64_t>(desc_.seq) << 8 | static_cast<uint64_t>(phase);
  }
  void receive(Buffer& b, int from, int phase, int64_t at, int64_t bytes);
  void received(Buffer& b, int from);
  // out = a op b of so many bytes; the last time averages are divided.
  void fold(void* out, const void* a, const void* b, int64_t bytes, bool last);
  void divide(void* data, int64_t bytes);

  void alone(Span in, Span out);
  // Short messages: everyone sends give(k) to k and has take(k) from k.
  template <class Give, class Take>
  void exchange(int phase, Give give, Take take);
  void reduce_ring(Span in, char* out, bool scatter);
  void gather_ring(char* out, int64_t n, int64_t size);
  void reduce_tree(Span in, char* out, int root);
  void reduce_chain(Span in, char* out, int root);
  void broadcast_tree(Span data, int root);
  void broadcast_chain(Span data, int root);

  Courier& courier_;
  const Circle& circle_;
  const Desc& desc_;
  const double divisor_;
  const int n_, me_;
  Wait looks_;
};

}  // namespace tycho::dist
