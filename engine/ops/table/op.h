// The op table. An operation is described in one place, by one `Op`; the Lua function, the method,
// named arguments, usage errors, help, the gradient, autocast and the table tests all follow from
// it. A block reads:
//
//   static const Op& cumsum = add_op({
//       .name = "cumsum", .args = "self, dim: dim, dtype: dtype?",
//       .doc = "Running sum along one dimension.", .amp = Amp::F32, .inplace = Inplace::Copy,
//       .shape = [](Call& c) { ... c.out.push_back(empty_like(c.tensor(0))); },
//       .grad = [](Backward& b) { b.set(0, ...); },
//       .samples = [](Samples& s) { s.add({s.normal({3, 4}), 0}); }});
//
// and its kernels are bound where they are written, once for each kind of backend (kernel.h).
// Elementwise ops are rows of elementwise.def instead.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/tensor.h"

namespace tycho {

struct Call;
struct Backward;
struct Samples;
struct Op;

enum class Tag : uint8_t {
  None,
  Tensor,
  Int,
  Float,
  Bool,
  Ints,
  Tensors,
  String,
  DType,
  Device,
  Generator
};
struct DeviceGenerator;  // ops/random/random.h

// One argument. It borrows what it points to: whoever makes the call keeps that alive.
struct Value {
  Tag tag = Tag::None;
  uint32_t n = 0;  // length of a list
  union {
    int64_t i;
    double d;
    bool b;
    Impl* t;
    const int64_t* ints;
    Impl* const* tensors;  // elements may be null
    const char* s;
    DType dtype;
    Device device;
    DeviceGenerator* generator;
  };

  Value() : i(0) {}
  Value(std::nullptr_t) : i(0) {}
  Value(bool x) : tag(Tag::Bool), b(x) {}
  Value(int x) : tag(Tag::Int), i(x) {}
  Value(int64_t x) : tag(Tag::Int), i(x) {}
  Value(double x) : tag(Tag::Float), d(x) {}
  Value(const Tensor& x) : tag(x ? Tag::Tensor : Tag::None), t(x.get()) {}
  Value(Impl* x) : tag(x ? Tag::Tensor : Tag::None), t(x) {}
  Value(const Sizes& x) : tag(Tag::Ints), n(x.n), ints(x.v) {}
  Value(const std::vector<int64_t>& x) : tag(Tag::Ints), n(x.size()), ints(x.data()) {}
  Value(const std::vector<Tensor>& x)
      : tag(Tag::Tensors), n(x.size()), tensors(reinterpret_cast<Impl* const*>(x.data())) {
    static_assert(sizeof(Tensor) == sizeof(Impl*));
  }
  Value(const char* x) : tag(Tag::String), s(x) {}
  Value(DType x) : tag(Tag::DType), dtype(x) {}
  Value(Device x) : tag(Tag::Device), device(x) {}
  Value(DeviceGenerator* x) : tag(x ? Tag::Generator : Tag::None), generator(x) {}

