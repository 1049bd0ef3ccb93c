// Walks for kernels that read and write at positions (kernels/index.cuh), and the tensors they change.
#pragma once
#include <vector>

#include "engine/cuda/kernels/index.cuh"
#include "engine/cuda/ops/rowmajor.h"

namespace tycho::cuda {

Tensor positions_of(const Tensor& index);  // row-major int64
Tensor as(const Tensor& t, DType type);    // itself, or a copy in that type
Tensor scalar(const Tensor& like, const Value& number, DType type);  // on its device
// In place, arguments that share the changed tensor's memory are copied first.
Tensor apart(const Tensor& t, const Tensor& changed);
// The type in which values meet: atomics know words of 4 and 8 bytes.
DType meeting_type(DType t);

// A walk that is put together dimension by dimension; those that places may repeat along come last.
class Walk {
 public:
  Walk(const Call& c, bool negative) : name_(c.op->name), negative_(negative) {}

  // An index tensor: `limit` positions, `step` elements of x apart.
  void add_index(const Tensor& index, int64_t limit, int64_t step);
  struct Dim {
    int64_t size, x, other;
    bool repeats;
    int64_t index[kIndexDims];
  };
  Dim& add(int64_t size, int64_t x, int64_t other, bool repeats) {
    dims_.push_back({size, x, other, repeats, {}});
    return dims_.back();
  }

  void take(const Tensor& x, const Tensor& out);
  // Into x; `source` is read.
  void put(const Tensor& x, const Tensor& source, Meeting how);

 private:
  template <class... More>
  void run(Device device, const char* name, const Indexed& w, const More&... more) const;
  void clear(Device device, const Scratch& memory, size_t bytes) const;
  bool lines_alike() const;  // places are the same in all lines but for the line's own
  Indexed made(const Tensor& x, const Tensor& other);

  const char* name_;
  bool negative_;
  std::vector<Tensor> hold_;
  std::vector<IndexTensor> indices_;
  std::vector<Dim> dims_;
};

// The tensor that a kernel changes: the result with self's values in it, or one in the type that
// values meet in, stored at the end.
struct Changed {
  Tensor out, work;
  Changed(Call& c, bool meets);
  Tensor source(const Tensor& t) const { return as(apart(t, out), work.dtype()); }
  void finish() const {
    if (work.get() != out.get()) copy_raw(out, work);
  }
};

inline int64_t size_along(const Tensor& x, int d) { return x.rank() ? x.size(d) : 1; }
inline int64_t stride_along(const Tensor& x, int d) { return x.rank() ? x.stride(d) : 0; }

}  // namespace tycho::cuda
