// Collectives over a mesh: rings of pieces for long messages, trees and exchanges of everyone with
// everyone for short ones. Which numbers are combined in which order follows from the ranks alone,
// and each sum is computed in one place or in the same way everywhere, so bits are equal on every
// rank and in every run.
#pragma once
#include <algorithm>

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
  // `desc` stays as long as this. Averages are sums divided by `divisor`. `weights`: how large each
  // member's share of gathered and scattered elements is against the others' (empty: all the same).
  Rings(Courier& courier, const Circle& circle, const Desc& desc, double divisor,
        const std::vector<int64_t>& weights = {});
  // Memory as in Transport::run; roots are indices of the circle.
  void all_reduce(Span in, Span out);
  void broadcast(Span data, int root);
  void reduce(Span in, Span out, int root);
  void all_gather(Span in, Span out);
  void all_gather(Span all);  // each has its share in it already
  void reduce_scatter(Span in, Span out);
  void all_to_all(Span in, Span out);
  void gather(Span in, Span out, int root);
  void scatter(Span in, Span out, int root);
  void barrier();

 private:
  static constexpr int64_t kPiece = int64_t{1} << 20;
  static constexpr int64_t kShort = int64_t{64} << 10;  // a tree or an exchange is faster
  static constexpr int kFew = 8;                        // everyone may send to everyone
  enum Phase { kExchange, kReduce, kGather, kTree, kChain, kDown, kPairs, kBarrier };
  static int64_t pieces(int64_t bytes) { return (bytes + kPiece - 1) / kPiece; }
  static int64_t piece_bytes(int64_t bytes, int64_t p) {
    return std::clamp(bytes - p * kPiece, int64_t{0}, kPiece);
  }
  static char* bytes_of(const Span& s) { return static_cast<char*>(s.p); }

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
  std::vector<int64_t> before_;  // each member, and after the last: the weights before it
  Wait looks_;
};

}  // namespace tycho::dist