  bool is_none() const { return tag == Tag::None; }
  bool is_number() const { return tag == Tag::Int || tag == Tag::Float || tag == Tag::Bool; }
  double number() const {
    return tag == Tag::Int     ? static_cast<double>(i)
           : tag == Tag::Float ? d
           : tag == Tag::Bool  ? b
                               : 0;
  }
  DType number_dtype() const {  // what a plain number counts as in promotion
    return tag == Tag::Int ? DType::Int64 : tag == Tag::Bool ? DType::Bool : default_dtype();
  }
};

// What a parameter takes. In Lua, Dim, Dims and Position count from 1; from here down from 0.
enum class Take : uint8_t {
  Tensor,   // a tensor
  Operand,  // a tensor or a number
  Number,   // a number or a boolean
  Int,      // an integer
  Float,    // a float (integers are accepted)
  Bool,
  String,
  Ints,      // a list of integers (sizes, strides); one integer is a list of one
  Dim,       // a dimension
  Dims,      // a list of dimensions; one is a list of one
  Position,  // an element's position (negative: from the end)
  Tensors,   // a list of tensors
  DType,
  Device,
  Generator  // a torch.Generator
};

// torch.none inside a list of integers, where a parameter allows it.
constexpr int64_t kNone = INT64_MIN;

struct Param {
  std::string name;
  Take take;
  bool optional;  // may be nil
  bool required;  // has no default
  bool holes;     // torch.none may stand in the list (kNone)
  bool gather;    // a list that also takes the remaining positional values: zeros(2, 3)
  Value standard;
  std::string text;  // the default as written, for help and usage errors
  int64_t list[1];   // storage of a one-number list default
};

enum class Amp : uint8_t {
  Keep,     // runs in its inputs' types
  Low,      // runs in autocast's type (matmul, convolution)
  LowCuda,  // the same, on devices only: PyTorch's CPU leaves it alone (mv)
  F32,      // runs in float32 (losses)
  F32Cuda,  // the same, on devices only (exp, sums, norms)
  Widest,   // casts its inputs to the widest of their types (cat, where)
};

enum class Inplace : uint8_t {
  No,
  Copy,    // x:op_() computes a new result and stores it (a view op: x becomes that view)
  Direct,  // .shape makes x itself the output when c.inplace; the kernel then writes into it
  Only,    // as Direct, and users see x:op_() alone; op() fills a new tensor like x
};

// Where the op is found in Lua. Positions are bits.
enum Shown : uint8_t {
  kFunction = 1,    // torch.op(x)
  kMethod = 2,      // x:op()
  kFunctional = 4,  // torch.nn.functional.op(x)
  kLinalg = 8,      // torch.linalg.op(x)
  kHidden = 16,     // used by other ops only
};

using Kernel = void (*)(Call&);

struct Op {
  const char* name;  // "max"; further signatures of the same name are "max.dim", "max.other"
  const char* args;  // "self, dim: dims?, keepdim: bool = false": see parse_params
  const char* doc;   // one sentence
  uint8_t where = kFunction | kMethod;
  Amp amp = Amp::Keep;
  Inplace inplace = Inplace::No;
  bool view = false;           // results share the first argument's storage
  bool any_device = false;     // arguments may lie on different devices (copies)
  bool random = false;         // results differ from call to call
  bool differentiable = true;  // false: results never require grad
  // Its kernel needs the very result that .shape has made, since that is filled, or since the kernel
  // may raise when it has written: out= gets a copy.
  bool fresh = false;
  bool scalar_result = false;  // Lua gets the one number or boolean instead of a 0-d tensor
  const char* saves = "";  // what .grad reads: names of tensor arguments, and "out", "out2", ...
  bool again =
      false;  // its result is sooner computed again than kept for a gradient (grad/again.h)
  // Where it says so, a call with no other argument gives that very tensor.
  bool (*unchanged)(const Impl*) = nullptr;
  const char* writes = "";  // lists of tensors that are changed in place (optimiser steps)
  const char* see = "";     // related ops, for help
  const char* rule = "";    // the shapes in one line, for help: "[.., n, ..] -> [.., k, ..]"
  // Lua lines for help, run by the tests: "torch.tensor{3, 1, 2}:sort() --> what the prompt shows".
  const char* example = "";
  const char* aliases = "";  // PyTorch's other names: "multiply", "divide, true_divide"
  // Sizes of results depend on values: .shape checks the arguments and leaves c.out empty where it
  // cannot know them, and the kernel makes the results itself.
  bool size_from_values = false;
  void (*shape)(Call&) = nullptr;  // checks arguments, makes the results (uninitialised, or views)
  // Fills c.out on any backend, by other ops and raw copies; where no kernel is bound.
  Kernel run = nullptr;
  void (*compose)(Call&) = nullptr;  // definition by other ops: sets c.out; when neither is there
  void (*grad)(Backward&) = nullptr;
  void (*samples)(Samples&) = nullptr;
  double (*flops)(const Call&) = nullptr;  // of a call with its results; none: one per result

  // Filled in by BIND_KERNEL.
  Kernel kernel[kBackends] = {};

  // Filled in by add_op.
  const char* file = "";         // where it is written: "engine/ops/reduce/scan.cpp"
  const Op* alias_of = nullptr;  // this entry is another name of that one
  const Op* same_as = nullptr;   // has the kernels of that one
  int row = -1;                  // index into the elementwise table
  uint16_t id = 0;
  std::vector<Param> params = {};  // parsed args
  int param_count = 0;
  std::vector<int> saved_inputs = {}, saved_outputs = {}, written_inputs = {};

  Kernel kernel_on(BackendKind b) const {
    const Kernel bound = kernel[static_cast<int>(b)];
    return bound ? bound : run;
  }
  // Do calls on the CPU become calls of other operations?
  bool is_composition() const { return !kernel_on(BackendKind::Cpu) && compose; }
};

constexpr int kMaxArgs = 12;

struct Call {
  const Op* op;
  int n = 0;  // arguments filled in
  bool inplace = false;
  union {
    alignas(16) Value arg[kMaxArgs];  // none each: their bytes are 0
  };
  SmallVec<Tensor, 2> out;
  Impl* into = nullptr;      // where somebody wants the one result, if the op can (apply_into.h)
  SmallVec<Tensor, 2> keep;  // temporaries that arguments point to
  std::unique_ptr<std::vector<std::vector<Tensor>>> kept_lists;

