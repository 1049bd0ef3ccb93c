// The table of elementwise rows: every row of elementwise.def as an op, with its gradients.
#include <cstring>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/row_rules.h"
#include "engine/ops/table/gradient_text.h"
#include "engine/ops/table/mentions.h"

namespace tycho {

namespace {

consteval uint8_t reads(const char* text) {
  return mentions(text, 'a') | mentions(text, 'b') << 1 | mentions(text, 'c') << 2 |
         mentions(text, 'd') << 3 | mentions(text, 'y') << 4;
}
// The operands that a signature calls numbers, as bits.
consteval uint8_t numbers(const char* args) {
  int bits = 0;
  for (int operand = 0; *args; ++args) {
    if (*args == ',') ++operand;
    const char *p = args, *word = ": number";
    while (*word && *p == *word) ++p, ++word;
    if (!*word) bits |= 1 << operand;
  }
  return static_cast<uint8_t>(bits);
}

using namespace fn;  // in this file the gradients speak of exp, log, ... of tensors

constexpr double kPi = 3.14159265358979323846, kLn2 = 0.69314718055994530942,
                 kLn10 = 2.30258509299404568402, kTwoOverSqrtPi = 1.12837916709551257390;
constexpr uint8_t kEverywhere = kFunction | kMethod | kFunctional;

// --- Gradients that do not fit into a column ---

Tensor pow_grad(const Backward& row, const Tensor& g, const Tensor& a, const Tensor& b) {
  if (!row.node.args || !row.arg(1).is_number()) return where(eq(b, 0), 0, g * (b * pow(a, b - 1)));
  const Value& e = row.arg(1);
  if (e.number() == 0) return op<"zeros_like">(g);
  if (e.number() == 1) return g;
  if (e.number() == 2) return g * a * 2;
  return e.tag == Tag::Float ? g * (pow(a, e.d - 1) * e.d) : g * (pow(a, e.i - 1) * e.i);
}

// What is computed from a number alone would be rounded to the default type, also for float64.
Tensor pow_base_grad(const Backward& row, const Tensor& g, const Tensor& a, const Tensor& b,
                     const Tensor& y) {
  const bool number = row.node.args && row.arg(0).is_number();
  const Tensor slope = number ? y * std::log(row.arg(0).number()) : y * log(a);
  return g * where(logical_and(eq(a, 0), ge(b, 0)), 0, slope);
}
Tensor lerp_grad(const Backward& row, const Tensor& g, const Tensor& c) {
  return row.node.args && row.arg(2).is_number() ? g * (1 - row.arg(2).number()) : g * (1 - c);
}

// A number as the bound stops the gradient at the bound itself, a tensor shares it.
Tensor clamp_min_grad(const Backward& row, const Tensor& g, const Tensor& a, const Tensor& b) {
  if (row.node.args && row.arg(1).is_number()) return where(gt(a, b), g, 0);
  return where(eq(a, b), g * 0.5, where(lt(a, b), 0, g));
}
Tensor clamp_max_grad(const Backward& row, const Tensor& g, const Tensor& a, const Tensor& b) {
  if (row.node.args && row.arg(1).is_number()) return where(lt(a, b), g, 0);
  return where(eq(a, b), g * 0.5, where(gt(a, b), 0, g));
}

// The bounds are tensors: at a bound it and self get half each; where both bounds meet at self,
// self gets all; where they are crossed, the upper one does.
Tensor clamp_grad(int operand, const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor at_b = eq(a, b), at_c = eq(a, c), crossed = gt(b, c);
  const Tensor half = where(logical_xor(at_b, at_c), g * 0.5, 0);
  if (operand == 0) {
    const Tensor outside = logical_or(lt(a, b), gt(a, c));
    const Tensor inside = where(logical_or(outside, logical_xor(at_b, at_c)), 0, g);
    return where(logical_or(crossed, outside), 0, inside + half);
  }
  if (operand == 1)
    return where(crossed, 0, where(lt(a, b), g, where(logical_and(at_b, lt(b, c)), half, 0)));
  return where(crossed, g, where(gt(a, c), g, where(logical_and(at_c, lt(b, c)), half, 0)));
}

// 1 / (a^2 + b^2), and 0 at the origin, where its own derivative is nan.
Tensor inverse_norm(const Tensor& a, const Tensor& b) {
  const Tensor r = a * a + b * b;
  return where(eq(r, 0), 0, 1 / r);
}

// Second derivatives.
Tensor silu_second(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1 - s) * (2 + x * (1 - s * 2));
}
// As autograd takes it from g / (x (1 - x)), so that it is no number at 0 and 1.
Tensor logit_second(const Tensor& g, const Tensor& a, const Tensor& x) {
  const Tensor t = x * (1 - x), by = -g * (a / t) / t;
  return by * (1 - x) - by * x;
}
Tensor gelu_tanh_second(const Tensor& x) {
  constexpr double k = 0.79788456080286536, c = 0.044715;
  const Tensor t = tanh((x + x * x * x * c) * k), u1 = (x * x * (3 * c) + 1) * k;
  const Tensor s = 1 - t * t;
  return s * u1 + x * s * (x * (6 * c * k) - t * u1 * u1 * 2) * 0.5;
}
Tensor mish_grad(const Tensor& g, const Tensor& x) {
  const Tensor t = tanh(softplus(x, 1, 20));
  return g * (t + x * sigmoid(x) * (1 - t * t));
}

struct None {
  operator Tensor() const { return {}; }
};
[[maybe_unused]] constexpr None none;

#define GRAD(name, k, text, expression)                                                  \
  [[maybe_unused]] Tensor grad_##name##_##k(const Backward& row) {                       \
    [[maybe_unused]] const Tensor g = row.g(0);                                          \
    [[maybe_unused]] const Tensor a = reads(text) & 1 ? row.operand(0) : Tensor();       \
    [[maybe_unused]] const Tensor b = reads(text) & 2 ? row.operand(1) : Tensor();       \
    [[maybe_unused]] const Tensor c = reads(text) & 4 ? row.operand(2) : Tensor();       \
    [[maybe_unused]] const Tensor d = reads(text) & 8 ? row.operand(3) : Tensor();       \
    [[maybe_unused]] const Tensor y = reads(text) & kReadsResult ? row.out() : Tensor(); \
    [[maybe_unused]] const auto zero = [&] { return op<"zeros_like">(g); };              \
    return expression;                                                                   \
  }
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc, ...) \
  GRAD(name, a, #ga, ga) GRAD(name, b, #gb, gb) GRAD(name, c, #gc, gc)
#include "engine/ops/elementwise/elementwise.def"

#define ROW(name_, operands, args, type, amp, doc, value, ga, gb, gc, ...) \
  constexpr RowMore more_##name_ = {__VA_ARGS__};
#include "engine/ops/elementwise/elementwise.def"

// The fields of Op with these names.
struct RowHelp {
  const char *see = "", *rule = "", *example = "";
};
constexpr RowHelp help_of(Row row) {
  switch (row) {
#define HELP(name, ...) \
  case Row::name:       \
    return {__VA_ARGS__};
#include "engine/ops/elementwise/elementwise_help.def"
    default:
      return {};
  }
}

}  // namespace

