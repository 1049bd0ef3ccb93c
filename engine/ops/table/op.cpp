// The op table: registration, signatures, lookup, defaults.
#include "engine/ops/table/op.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "engine/ops/table/kernel.h"

namespace tycho {
namespace {

std::deque<Op>& store() {
  static std::deque<Op> ops;
  return ops;
}

struct TakeName {
  const char* name;
  Take take;
};
constexpr TakeName kTakes[] = {
    {"tensor", Take::Tensor}, {"operand", Take::Operand},   {"number", Take::Number},
    {"int", Take::Int},       {"float", Take::Float},       {"bool", Take::Bool},
    {"string", Take::String}, {"ints", Take::Ints},         {"dim", Take::Dim},
    {"dims", Take::Dims},     {"position", Take::Position}, {"tensors", Take::Tensors},
    {"dtype", Take::DType},   {"device", Take::Device},     {"generator", Take::Generator},
};

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

Value parse_default(Param& p, std::string_view text) {
  p.text = text;
  if (text == "none") return {};
  if (text == "true" || text == "false") return Value(text == "true");
  if (p.take == Take::String) return Value(p.text.c_str());
  const bool real = text.find_first_of(".e") != text.npos || p.take == Take::Float;
  const Value v = real ? Value(std::strtod(p.text.c_str(), nullptr))
                       : Value(static_cast<int64_t>(std::strtoll(p.text.c_str(), nullptr, 10)));
  if (p.take != Take::Ints && p.take != Take::Dims) return v;
  p.list[0] = v.i;
  Value list;
  list.tag = Tag::Ints;
  list.n = 1;
  list.ints = p.list;
  return list;
}

// "self, other: operand, alpha: number = 1, dim: dims?": a name, after a colon what it takes
// (tensor when not said; "?" when nil will do; "*" for a list that may be written without a table),
// after "=" its default (nil for "?").
void parse_params(Op& op) {
  std::string_view rest = op.args;
  op.params.reserve(kMaxArgs);
  while (!trim(rest).empty()) {
    const size_t comma = rest.find(',');
    std::string_view item = trim(rest.substr(0, comma));
    rest = comma == rest.npos ? std::string_view{} : rest.substr(comma + 1);
    std::string_view standard;
    if (const size_t eq = item.find('='); eq != item.npos) {
      standard = trim(item.substr(eq + 1));
      item = trim(item.substr(0, eq));
    }
    std::string_view type = "tensor";
    if (const size_t colon = item.find(':'); colon != item.npos) {
      type = trim(item.substr(colon + 1));
      item = trim(item.substr(0, colon));
    }
    Param& p = op.params.emplace_back();
    p.name = item;
    p.gather = type.ends_with('*');
    if (p.gather) type.remove_suffix(1);
    p.optional = type.ends_with('?');
    if (p.optional) type.remove_suffix(1);
    p.required = standard.empty() && !p.optional;
    p.holes = type == "ints_or_none";
    if (p.holes) type = "ints";
    const auto* take = std::find_if(std::begin(kTakes), std::end(kTakes),
                                    [&](const TakeName& t) { return type == t.name; });
    if (take == std::end(kTakes)) {
      std::fprintf(stderr, "op %s: no parameter type \"%s\"\n", op.name, std::string(type).c_str());
      std::abort();
    }
    p.take = take->take;
    if (!standard.empty()) p.standard = parse_default(p, standard);
  }
  op.param_count = static_cast<int>(op.params.size());
}

// Calls f with each of the names in "self, other, out2".
template <class F>
void each_name(std::string_view names, F&& f) {
  while (!trim(names).empty()) {
    const size_t comma = names.find(',');
    f(trim(names.substr(0, comma)));
    names = comma == names.npos ? std::string_view{} : names.substr(comma + 1);
  }
}

void parse_names(Op& op) {
  const auto add = [&](std::string_view name, std::vector<int>* to) {
    for (size_t i = 0; i < op.params.size(); ++i)
      if (op.params[i].name == name) to->push_back(static_cast<int>(i));
  };
  each_name(op.saves, [&](std::string_view name) {
    if (name.starts_with("out"))
      op.saved_outputs.push_back(name.size() > 3 ? name[3] - '1' : 0);
    else
      add(name, &op.saved_inputs);
  });
  each_name(op.writes, [&](std::string_view name) { add(name, &op.written_inputs); });
}

// Announced kernels, the newest first; static objects of any file may add to it at any time.
constinit KernelBinding* announced = nullptr;

[[noreturn]] void refuse_binding(const KernelBinding& b, const char* why) {
  std::fprintf(stderr, "%s binds a kernel to \"%s\": %s\n", b.file, b.op, why);
  std::abort();
}

}  // namespace

const Op& add_op(Op op, const char* file) {
  Op& o = store().emplace_back(std::move(op));
  const char* path = std::strstr(file, "engine/ops/");
  o.file = path ? path : file;
  o.id = static_cast<uint16_t>(store().size());
  parse_params(o);
  parse_names(o);
  const std::string_view name = o.name;
  const std::string suffix(name.substr(std::min(name.find('.'), name.size())));
  each_name(o.aliases, [&](std::string_view alias) {
    static std::deque<std::string> names;
    names.push_back(std::string(alias) + suffix);
    Op& other = store().emplace_back(o);
    other.name = names.back().c_str();
    other.aliases = "";
    other.alias_of = other.same_as = &o;
    other.id = static_cast<uint16_t>(store().size());
    other.params.clear();  // their texts and lists point into themselves
    parse_params(other);
  });
  return o;
}

const Op& add_also(const Op& op, const char* name, const char* args) {
  Op also = op;
  also.name = name;
  if (args) also.args = args;
  also.see = op.name;
  for (const Op& o : store())  // `op` may be a changed copy of it
    if (o.name == op.name) also.same_as = &o;
  also.params.clear();
  also.saved_inputs.clear();
  also.saved_outputs.clear();
  also.written_inputs.clear();
  return add_op(std::move(also), op.file);
}

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> sorted = [] {
    bind_kernels();
    std::vector<const Op*> v;
    for (const Op& o : store()) v.push_back(&o);
    std::sort(v.begin(), v.end(),
              [](const Op* a, const Op* b) { return std::strcmp(a->name, b->name) < 0; });
    return v;
  }();
  return sorted;
}