  explicit Call(const Op& o) : op(&o) {
    // Twelve stores; memset would become a string instruction, which is slow to start.
    typedef long long Zero __attribute__((vector_size(16), may_alias));
    static_assert(sizeof(Value) == sizeof(Zero) && kMaxArgs == 12);
    auto* z = reinterpret_cast<Zero*>(arg);
    z[0] = z[1] = z[2] = z[3] = z[4] = z[5] = z[6] = z[7] = z[8] = z[9] = z[10] = z[11] = Zero{};
  }
  Call(const Call&) = delete;
  bool has(int i) const { return arg[i].tag != Tag::None; }
  // The tensor argument itself, undefined when it is none.
  const Tensor& tensor(int i) const {
    static const Tensor undefined;
    return arg[i].tag == Tag::Tensor ? reinterpret_cast<const Tensor&>(arg[i].t) : undefined;
  }
  int64_t integer(int i) const {
    return arg[i].tag == Tag::Float ? static_cast<int64_t>(arg[i].d) : arg[i].i;
  }
  double number(int i) const { return arg[i].number(); }
  bool flag(int i) const { return arg[i].b; }
  Sizes ints(int i) const { return Sizes(arg[i].ints, arg[i].n); }
  const char* string(int i) const { return arg[i].s; }
  DType dtype(int i, DType otherwise) const { return has(i) ? arg[i].dtype : otherwise; }
  Device device(int i, Device otherwise = {}) const { return has(i) ? arg[i].device : otherwise; }
  int count(int i) const { return static_cast<int>(arg[i].n); }  // length of a list
  const Tensor& tensor(int i, int k) const {
    return reinterpret_cast<const Tensor&>(arg[i].tensors[k]);
  }
  // Replaces a tensor argument by a temporary.
  void set(int i, Tensor t) {
    keep.push_back(t);
    arg[i] = Value(keep.back().get());
  }
  void keep_list(int i, std::vector<Tensor> list);  // the same for a list of tensors
};

// A dimension from 0, negative ones from the end; raises Kind::Dim with the 1-based text.
int wrap_dim(int64_t dim, int rank);
// The dims named by argument i (all when none or empty) as bits; raises when one is named twice.
uint32_t dim_bits(const Call& c, int i, int rank);

// The one way through: autocast, checks, shape, kernel or composition, record.
void apply(Call& c);

// The table. Every alias becomes an entry of its own, with the overload's suffix ("divide.mode").
const Op& add_op(Op op, const char* file = __builtin_FILE());
// The same operation under another name, maybe with other names for its arguments.
const Op& add_also(const Op& op, const char* name, const char* args = nullptr);
const Op* find_op(std::string_view name);  // null when there is none
const std::vector<const Op*>& all_ops();   // in alphabetical order: "max", "max.dim", ...

// Calls an op by name from C++, with trailing arguments defaulted:
//   op<"sum">(g, Sizes{0}, true)
// What is done is out of line (call_op and its kin): there are a thousand such calls, and each
// leaves only its name and its arguments behind.
template <size_t N>
struct OpName {
  char text[N];
  consteval OpName(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};
void fill_missing(Call& c);
inline void fill_defaults(Call& c) {
  if (c.n < c.op->param_count) fill_missing(c);
}
const Op& get_op(const char* name);

// An op that is looked up by name when it is first called.
struct NamedOp {
  const char* name;
  std::atomic<const Op*> op{nullptr};
};
SmallVec<Tensor, 2> call_ops(NamedOp& op, const Value* args, int n);
Tensor call_op(NamedOp& op, const Value* args, int n);  // its first result
void call_op_in_place(NamedOp& op, const Value* args, int n);
void call_and_become(Call& c, NamedOp& op, const Value* args, int n);

template <OpName Name>
inline constinit NamedOp named_op{Name.text};

template <OpName Name, class... A>
SmallVec<Tensor, 2> ops(const A&... args) {
  const Value values[] = {Value(args)..., Value()};
  return call_ops(named_op<Name>, values, sizeof...(A));
}
template <OpName Name, class... A>
Tensor op(const A&... args) {
  const Value values[] = {Value(args)..., Value()};
  return call_op(named_op<Name>, values, sizeof...(A));
}
// The rest of a composition: calls another op, in place when `c` is, into the tensor that `c` was to
// go into, and takes over its results.
template <OpName Name, class... A>
void become(Call& c, const A&... args) {
  const Value values[] = {Value(args)..., Value()};
  call_and_become(c, named_op<Name>, values, sizeof...(A));
}
template <OpName Name, class... A>
void op_(const Tensor& self, const A&... args) {  // the in-place form
  const Value values[] = {Value(self), Value(args)...};
  call_op_in_place(named_op<Name>, values, 1 + sizeof...(A));
}

}  // namespace tycho
