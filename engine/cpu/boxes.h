// Walks cut into boxes, for operands whose runs are short or that lie in another order than the
// result: a box is gathered into a tile in one go, however many dimensions it has. All whole boxes
// have their elements at the same distances, which are found once. They have at most kBox elements,
// whose tiles stay in the first-level cache; many elements that lie in another order are turned in
// boxes for the second level, from which longer pieces of both orders are read.
#pragma once
#include <vector>

#include "engine/cpu/walk.h"

namespace tycho::cpu {

constexpr int64_t kBox = 1024;
constexpr int64_t kLongRun = 128;  // from here on a run along one dimension is worth a call

// Dimensions in the order of the first tensor's memory, and neighbours merged again.
void order_by_first(Walk& w);
// Are boxes better than runs along the innermost dimension?
bool wants_boxes(const Walk& w);

struct Boxes {
  const Walk* walk;
  int64_t extent[kMaxDims], along[kMaxDims];  // of a whole box; boxes along each dimension
  int64_t numel = 1, count = 1;               // elements of a whole box; boxes
  // `bytes`: of the widest element, where tiles for `numel` of them can be had; 0 where only for kBox.
  explicit Boxes(const Walk& w, int bytes = 0);
  bool large() const { return numel > kBox; }
  // Where box i begins in each tensor, and its sizes; true if it is a whole one.
  bool at(int64_t i, int64_t* offset, int64_t* size) const;
  // Does tensor k look the same in all boxes?
  bool same_in_all(int k) const;

 private:
  void take(int d, int64_t most);  // so many elements of a dimension, or fewer, alike in all boxes
  void grow(const bool* near, int64_t most);
  void cut();
  bool cut_large(int bytes);
};

// How one tensor's elements lie in boxes of these sizes; between memory and a dense tile, where
// dimensions keep the walk's order. Strides are in elements, elements have 1, 2, 4 or 8 bytes.
class BoxPart {
 public:
  BoxPart() = default;
  BoxPart(const BoxPart&) = delete;
  BoxPart& operator=(const BoxPart&) = delete;
  void plan(const Walk& w, int tensor, const int64_t* size);
  int64_t numel() const { return n_; }
  bool dense() const { return kind_ == Kind::Dense; }
  bool one() const { return kind_ == Kind::One; }  // a single element, repeated
  // Do runs along the innermost dimension lie together? Then element i of a run's start is here.
  bool runs() const { return kind_ != Kind::One && step_ == 1; }
  int64_t run() const { return kind_ == Kind::Dense ? n_ : cols_; }
  int64_t at(int64_t i) const;
  void gather(int bytes, char* tile, const char* from) const;
  void scatter(int bytes, char* to, const char* tile) const;

 private:
  enum class Kind { Dense, One, Step, Planes, Table };
  template <class F>
  void each_plane(F&& f) const;  // f(where it begins in the tile, and in memory)
  Kind kind_;
  int64_t n_;
  int64_t step_,
      row_step_;         // between elements of the last dimension, and of that of a plane's rows
  int64_t rows_, cols_;  // of these
  int64_t between_;      // elements of the dimensions between them
  // Table: where each element lies; Planes: where each of them begins.
  int32_t few_[kBox];
  std::vector<int32_t> many_;
  const int32_t* at_ = few_;
};

}  // namespace tycho::cpu
