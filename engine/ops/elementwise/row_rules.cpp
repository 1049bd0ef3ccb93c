// Checks, stand-ins and samples of the rows of elementwise.def.
#include "engine/ops/elementwise/row_rules.h"

#include <cmath>

#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

// "add" for "add.alpha": what the user called.
std::string called(const Call& c) {
  const std::string_view name = c.op->name;
  return std::string(name.substr(0, name.find('.')));
}

bool is_bool_tensor(const Value& v) { return v.tag == Tag::Tensor && v.t->dtype == DType::Bool; }

}  // namespace

void no_bool(Call& c, DType) {
  if (is_bool_tensor(c.arg[0]) || is_bool_tensor(c.arg[1]))
    fail(Kind::DType, format("%s: bool tensors have no difference", called(c).c_str()),
         "a:logical_xor(b), or a:logical_not()");
}

void check_alpha(Call& c, DType compute) {
  if (c.op->name[0] != 'a') no_bool(c, compute);
  if (c.arg[2].tag == Tag::Float && !is_floating(compute))
    fail(Kind::DType, format("%s: alpha is the float %g, but the tensors are %s", called(c).c_str(),
                             c.arg[2].d, dtype_name(compute)));
}

bool any_zero(const Value& v) {
  if (v.tag != Tag::Tensor) return v.number() == 0;
  if (!has_values(v.t)) return false;
  if (v.t->device.is_cpu()) return backend_of(Device{}).has_zero(v.t);
  if (shapes_only) return false;  // then no kernel runs
  const NoGrad quiet;
  return !item<bool>(op<"all">(Tensor(Ref<Impl>(v.t))));
}

void no_zero(Call& c, DType compute) {
  if (is_floating(compute)) return;
  if (any_zero(c.arg[1]))
    fail(Kind::Value, format("%s: division of integers by zero", called(c).c_str()),
         "x:float()  -- floats give inf and nan instead");
}

void check_power(Call& c, DType compute) {
  const Value& e = c.arg[1];
  if (!is_floating(compute) && e.is_number() && e.number() < 0)
    fail(Kind::DType,
         format("pow: %s to the negative power %lld is no integer", dtype_name(compute),
                static_cast<long long>(e.i)),
         "x:float():pow(" + std::to_string(e.i) + ")");
}

void same_types(Call& c, DType) {
  for (int i = 1; i < row_info[c.op->row].operands; ++i)
    if (c.arg[i].tag == Tag::Tensor && c.arg[0].tag == Tag::Tensor &&
        c.arg[i].t->dtype != c.arg[0].t->dtype)
      fail(Kind::DType,
           format("%s: %s is %s, %s is %s; they must be of one type", called(c).c_str(),
                  c.op->params[0].name.c_str(), dtype_name(c.arg[0].t->dtype),
                  c.op->params[i].name.c_str(), dtype_name(c.arg[i].t->dtype)));
}

void same_floats(Call& c, DType compute) {
  same_types(c, compute);
  if (c.arg[0].tag == Tag::Tensor && !is_floating(c.arg[0].t->dtype))
    fail(Kind::DType,
         format("%s: takes floating point numbers, not %s", called(c).c_str(),
                dtype_name(c.arg[0].t->dtype)),
         "x:float()");
}

void check_condition(Call& c, DType) {
  const Tensor& condition = c.tensor(0);
  TYCHO_CHECK(Kind::Argument, condition, "where: the condition must be a tensor");
  if (condition.dtype() != DType::Bool && condition.dtype() != DType::UInt8)
    fail(Kind::DType,
         format("where: the condition must be bool, not %s", dtype_name(condition.dtype())),
         "torch.where(condition:ne(0), a, b)");
}

void check_fill(Call& c, DType) {
  const Tensor& mask = c.tensor(1);
  if (!mask || mask.dtype() != DType::Bool)
    fail(Kind::DType,
         format("masked_fill: the mask must be a bool tensor, not %s",
                mask ? dtype_name(mask.dtype()) : "a number"),
         "x:masked_fill(mask:ne(0), value)");
  const Value& v = c.arg[2];
  TYCHO_CHECK(Kind::Shape, v.tag != Tag::Tensor || v.t->rank == 0,
              "masked_fill: the value must be one number or a 0-d tensor, not a tensor of shape %s",
              to_string(c.tensor(2).shape()).c_str());
  if (!v.is_number() || c.arg[0].tag != Tag::Tensor) return;
  const DType t = c.arg[0].t->dtype;
  const double x = v.number();
  const int bits = 8 * dtype_size(t);
  bool fits = true;
  if (is_integral(t))
    fits = bits == 64 ? x >= -0x1p63 && x < 0x1p63
                      : x > -std::ldexp(1, bits) && x < std::ldexp(1, bits) && x == x;
  if (t == DType::Float16) fits = !(std::abs(x) > 65504) || std::isinf(x);
  TYCHO_CHECK(Kind::Value, fits, "masked_fill: %g does not fit into %s", x, dtype_name(t));
}

void check_limits(Call& c, DType) {
  TYCHO_CHECK(Kind::Value, !(c.number(1) > c.number(2)),
              "%s: the lower limit %g is above the upper limit %g", called(c).c_str(), c.number(1),
              c.number(2));
}

