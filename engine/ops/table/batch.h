// Batches: what torch.vmap makes of a function of one example. A batched tensor has the shape of one example and no
// values: its storage is in flight (tensor/storage.h) on the tensor of all examples, whose dimension 0 counts them.
// apply gives a call with such arguments to apply_to_batch, which computes all examples at once: rows by broadcasting,
// compositions as they are, operations with a rule (BATCH, written beside them) by it, and others one by one.
// Who asks for the values of one example is refused, and vmap goes on by examples (bindings/torch/func/vmap.lua).
#pragma once
#include "engine/ops/table/kernel.h"

namespace tycho {

// One example of many; `depth` counts maps inside maps, from 1.
Tensor one_of(const Tensor& all, int depth);
// All examples where `t` stands for one at that depth, else undefined.
Tensor all_of(const Impl* t, int depth);
// Does it stand for one example, at any depth?
bool is_batched(const Impl* t);
inline bool is_batched(const Tensor& t) { return is_batched(t.get()); }
// What this thread was refused since the last time that this was asked, or null: values of one example, say.
const char* refused_batch();
// While a map runs on this thread, what is changed in place is kept as it was, so that its function can be called anew.
// end_map wants what begin_map gave.
size_t begin_map();
void end_map(size_t from, bool take_changes_back);

// A call of one example, and the one that computes all of them.
struct Spread {
  const Call& one;
  Call& all;
  int64_t examples;
  int depth;
  Sizes ints[kMaxArgs];  // lists that arguments of `all` point to

  bool batched(int i) const;
  // Argument i of all examples; the tensor itself where it is the same for each.
  Tensor tensor(int i) const;
  // The same with one dimension for each of `rank`, and the examples' before: [n, 1, .., a, b].
  Tensor lifted(int i, int rank) const;
  // The same, repeated for all examples.
  Tensor repeated(const Tensor& t) const;
  int rank(int i) const { return one.tensor(i).rank(); }  // of one example
  // Calls `all`, whose arguments were set.
  SmallVec<Tensor, 2> run() const;
};
// The results of all examples, or none where it is no rule for this call.
struct BatchResults : SmallVec<Tensor, 2> {
  BatchResults() = default;
  BatchResults(std::initializer_list<Tensor> list) {
    for (const Tensor& t : list) push_back(t);
  }
  BatchResults(SmallVec<Tensor, 2> list) : SmallVec(std::move(list)) {}
};
using BatchFunction = BatchResults (*)(Spread&);

// Rules for many. Dimensions are counted one further, and all tensors get the examples' dimension:
BatchResults by_dims(Spread& s);
// The same for the gradient of a part, whose dimensions are those of the sizes that it is told:
BatchResults by_dims_of_size(Spread& s);
// Sizes get the number of examples in front:
BatchResults by_sizes(Spread& s);
// Leading dimensions are carried along anyway:
BatchResults by_leading(Spread& s);
// Examples and the images of each are more images; what is `shared` is the same for all and is no image:
BatchResults by_images(Spread& s);
BatchResults by_images(Spread& s, bool shared);

struct BatchRule {
  const char* op;
  BatchFunction function;
  BatchRule* next;
  BatchRule(const char* op, BatchFunction function);
};
#define BATCH(op, ...) \
  static ::tycho::BatchRule TYCHO_JOIN(batch_rule_, __COUNTER__)(op, __VA_ARGS__)

// For apply. Is any argument batched? Asked where storages are in flight.
bool has_batches(const Call& c);
// The results of a call with batched arguments that is no composition and changes nothing, or whose operation exists in
// place only.
void run_batched(Call& c);
// The rest of x:op_(..): the result of x:op(..) becomes the value of x.
void store_in_batch(const Call& c, const Tensor& result);

}  // namespace tycho
