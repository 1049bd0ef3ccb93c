// Tensor: one intrusive pointer to an Impl, which says how a piece of storage is to be read: dtype,
// shape, strides, offset. The graph that made it hangs on `node`; what few tensors have (a
// gradient, hooks, the base of a view) stands in Extra.
//
// Note: the inner layout. Convolutions are fastest on images whose channels lie side by side, so
// their results, and what pooling, norms and elementwise operations make of them, have that order
// in memory while nobody has asked for it. Such a tensor is `inner`: dense, its `stride` says where
// the elements really lie, and kernels read it as any other tensor; but a user sees the row-major
// strides that PyTorch gives (shown_strides), random numbers are drawn in that order, and before
// anything looks at its memory, a view above all, it is straightened (ops/table/apply.h): copied into
// row-major order, once, for all tensors on its storage, as if it always had been. No view of an
// inner tensor exists but of the whole of it, so the tensors of one storage are inner together.
#pragma once
#include "engine/base/ref.h"
#include "engine/base/sanitize.h"
#include "engine/base/small.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"
#include "engine/tensor/storage.h"

namespace tycho {

struct Impl;

// What autograd hangs on a tensor; the tensor layer only owns it.
struct GraphNode : Counted {
  virtual void free_node() = 0;
  virtual void forget(Impl* output) = 0;  // an output that retains its gradient is gone
  static void destroy(GraphNode* n) { n->free_node(); }

 protected:
  ~GraphNode() = default;
};

struct Extra;

// Builds with assertions or a sanitizer say so when the host reads a device's memory; in others
// that of simulated devices can be closed to it (cpu/device/arena.h).
#ifdef NDEBUG
inline constexpr bool kChecksHost = TYCHO_PLAIN_MEMORY;
#else
inline constexpr bool kChecksHost = true;
#endif
[[noreturn]] void refuse_host(Device device);

struct Impl : Counted {
  DType dtype;
  Device device;
  uint8_t rank;
  bool contiguous;             // row-major without gaps
  bool requires_grad = false;  // a leaf's own flag, or true when `node` is set
  bool is_number = false;      // stands for a plain number: takes part in promotion as one
  bool is_inference = false;   // made in inference_mode: never part of a graph
  bool inner = false;          // row-major to the user, in another order in memory (see the Note)
  uint32_t output = 0;         // which of node's outputs this is
  int64_t numel, offset;       // offset in elements
  int64_t shape[kMaxDims], stride[kMaxDims];
  Ref<Storage> storage;
  Ref<GraphNode> node;
  // A view remembers its base (a tensor that is no view itself), so that in-place changes reach the
  // graph of both. In a base, `generation` counts in-place changes of its graph; in a view, it is
  // the base's count when the view's own node was made (grad/inplace.cpp).
  Ref<Impl> base;
  uint32_t generation = 0;
  uint32_t trace = 0;  // of a tensor without node: why it has none (watch/trace.h), 0: not known
  Extra* extra = nullptr;
  Impl* next_inner;  // of the inner tensors on one storage

  // The first element's address in the memory of the tensor's device: for kernels that run there.
  // Values that are on their way are waited for.
  template <class T = char>
  T* data() const {
    ready(*storage);
    return reinterpret_cast<T*>(static_cast<char*>(storage->data) + offset * dtype_size(dtype));
  }
  // The same for everybody else. Only a CPU tensor answers; others are fetched first (backend.h).
  template <class T = char>
  T* host() const {
    if constexpr (kChecksHost)
      if (!device.is_cpu()) refuse_host(device);
    return data<T>();
  }
  static void destroy(Impl* p);
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Impl* p) : p_(p) {}
  explicit Tensor(Ref<Impl> p) : p_(std::move(p)) {}
  explicit operator bool() const { return static_cast<bool>(p_); }
  bool defined() const { return static_cast<bool>(p_); }
  Impl* operator->() const { return p_.get(); }
  Impl* get() const { return p_.get(); }
  const Ref<Impl>& ref() const { return p_; }
  Impl* leak() { return p_.leak(); }

  int rank() const { return p_->rank; }
  int64_t numel() const { return p_->numel; }
  int64_t size(int d) const { return p_->shape[d < 0 ? d + p_->rank : d]; }
  int64_t stride(int d) const { return p_->stride[d < 0 ? d + p_->rank : d]; }
  Sizes shape() const { return Sizes(p_->shape, p_->rank); }
  Sizes strides() const { return Sizes(p_->stride, p_->rank); }
  DType dtype() const { return p_->dtype; }
  Device device() const { return p_->device; }
  bool contiguous() const { return p_->contiguous; }
  bool requires_grad() const { return p_->requires_grad; }
  bool is_leaf() const { return !p_->node; }
  template <class T = char>
  T* data() const {
    return p_->data<T>();
  }
  template <class T = char>
  T* host() const {
    return p_->host<T>();
  }

 private:
  Ref<Impl> p_;
};

// Called with a gradient; returns the one to use instead, or an undefined tensor to keep it.
struct Hook : Counted {
  virtual Tensor call(const Tensor& grad) = 0;
  virtual void free_hook() = 0;
  static void destroy(Hook* h) { h->free_hook(); }

 protected:
  ~Hook() = default;
};

struct HookEntry {
  int64_t id;
  Ref<Hook> hook;
};

struct Extra {
  Tensor grad;
  bool retains_grad = false;
  SmallVec<HookEntry, 1> hooks;  // of a leaf; those of computed tensors stand in their node
};
Extra& extra_of(Impl* p);  // made when first asked for

// Uninitialised, row-major.
Tensor empty(const Sizes& shape, DType dtype, Device device = {});
// Uninitialised, with the layout of `like` where that is dense, else row-major.
Tensor empty_like(const Tensor& like, DType dtype);
inline Tensor empty_like(const Tensor& like) { return empty_like(like, like.dtype()); }
// The same, whose storage is given its memory later (give_memory). `like` lies row by row.
Tensor promised_like(const Tensor& like, DType dtype);
Tensor empty_strided(const Sizes& shape, const Sizes& stride, DType dtype, Device device);
// Row-major to the user; the memory is dense and lies by `stride`.
Tensor empty_inner(const Sizes& shape, const Sizes& stride, DType dtype, Device device);
// Another reading of the same storage. No bounds are checked and no graph is recorded.
Tensor alias(const Tensor& t, const Sizes& shape, const Sizes& stride, int64_t offset);
Tensor alias(const Tensor& t);
// A 0-d CPU tensor that stands for a number.
Tensor number_tensor(double x);
Tensor number_tensor(int64_t x);
Tensor number_tensor(bool x);
Tensor filled(const Sizes& shape, double value, DType dtype, Device device = {});
Tensor tensor_of(const Sizes& shape, const std::vector<double>& values);  // float64, row by row

bool is_contiguous(const Sizes& shape, const Sizes& stride);
// What the user is told: of inner tensors, that they are row-major.
inline bool shown_contiguous(const Impl* t) { return t->contiguous || t->inner; }
inline Sizes shown_strides(const Impl* t) {
  return t->inner ? row_major(Sizes(t->shape, t->rank)) : Sizes(t->stride, t->rank);
}
// The inner tensors on t's storage move to that of `straight`, a row-major copy of t.
void move_inner(const Tensor& t, const Tensor& straight);
// No gaps and no overlaps, in any order of dimensions (a transposed matrix is dense).
bool is_dense(const Impl* t);
// Every element's place is its own (a dimension stretched by expand shares places).
bool overlaps_itself(const Impl* t);
std::string describe(const Tensor& t);  // "float32 [2, 3]" (", cuda:0")

}  // namespace tycho
