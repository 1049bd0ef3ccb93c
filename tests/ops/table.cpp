// Samples, copies and comparison for the table tests (see table.h).
#include "tests/ops/table.h"

#include <cmath>
#include <cstring>
#include <map>

#include "engine/amp/autocast.h"
#include "engine/base/memory.h"
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/apply_into.h"
#include "engine/tensor/read.h"

namespace tycho::optest {

Args mapped(const std::vector<Value>& values, const Map& map) {
  Args args;
  for (const Value& v : values) {
    if (v.tag == Tag::Tensor) {
      args.tensors.push_back(map(Tensor(v.t)));
      args.values.push_back(Value(args.tensors.back().get()));
    } else if (v.tag == Tag::Tensors) {
      auto list = std::make_unique<std::vector<Tensor>>();
      for (uint32_t i = 0; i < v.n; ++i)
        list->push_back(v.tensors[i] ? map(Tensor(v.tensors[i])) : Tensor());
      for (const Tensor& t : *list)
        if (t) args.tensors.push_back(t);
      args.values.push_back(Value(*list));
      args.lists.push_back(std::move(list));
    } else {
      args.values.push_back(v);
    }
  }
  return args;
}

namespace {

void fill_call(Call& c, const Args& args) {
  for (const Value& v : args.values) c.arg[c.n++] = v;
  fill_defaults(c);
}

std::vector<Tensor> results(Call& c) {
  std::vector<Tensor> out;
  for (const Tensor& t : c.out) out.push_back(t);
  return out;
}

}  // namespace

std::vector<Tensor> call(const Op& op, const Args& args, bool inplace) {
  Call c(op);
  c.inplace = inplace;
  fill_call(c, args);
  if (op.random) seed_all(5);
  apply(c);
  return results(c);
}

void call(const Op& op, const Args& args, const Tensor& to) {
  Call c(op);
  fill_call(c, args);
  if (op.random) seed_all(5);
  apply_into(c, to);
}

std::vector<Tensor> call_composition(const Op& op, const Args& args) {
  Call c(op);
  fill_call(c, args);
  op.compose(c);
  return results(c);
}

std::vector<Tensor> with_gradients(const Op& op, const Args& args) {
  for (const Tensor& t : args.tensors)
    if (is_floating(t.dtype()) && op.differentiable) t->requires_grad = true;
  std::vector<Tensor> all = call(op, args);
  Tensor sum;
  for (const Tensor& y : std::vector<Tensor>(all)) {
    if (!y || !y.requires_grad()) continue;
    const Tensor term = op.differentiable ? tycho::op<"sum">(y) : Tensor();
    sum = sum && term ? sum + tycho::op<"to.dtype">(term, sum.dtype()) : term;
  }
  if (!sum) return all;
  std::vector<Tensor> leaves;
  for (const Tensor& t : args.tensors)
    if (t.requires_grad()) leaves.push_back(t);
  grad::SweepOptions o;
  o.allow_unused = true;
  for (const Tensor& g : grad::gradients({sum}, leaves, {}, o)) all.push_back(g);
  return all;
}

Tensor copied(const Tensor& t) {
  Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  copy->is_number = t->is_number;
  return copy;
}

Tensor converted(const Tensor& t, DType dtype) {
  Tensor copy = empty(t.shape(), dtype, t.device());
  copy_raw(copy, t);
  return copy;
}

Tensor floating_as(const Tensor& t, DType dtype) {
  return is_floating(t.dtype()) ? converted(t, dtype) : copied(t);
}

Tensor on_device(const Tensor& t, Device device) {
  Tensor copy = empty(t.shape(), t.dtype(), device);
  copy_raw(copy, t);
  return copy;
}

const char* layout_name(Layout layout) {
  constexpr const char* kNames[] = {"behind an offset",     "padded rows",
                                    "every second element", "reversed with gaps",
                                    "reversed strides",     "inner layout"};
  return kNames[static_cast<int>(layout)];
}

namespace {

// A float of these bytes is nan; an integer is far from what any op takes, a truth value none.
unsigned char never_read(DType t) { return is_floating(t) ? 0xff : 0x99; }

Tensor inner_copy(const Tensor& t) {
  Sizes stride = t.shape();
  int64_t step = 1;
  const auto take = [&](int d) {
    stride[d] = step;
    step *= std::max<int64_t>(1, t.size(d));
  };
  if (t.rank() == 2) take(0);
  if (t.rank() > 1) take(1);
  for (int d = t.rank() - 1; d > 1; --d) take(d);
  if (t.rank() != 2 && t.rank() > 0) take(0);
  Tensor y = empty_inner(t.shape(), stride, t.dtype(), t.device());
  copy_raw(y, t);
  y->is_number = t->is_number;
  return y;
}

}  // namespace

Tensor laid_out(const Tensor& t, Layout layout) {
  if (layout == Layout::Inner) return inner_copy(t);
  const int rank = t.rank();
  const bool reversed = layout == Layout::Reversed || layout == Layout::Turned;
  Sizes stride = t.shape();
  int64_t total = layout == Layout::Reversed || layout == Layout::Steps ? 2 : 1;
  for (int i = 0; i < rank; ++i) {
    const int d = reversed ? i : rank - 1 - i;
    stride[d] = total;
    total *= t.size(d) * (layout == Layout::Steps ? 2 : 1) + (layout == Layout::Padded);
  }
  const int64_t offset = layout == Layout::Turned ? 0 : 3;
  const Tensor block = empty({total + (offset ? 8 : 0)}, t.dtype(), t.device());
  std::memset(block.data(), never_read(t.dtype()), block->storage->bytes);
  Tensor y = alias(block, t.shape(), stride, offset);
  copy_raw(y, t);
  y->is_number = t->is_number;
  return y;
}

bool gaps_intact(const Tensor& view) {
  const size_t bytes = view->storage->bytes, size = dtype_size(view.dtype());
  const auto* data = static_cast<const unsigned char*>(view->storage->data);
  std::vector<bool> inside(bytes);
  const size_t first = static_cast<size_t>(view->offset) * size;
  for (int64_t i = 0; i < view.numel(); ++i)
    for (size_t k = 0; k < size; ++k)
      inside[first + static_cast<size_t>(place_of(view.get(), i)) * size + k] = true;
  for (size_t i = 0; i < bytes; ++i)
    if (!inside[i] && data[i] != never_read(view.dtype())) return false;
  return true;
}

Tensor stretched(const Tensor& t, int d) {
  if (d >= t.rank() || t.size(d) == 0) return copied(t);
  const Tensor dense = copied(t);
  Sizes stride = dense.strides();
  stride[d] = 0;
  return alias(dense, t.shape(), stride, 0);
}

std::vector<double> doubles(const Tensor& t) {
  const Tensor d = empty(t.shape(), DType::Float64);
  copy_raw(d, t);
  return std::vector<double>(d.host<double>(), d.host<double>() + d.numel());
}

Args enlarged(const std::vector<Value>& values, int64_t most) {
  int64_t factor = 1;
  const bool several = mapped(values, copied).tensors.size() > 1;
  for (const int64_t f : {2, 3, 5, 8, 16, 32, 64, 128, 256}) {
    bool fits = true;
    int64_t widest[kMaxDims] = {1, 1, 1, 1, 1, 1, 1, 1};  // of what broadcasting may give
    mapped(values, [&](const Tensor& t) {
      double n = 1;
      for (int d = 0; d < t.rank(); ++d) {
        const int64_t size = t.size(d) > 1 ? t.size(d) * f : t.size(d);
        n *= static_cast<double>(size);
        int64_t& w = widest[t.rank() - 1 - d];
        w = std::max(w, size);
        fits = fits && (!several || size <= 1024);  // outer products square it
      }
      fits = fits && n <= static_cast<double>(most);
      return t;
    });
    double all = 1;
    for (const int64_t w : widest) all *= static_cast<double>(w);
    if (fits && all <= static_cast<double>(8 * most)) factor = f;
  }
  uint64_t state = 7;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  return mapped(values, [&](const Tensor& t) {
    Sizes shape = t.shape();
    for (int64_t& s : shape)
      if (s > 1) s *= factor;
    const std::vector<double> old = doubles(t);
    double low = 1e300, high = -1e300;
    for (const double x : old)
      if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
    const Tensor wide = empty(shape, DType::Float64);
    for (int64_t i = 0; i < wide.numel(); ++i)
      wide.host<double>()[i] = is_floating(t.dtype()) && low <= high
                                   ? low + (high - low) * next()
                                   : old[static_cast<size_t>(next() * double(old.size()))];
    Tensor y = empty(shape, t.dtype());
    copy_raw(y, wide);
    return y;
  });
}

std::string difference(const Tensor& got, const Tensor& want, double tolerance, bool types) {
  if (!got || !want) return got.defined() == want.defined() ? "" : "one result is undefined";
  if (!(got.shape() == want.shape()))
    return format("shape %s, expected %s", to_string(got.shape()).c_str(),
                  to_string(want.shape()).c_str());
  if (types && got.dtype() != want.dtype())
    return format("%s, expected %s", dtype_name(got.dtype()), dtype_name(want.dtype()));
  const std::vector<double> a = doubles(got), b = doubles(want);
  double largest = 0;
  for (const double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  for (size_t i = 0; i < a.size(); ++i) {
    if (tolerance < 0 ? !std::memcmp(&a[i], &b[i], sizeof(double)) : a[i] == b[i]) continue;
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (tolerance >= 0 && std::fabs(a[i] - b[i]) <= tolerance * (1 + largest)) continue;
    return format("element %zu of shape %s is %.9g, expected %.9g", i,
                  to_string(got.shape()).c_str(), a[i], b[i]);
  }
  return "";
}

std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                       double tolerance, bool types) {
  if (got.size() != want.size())
    return format("%zu results, expected %zu", got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::string d = difference(got[i], want[i], tolerance, types); !d.empty())
      return format("result %zu: ", i + 1) + d;
  return "";
}

std::string describe(const std::vector<Value>& values) {
  std::string text = "(";
  for (const Value& v : values) {
    if (text.size() > 1) text += ", ";
    switch (v.tag) {
      case Tag::None:
        text += "none";
        break;
      case Tag::Tensor:
        text += tycho::describe(Tensor(v.t));
        break;
      case Tag::Int:
        text += std::to_string(v.i);
        break;
      case Tag::Float:
        text += format("%g", v.d);
        break;
      case Tag::Bool:
        text += v.b ? "true" : "false";
        break;
      case Tag::Ints:
        text += "{";
        for (uint32_t i = 0; i < v.n; ++i) text += (i ? ", " : "") + std::to_string(v.ints[i]);
        text += "}";
        break;
      case Tag::Tensors:
        text += "{";
        for (uint32_t i = 0; i < v.n; ++i)
          text += (i ? ", " : "") +
                  (v.tensors[i] ? tycho::describe(Tensor(v.tensors[i])) : std::string("none"));
        text += "}";
        break;
      case Tag::String:
        text += std::string("\"") + v.s + "\"";
        break;
      case Tag::DType:
        text += dtype_name(v.dtype);
        break;
      case Tag::Device:
        text += device_name(v.device);
        break;
      default:
        text += "...";
    }
  }
  return text + ")";
}

double weight(size_t k, int64_t i) {
  double whole;
  return 0.5 + std::modf(0.31 + 0.618033988749895 * static_cast<double>(i + 1) +
                             0.754877666246693 * static_cast<double>(k + 1),
                         &whole);
}

Tensor weights_like(const Tensor& t, size_t k) {
  const Tensor w = empty(t.shape(), DType::Float64);
  for (int64_t i = 0; i < w.numel(); ++i) w.host<double>()[i] = weight(k, i);
  Tensor y = empty(t.shape(), t.dtype(), t.device());
  copy_raw(y, w);
  return y;
}

OpSamples::OpSamples(const Op& op) {
  if (op.samples) {
    op.samples(samples_);
  } else if (op.row >= 0) {
    const RowInfo& info = row_info[op.row];
    const bool integers = info.type == RowType::Bits || info.type == RowType::Ints;
    const auto add = [&](const Sizes& a, const Sizes& b, DType dtype) {
      std::vector<Value> args;
      for (int i = 0; i < info.operands; ++i)
        args.push_back(Value(is_floating(dtype) ? samples_.uniform(i ? b : a, 0.2, 0.9, dtype)
                                                : samples_.integers(i ? b : a, 1, 9, dtype)));
      samples_.add(std::move(args));
    };
    const DType dtype = integers ? DType::Int64 : DType::Float32;
    add({2, 3}, {2, 3}, dtype);
    add({}, {}, dtype);
    if (info.operands > 1) add({2, 1}, {3}, dtype);
  }
  items = samples_.items;
}

std::vector<const Op*> tested_ops() {
  std::vector<const Op*> ops;
  for (const Op* op : all_ops())
    if (!op->alias_of) ops.push_back(op);
  return ops;
}

Restore::Restore() : threads_(get_num_threads()), level_(static_cast<int>(cpu::level())) {
  set_capacity(int64_t{64} << 20);  // a result far too large is an error, not a burden
}
Restore::~Restore() {
  set_capacity(0);
  set_num_threads(threads_);
  cpu::force_level(static_cast<cpu::Level>(level_));
  amp::set({});
  mode.grad = true;
}

bool EveryOp::reads_memory() const {
  const std::string_view name = op().name;
  return name.starts_with("as_strided") || name == "view.dtype";
}

namespace {

// How many samples each suite may skip, because an enlarged one does not fit its other arguments or
// memory, or equal rows are no legal input. Counted by running all of them.
struct Bound {
  const char* suite;
  int most;
};
constexpr Bound kSkips[] = {
    {"Layouts", 64},     {"Levels", 36},   {"Threads", 40},
    {"Autocast", 2},     {"Batches", 380},  // vmap computes them by examples
    {"Devices", 60},                        // graphs cannot hold them
    {"CudaGraphs", 130},                    // nor these
};

std::map<std::string, int> skipped;

}  // namespace

void EveryOp::skip(const std::string& why) {
  ++skipped[testing::UnitTest::GetInstance()->current_test_suite()->name()];
  if (std::getenv("TYCHO_SHOW_SKIPS"))
    std::printf("skipped %s: %s\n", testing::UnitTest::GetInstance()->current_test_info()->name(),
                why.c_str());
}

void EveryOp::TearDownTestSuite() {
  const std::string suite = testing::UnitTest::GetInstance()->current_test_suite()->name();
  int most = 0;
  for (const Bound& b : kSkips)
    if (suite == b.suite) most = b.most;
  if (skipped[suite] > 0) std::printf("%s: %d samples skipped\n", suite.c_str(), skipped[suite]);
  if (skipped[suite] > most)
    ADD_FAILURE() << suite << " skipped " << skipped[suite] << " samples, known are " << most
                  << "; TYCHO_SHOW_SKIPS=1 lists them";
}

bool EveryOp::gives_any_values() const {
  const std::string_view name = op().name;
  return name.starts_with("empty") || name.starts_with("new_empty");
}

void EveryOp::each_sample(const std::function<void(const Samples::Item&)>& body) {
  const OpSamples samples(op());
  int n = 0;
  for (const Samples::Item& item : samples.items) {
    SCOPED_TRACE(format("%s, sample %d: %s", op().name, ++n, describe(item.args).c_str()));
    try {
      body(item);
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      if (error && error->kind == Kind::Oom)  // an enlarged sample beyond the bound
        skip(e.what());
      else
        ADD_FAILURE() << op().name << " raised " << (error ? kind_name(error->kind) : "") << ": "
                      << e.what();
    }
  }
}

std::string test_name(const testing::TestParamInfo<const Op*>& info) {
  std::string name;
  for (const char* p = info.param->name; *p; ++p)
    name += *p == '.' ? std::string("__") : std::string(1, *p);
  return name;
}

}  // namespace tycho::optest