constinit const RowInfo row_info[kRows] = {
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc, ...) \
  {RowType::type,                                                         \
   operands,                                                              \
   more_##name.apart | numbers(args),                                     \
   more_##name.inplace,                                                   \
   {reads(#ga), reads(#gb), reads(#gc), 0},                               \
   {is_word(#ga, "none") ? nullptr : grad_##name##_a,                     \
    is_word(#gb, "none") ? nullptr : grad_##name##_b,                     \
    is_word(#gc, "none") ? nullptr : grad_##name##_c, nullptr},           \
   more_##name.check,                                                     \
   more_##name.stand_in},
#include "engine/ops/elementwise/elementwise.def"
};

const char* const* row_gradients(int row) {
  static constexpr const char* texts[kRows][3] = {
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc, ...) {#ga, #gb, #gc},
#include "engine/ops/elementwise/elementwise.def"
  };
  return texts[row];
}

const char* hidden_row_value(const char* name) {
  struct Value {
    const char *name, *value;
    bool hidden;
  };
  static constexpr Value values[] = {
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc, ...) \
  {#name, #value, more_##name.where == kHidden},
#include "engine/ops/elementwise/elementwise.def"
  };
  for (const Value& v : values)
    if (v.hidden && !std::strcmp(v.name, name)) return v.value;
  return nullptr;
}

namespace {

struct RowOps {
  const Op* op[kRows];

  template <class F>
  static const Op& add(const char* name, const char* args, const char* doc, Amp amp, Row row,
                       const RowMore& more, F* samples) {
    const RowInfo& info = row_info[static_cast<int>(row)];
    Op o{.name = more.name ? more.name : name, .args = args, .doc = doc};
    o.where = more.where;
    o.amp = amp;
    o.aliases = more.aliases;
    o.row = static_cast<int>(row);
    o.differentiable = info.grad[0] || info.grad[1] || info.grad[2];
    o.inplace = more.inplace ? Inplace::Direct : Inplace::No;
    o.run = apply_row;
    o.samples = more.samples ? more.samples : samples;
    const RowHelp help = help_of(row);
    o.rule = *help.rule           ? help.rule
             : info.operands == 1 ? "any shape -> the same shape"
                                  : "shapes that broadcast -> the broadcast shape";
    o.see = help.see;
    o.example = help.example;
    return add_op(std::move(o), "engine/ops/elementwise/elementwise.def");
  }

  RowOps() {
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc, ...)                      \
  op[static_cast<int>(Row::name)] = &add(                                                      \
      #name, args, doc, Amp::amp, Row::name, more_##name, +[](Samples& s) {                    \
        row_samples(s, row_op(Row::name), row_info[static_cast<int>(Row::name)], more_##name); \
      });
#include "engine/ops/elementwise/elementwise.def"
  }
} row_ops;

}  // namespace

const Op& row_op(Row row) { return *row_ops.op[static_cast<int>(row)]; }

}  // namespace tycho
