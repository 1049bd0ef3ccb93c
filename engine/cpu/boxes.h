// Walks cut into boxes of at most kBox elements, for operands whose runs are short or that lie in
// another order than the result: a box is gathered into a tile in one go, however many dimensions
// it has. All whole boxes have their elements at the same distances, which are found once.
#pragma once
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
  explicit Boxes(const Walk& w);
  // Where box i begins in each tensor, and its sizes; true if it is a whole one.
  bool at(int64_t i, int64_t* offset, int64_t* size) const;
  // Does tensor k look the same in all boxes?
  bool same_in_all(int k) const;
};

// How one tensor's elements lie in boxes of these sizes; between memory and a dense tile, where
// dimensions keep the walk's order. Strides are in elements, elements have 1, 2, 4 or 8 bytes.
class BoxPart {
 public:
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
  Kind kind_;
  int64_t n_;
  int64_t step_, row_step_;  // between the elements, and the rows, of the last two dimensions
  int64_t rows_, cols_;      // of these
  int32_t at_[kBox];         // Table: where each element lies; Planes: where each of them begins
};

}  // namespace tycho::cpu