// An element that equals lambd as its type has it lies at the edge, also in half types.
void round_lambd(Call& c, DType compute) {
  if (compute == DType::BFloat16 || compute == DType::Float16)
    c.arg[1] = Value(item(filled({}, c.number(1), compute)));
}
void check_lambd(Call& c, DType compute) {
  TYCHO_CHECK(Kind::Value, c.number(1) >= 0, "%s: lambd must not be negative, but is %g",
              called(c).c_str(), c.number(1));
  round_lambd(c, compute);
}

void check_celu(Call& c, DType) {
  TYCHO_CHECK(Kind::Value, c.number(1) != 0, "celu: alpha must not be 0");
}

Row simple_power(const Call& c, DType compute) {
  const Value &base = c.arg[0], &e = c.arg[1];
  if (base.is_number() && base.number() == 2 && is_floating(compute)) return Row::power_of_two;
  if (!e.is_number() || base.tag != Tag::Tensor) return Row::Count;
  const double x = e.number();
  if (x == 2) return Row::square;
  if (x == 3) return Row::cube;
  if (!is_floating(compute)) return Row::Count;
  if (x == 0.5) return Row::sqrt;
  if (x == 1) return Row::identity;
  if (x == -1) return Row::reciprocal;
  if (x == -2) return Row::inverse_square;
  if (x == -0.5) return Row::rsqrt;
  return Row::Count;
}

Row not_of_bool(const Call&, DType compute) {
  return compute == DType::Bool ? Row::logical_not : Row::Count;
}

void row_samples(Samples& s, const Op& op, const RowInfo& info, const RowMore& more) {
  const RowMore::Range ranges[kOperands] = {more.in, more.in_b, more.in_c, {}};
  const bool differentiable = op.differentiable;
  // One set of arguments: operand i is a tensor of the shape `shape[i]`, or a number where `number`
  // has its bit.
  const auto add = [&](DType type, std::initializer_list<Sizes> shapes, unsigned number) {
    std::vector<Value> args;
    auto shape = shapes.begin();
    for (int i = 0; i < info.operands; ++i, ++shape) {
      const RowMore::Range r = ranges[i];
      const bool parameter = op.params[static_cast<size_t>(i)].take == Take::Number;
      if (parameter && !op.params[static_cast<size_t>(i)].required)
        args.push_back(op.params[static_cast<size_t>(i)].standard);
      else if (parameter || number >> i & 1)
        args.push_back(is_floating(type) ? Value(r.from * 0.4 + r.to * 0.6) : Value(2));
      else if (is_floating(type))
        args.push_back(s.uniform(*shape, r.from, r.to, type));
      else if (type == DType::Bool)
        args.push_back(s.mask(*shape));
      else
        args.push_back(s.integers(*shape, i ? 1 : -4, 6, type));
    }
    s.add(std::move(args), differentiable && is_floating(type));
  };
  const bool floats = info.type != RowType::Bits && info.type != RowType::Ints;
  const DType type = floats ? DType::Float32 : DType::Int64;
  const int last = info.operands - 1;
  int tensors = 0;  // operands that are not mere parameters
  for (const Param& p : op.params) tensors += p.take != Take::Number;
  add(type, {{3, 4}, {3, 4}, {3, 4}, {3, 4}}, 0);
  if (tensors > 1) add(type, {{3, 1}, {4}, {2, 1, 1}, {1}}, 0);
  for (int i = 0; i <= last && tensors > 1; ++i)
    if (op.params[static_cast<size_t>(i)].take == Take::Operand)
      add(type, {{5}, {5}, {5}, {5}}, 1u << i);
  if (floats) add(DType::Float64, {{2, 3}, {2, 3}, {2, 3}, {2, 3}}, 0);
  if (info.type != RowType::Real && floats) add(DType::Int32, {{2, 3}, {3}, {2, 1}, {3}}, 0);
  if (info.type == RowType::Same || info.type == RowType::Test || info.type == RowType::Bits ||
      info.type == RowType::Counts)
    add(DType::Bool, {{2, 3}, {3}, {2, 1}, {3}}, 0);
}

void samples_of_where(Samples& s) {
  s.add({s.mask({3, 4}), s.normal({3, 4}), s.normal({3, 4})});
  s.add({s.mask({4}), s.normal({3, 1}), s.normal({})});
  s.add({s.mask({2, 3}), s.normal({2, 3}), 0.5});
  s.add({s.mask({2, 3}), -1, s.normal({3})});
  s.add({s.mask({5}), s.integers({5}, -4, 4), 7}, false);
}

void samples_of_slopes(Samples& s) {
  s.add({s.uniform({3, 4}, 0.1, 20), s.uniform({3, 4}, 0.1, 20)}, false);
  s.add({s.uniform({3, 1}, 0.1, 2, DType::Float64), s.uniform({4}, 0.1, 2, DType::Float64)}, false);
}
void samples_of_shares(Samples& s) {
  s.add({s.uniform({3, 4}, 0.01, 0.99), s.uniform({3, 4}, 0.1, 5), s.uniform({3, 1}, 6, 20)},
        false);
}

void samples_of_fill(Samples& s) {
  s.add({s.normal({3, 4}), s.mask({3, 4}), 0.5});
  s.add({s.normal({3, 4}), s.mask({4}), s.normal({})});
  s.add({s.integers({5}, -4, 4), s.mask({5}), 7}, false);
}

}  // namespace tycho
