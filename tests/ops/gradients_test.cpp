// Gradients of every op against central differences in float64, first and second order, along
// random directions (one direction meets every element; elements are searched only on failure).
#include <cmath>

#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class Gradients : public EveryOp {
 protected:
  bool applies() const { return op().differentiable && !op().random; }
};

constexpr double kStep = 1e-6;

// A sample in float64, moved by `step` along a direction; floating tensors become leaves.
struct Point {
  Args args;
  std::vector<Tensor> leaves;
};

double direction(int d, size_t input, int64_t i) {
  const double w = weight(input * 7 + static_cast<size_t>(d) * 3, i);
  return (static_cast<int64_t>(w * 1e6) & 1) ? w : -w;
}

// Operands of a row that have no gradient (limits given by numbers) stay where they are.
std::vector<bool> movable(const Op& op, const Samples::Item& item) {
  std::vector<bool> may;
  for (size_t i = 0; i < item.args.size(); ++i) {
    const Value& v = item.args[i];
    const size_t n = v.tag == Tag::Tensor ? 1 : v.tag == Tag::Tensors ? v.n : 0;
    may.insert(may.end(), n, op.row < 0 || row_info[op.row].grad[i]);
  }
  return may;
}

Point point(const Op& op, const Samples::Item& item,
            const std::function<double(size_t, int64_t)>& move) {
  Point p;
  size_t input = 0, tensor = 0;
  const std::vector<bool> may = movable(op, item);
  p.args = mapped(item.args, [&](const Tensor& t) {
    Tensor copy = floating_as(t, DType::Float64);
    const bool moves = may[tensor++];
    if (!is_floating(t.dtype()) || !moves) return copy;
    for (int64_t i = 0; i < copy.numel(); ++i) copy.host<double>()[i] += move(input, i);
    ++input;
    copy->requires_grad = true;
    p.leaves.push_back(copy);
    return copy;
  });
  return p;
}

// One number made of all results: linear in them, or with curvature so that the second order
// meets the gradient's own dependence on what arrives from above.
Tensor loss_of(const std::vector<Tensor>& outs, bool curved) {
  Tensor sum;
  for (size_t k = 0; k < outs.size(); ++k) {
    if (!outs[k] || !is_floating(outs[k].dtype())) continue;
    Tensor y =
        outs[k].dtype() == DType::Float64 ? outs[k] : op<"to.dtype">(outs[k], DType::Float64);
    if (curved) y = y + y * y * 0.3;
    const Tensor term = op<"sum">(y * weights_like(y, k));
    sum = sum ? sum + term : term;
  }
  return sum;
}

// The weighted sum of the first gradients: its own gradient is the second order.
Tensor first_of(const Tensor& loss, const std::vector<Tensor>& leaves, bool create_graph) {
  grad::SweepOptions o;
  o.create_graph = create_graph;
  o.allow_unused = true;
  const auto grads = grad::gradients({loss}, leaves, {}, o);
  Tensor sum;
  for (size_t k = 0; k < grads.size(); ++k) {
    if (!grads[k]) continue;
    const Tensor term = op<"sum">(grads[k] * weights_like(grads[k], k + 11));
    sum = sum ? sum + term : term;
  }
  return sum;
}

double number(const Tensor& t) { return t ? doubles(t)[0] : 0; }

struct Function {
  const Op& op;
  int order;
  // The value at a point, with its graph when `graph`.
  Tensor at(const Point& p, bool graph) const {
    const Tensor loss = loss_of(call(op, p.args), order > 1);
    if (order == 1 || !loss || !loss.requires_grad()) return order == 1 ? loss : Tensor();
    return first_of(loss, p.leaves, graph);
  }
};

using Move = std::function<double(size_t, int64_t)>;

double numeric(const Function& f, const Samples::Item& item, const Move& move) {
  const auto at = [&](double step) {
    return number(
        f.at(point(f.op, item, [&](size_t k, int64_t i) { return step * move(k, i); }), false));
  };
  return (at(kStep) - at(-kStep)) / (2 * kStep);
}

bool close(double a, double b, int order, double scale) {
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  const double tolerance = order == 1 ? 2e-5 : 1e-4;
  return std::fabs(a - b) <= tolerance * (1 + std::fabs(a)) + 1e-8 * scale;
}

void compare(const Op& op, const Samples::Item& item, int order) {
  const Function f{op, order};
  const Point p = point(op, item, [](size_t, int64_t) { return 0.0; });
  if (p.leaves.empty()) return;
  const Tensor value = f.at(p, true);
  std::vector<Tensor> grads(p.leaves.size());
  if (value && value.requires_grad()) {
    grad::SweepOptions o;
    o.allow_unused = true;
    o.create_graph = order > 1;
    grads = grad::gradients({value}, p.leaves, {}, o);
    if (order > 1) {  // third order must run
      const Tensor second = loss_of(grads, true);
      if (second && second.requires_grad()) {
        o.create_graph = false;
        grad::gradients({second}, p.leaves, {}, o);
      }
    }
  }
  std::vector<std::vector<double>> analytic;
  for (size_t k = 0; k < grads.size(); ++k) {
    if (grads[k]) {
      ASSERT_TRUE(grads[k].shape() == p.leaves[k].shape()) << "gradient of input " << k + 1;
      ASSERT_EQ(grads[k].dtype(), DType::Float64);
    }
    analytic.push_back(grads[k] ? doubles(grads[k])
                                : std::vector<double>(static_cast<size_t>(p.leaves[k].numel())));
  }
  const double scale = std::fabs(number(value));
  if (std::isnan(scale)) return;  // a mean of nothing
  for (int d = 0; d < 2; ++d) {
    const Move move = [&](size_t k, int64_t i) { return direction(d, k, i); };
    double along = 0;
    for (size_t k = 0; k < analytic.size(); ++k)
      for (size_t i = 0; i < analytic[k].size(); ++i)
        along += analytic[k][i] * move(k, static_cast<int64_t>(i));
    const double difference = numeric(f, item, move);
    if (close(along, difference, order, scale)) continue;
    int shown = 0;
    for (size_t k = 0; k < analytic.size(); ++k)
      for (size_t i = 0; i < analytic[k].size() && shown < 4; ++i) {
        const double one = numeric(f, item, [&](size_t input, int64_t j) {
          return input == k && j == static_cast<int64_t>(i) ? 1.0 : 0.0;
        });
        if (close(analytic[k][i], one, order, scale)) continue;
        ++shown;
        ADD_FAILURE() << op.name << ": order " << order << ", floating input " << k + 1
                      << ", element " << i << ": gradient " << analytic[k][i] << ", by differences "
                      << one;
      }
    return;  // every element agrees: the direction left a place like 0 that the sample is about
  }
}

TEST_P(Gradients, AgreeWithDifferences) {
  if (!applies()) return;
  each_sample([&](const Samples::Item& item) {
    if (item.differentiable) compare(op(), item, 1);
  });
}

TEST_P(Gradients, OfSecondOrderAgreeWithDifferencesAndThirdOrderRuns) {
  if (!applies()) return;
  each_sample([&](const Samples::Item& item) {
    if (item.differentiable) compare(op(), item, 2);
  });
}

TYCHO_EVERY_OP(Gradients);

}  // namespace
}  // namespace tycho::optest
