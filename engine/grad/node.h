// Node: one recorded operation. It knows where the gradients of its inputs go (edges), which
// tensors its gradient reads (saved, with their versions), and where in the user's script it was
// made.
#pragma once
#include "engine/base/where.h"
#include "engine/grad/again.h"
#include "engine/ops/table/op.h"

namespace tycho {

struct Node;

struct Edge {
  Ref<GraphNode> node;  // the operation that made the input,
  Ref<Impl> leaf;       // or the leaf itself; both null when no gradient is wanted
  uint32_t output = 0;  // which of node's outputs
  explicit operator bool() const { return node || leaf; }
};

// What stands in the place of a saved tensor where SaveHooks took it: it gives the values again
// when a gradient asks for them.
struct Packed : Counted {
  Edge edge;     // where the gradient of the saved input goes
  Tensor value;  // while the gradient of its node is computed
  virtual Tensor unpack() = 0;
  // The saved tensor itself, where it is still there: it must not have changed.
  virtual const Impl* kept() const { return nullptr; }
  virtual void free_packed() = 0;
  static void destroy(Packed* p) { p->free_packed(); }

 protected:
  ~Packed() = default;
};

// Takes what the recorded operations of this thread save (torch.autograd.graph.saved_tensors_hooks,
// checkpoints). The tensor comes without its graph.
struct SaveHooks {
  virtual Ref<Packed> pack(const Tensor& t) = 0;

 protected:
  ~SaveHooks() = default;
};
extern constinit thread_local SaveHooks* save_hooks;

struct Saved {
  Ref<Impl> tensor;
  Ref<Packed> packed;  // in place of the tensor
  uint32_t version = 0;
  bool output = false;  // a result of this node: kept without its node, which would be a cycle
};

struct OutputInfo {
  Sizes shape;
  DType dtype;
  Device device;
};

// The call's arguments as they were, without tensors: numbers, lists, names. Short lists and names
// stand in the block itself.
struct SavedArgs {
  int n = 0;
  Value arg[kMaxArgs];
  int16_t first[kMaxArgs];  // tensor arguments: index of the (first) edge

  void keep(Value& v);  // copies what a list or a name points to
  static SavedArgs* make();
  static void drop(SavedArgs* args);

 private:
  int ints_used_ = 0, text_used_ = 0;
  int64_t ints_[16];
  char text_[32];
  std::vector<std::unique_ptr<char[]>> long_ones_;
  void* room(size_t bytes);
};

// A gradient that is not an op's: torch.autograd.Function, checkpoints.
struct CustomGrad : Counted {
  std::string name;
  // Gradients of the outputs to gradients of the edges, in order; undefined ones are zero.
  virtual std::vector<Tensor> backward(Node& node, const std::vector<Tensor>& grads) = 0;
  virtual void free_custom() = 0;
  static void destroy(CustomGrad* c) { c->free_custom(); }

 protected:
  ~CustomGrad() = default;
};

struct NodeExtra {
  struct OutputHook {
    uint32_t output;
    HookEntry entry;
  };
  std::vector<OutputHook> hooks;                    // on gradients of outputs
  std::vector<std::pair<uint32_t, Impl*>> retains;  // outputs that keep their gradient
};

struct Pending;  // gradients waiting in a sweep (backward.cpp)

struct Node final : GraphNode {
  const Op* op = nullptr;  // null for a custom gradient
  uint64_t id = 0;         // grows with time: no node's inputs are younger
  Where where;             // line of the user's script
  Where freed_at;          // where the backward call was that freed the saved tensors
  bool freed = false;
  uint8_t kept = 0;  // of a row: which operands, and its result, are in `saved` (RowInfo::reads)
  SmallVec<Edge, 3> edges;
  SmallVec<OutputInfo, 1> outputs;
  SmallVec<Saved, 3> saved;   // inputs as the op's `saves` (a row: as `kept`), then outputs
  SavedArgs* args = nullptr;  // null for rows whose operands are all tensors
  Ref<CustomGrad> custom;
  Ref<grad::Again> again;  // how to compute its result once more
  NodeExtra* extra = nullptr;
  Pending* pending = nullptr;
  uint64_t mark = 0;  // of the search for needed nodes

  const char* name() const;
  NodeExtra& more() {
    if (!extra) extra = new NodeExtra;
    return *extra;
  }
  void free_node() override;
  void forget(Impl* output) override;
  void free_saved();
};

// A saved tensor as the gradient of its node reads it; `output`: which result it is, if it is one.
Tensor unpack_saved(Node& node, const Saved& s, int output);
// After the node's gradient: unpacked values go.
void forget_unpacked(Node& node);
extern constinit thread_local bool any_unpacked;

std::string bare_name(std::string_view name);  // "max" of the op "max.dim"

// New nodes get the next id and the current script line.
Node* new_node(const Op* op);
// Where the gradient of `t` goes: its node, itself when it is a leaf, or nowhere.
Edge edge_of(Impl* t);

// What an op's gradient reads and sets. Arguments are named by position in the signature.
struct Backward {
  Node& node;
  const SmallVec<Tensor, 1>& grads;
  SmallVec<Tensor, 3> results;  // per edge

  // The gradient of output i; zeros when nothing depends on that output.
  Tensor g(int i = 0) const;
  bool has_g(int i) const { return i < grads.size() && grads[i].defined(); }
  bool needs(int arg, int element = 0) const {
    return static_cast<bool>(node.edges[edge(arg) + element]);
  }
  // A saved input (named in the op's `saves`) or output; raises when it was changed in place since.
  Tensor in(int arg) const;
  Tensor out(int i = 0) const;
  Tensor operand(int i) const;  // of a row: a saved tensor, or the number
  // Shape and type of an input that needs a gradient.
  Sizes shape(int arg, int element = 0) const;
  DType dtype(int arg, int element = 0) const;
  const OutputInfo& output(int i) const { return node.outputs[i]; }
  const Value& arg(int i) const { return node.args->arg[i]; }
  bool has(int i) const { return node.args->arg[i].tag != Tag::None; }
  int64_t integer(int i) const {
    return arg(i).tag == Tag::Float ? static_cast<int64_t>(arg(i).d) : arg(i).i;
  }
  double number(int i) const { return arg(i).number(); }
  bool flag(int i) const { return arg(i).b; }
  const char* string(int i) const { return arg(i).s; }
  Sizes ints(int i) const { return Sizes(arg(i).ints, arg(i).n); }
  int count(int i) const { return static_cast<int>(arg(i).n); }

  void set(int arg, Tensor grad) { results[edge(arg)] = std::move(grad); }
  void set(int arg, int element, Tensor grad) { results[edge(arg) + element] = std::move(grad); }

 private:
  int edge(int arg) const { return node.args ? node.args->first[arg] : arg; }
  Tensor unpack(const Saved& s, int output) const { return unpack_saved(node, s, output); }
  Tensor unpack_row(int bit) const;
};

}  // namespace tycho