const Op* find_op(std::string_view name) {
  static const std::unordered_map<std::string_view, const Op*> map = [] {
    bind_kernels();
    std::unordered_map<std::string_view, const Op*> m;
    for (const Op& o : store()) m.emplace(o.name, &o);
    return m;
  }();
  const auto it = map.find(name);
  return it == map.end() ? nullptr : it->second;
}

KernelBinding::KernelBinding(BackendKind backend, const char* op, Kernel kernel, const char* file)
    : backend(backend), op(op), kernel(kernel), file(file), next(announced) {
  announced = this;
}

void bind_kernels() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!announced) return;
  std::unordered_map<std::string_view, Op*> by_name;
  for (Op& o : store()) by_name.emplace(o.name, &o);
  for (; announced; announced = announced->next) {
    const auto it = by_name.find(announced->op);
    if (it == by_name.end()) refuse_binding(*announced, "there is no such operation");
    Kernel& slot = it->second->kernel[static_cast<int>(announced->backend)];
    if (slot) refuse_binding(*announced, "it has a kernel for this backend");
    slot = announced->kernel;
  }
  for (Op& o : store())
    for (int b = 0; b < kBackends; ++b)
      if (o.same_as && !o.kernel[b]) o.kernel[b] = o.same_as->kernel[b];
}

const Op& get_op(const char* name) {
  const Op* op = find_op(name);
  TYCHO_CHECK(Kind::Argument, op, "the op table has no \"%s\"", name);
  return *op;
}

void fill_missing(Call& c) {
  const int n = static_cast<int>(c.op->params.size());
  for (; c.n < n; ++c.n) {
    const Param& p = c.op->params[c.n];
    TYCHO_CHECK(Kind::Argument, !p.required, "%s: argument \"%s\" is missing", c.op->name,
                p.name.c_str());
    c.arg[c.n] = p.standard;
  }
}

namespace {

// Fills in a call of a named op with arguments that stay its caller's.
struct NamedCall : Call {
  NamedCall(NamedOp& named, const Value* args, int count) : Call(look_up(named)) {
    for (n = 0; n < count; ++n) arg[n] = args[n];
    fill_defaults(*this);
  }

 private:
  static const Op& look_up(NamedOp& named) {
    const Op* op = named.op.load(std::memory_order_relaxed);
    if (!op) [[unlikely]]
      named.op.store(op = &get_op(named.name), std::memory_order_relaxed);
    return *op;
  }
};

}  // namespace

SmallVec<Tensor, 2> call_ops(NamedOp& op, const Value* args, int n) {
  NamedCall c(op, args, n);
  apply(c);
  return std::move(c.out);
}

Tensor call_op(NamedOp& op, const Value* args, int n) {
  NamedCall c(op, args, n);
  apply(c);
  return std::move(c.out[0]);
}

void call_op_in_place(NamedOp& op, const Value* args, int n) {
  NamedCall c(op, args, n);
  c.inplace = true;
  apply(c);
}

void call_and_become(Call& c, NamedOp& op, const Value* args, int n) {
  NamedCall d(op, args, n);
  d.inplace = c.inplace;
  d.into = c.into;
  apply(d);
  c.out = std::move(d.out);
}

void Call::keep_list(int i, std::vector<Tensor> list) {
  if (!kept_lists) kept_lists = std::make_unique<std::vector<std::vector<Tensor>>>();
  kept_lists->reserve(kMaxArgs);
  kept_lists->push_back(std::move(list));
  arg[i] = Value(kept_lists->back());
}

int wrap_dim(int64_t dim, int rank) {
  const int n = rank ? rank : 1;  // a 0-d tensor counts as having one dimension here, as PyTorch
  if (dim >= -n && dim < n) return static_cast<int>(dim < 0 ? dim + n : dim);
  fail(Kind::Dim,
       format("dimension %lld is out of range for a tensor with %d dimension%s (1..%d, or -%d..-1)",
              static_cast<long long>(dim < 0 ? dim : dim + 1), rank, rank == 1 ? "" : "s", n, n));
}

uint32_t dim_bits(const Call& c, int i, int rank) {
  if (!c.has(i) || c.count(i) == 0) return (1u << rank) - 1;
  uint32_t bits = 0;
  for (int k = 0; k < c.count(i); ++k) {
    const int d = wrap_dim(c.arg[i].ints[k], rank);
    TYCHO_CHECK(Kind::Dim, !(bits >> d & 1), "dimension %d is named twice", d + 1);
    bits |= 1u << d;
  }
  return bits;
}

}  // namespace tycho
