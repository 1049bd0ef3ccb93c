// einsum: sums of products named by letters. Operands are taken from left to right; of every pair,
// letters that nothing later needs are summed by one batched matrix product.
#include <algorithm>
#include <string_view>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// A letter, or -1, -2, ... for the dimensions of an ellipsis counted from its end.
using Label = int;
using Labels = std::vector<Label>;

bool has(const Labels& v, Label x) { return std::find(v.begin(), v.end(), x) != v.end(); }

std::string show(Label x) {
  return x < 0 ? "an ellipsis dimension" : "\"" + std::string(1, static_cast<char>(x)) + "\"";
}

// "ij..." as labels, with the ellipsis standing for `dots` dimensions.
Labels parse(std::string_view text, int dots) {
  Labels out;
  bool seen = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (text.substr(i, 3) == "...") {
      TYCHO_CHECK(Kind::Value, !seen, "einsum: \"%s\" has more than one ellipsis",
                  std::string(text).c_str());
      seen = true;
      for (int d = dots; d > 0; --d) out.push_back(-d);
      i += 2;
      continue;
    }
    TYCHO_CHECK(Kind::Value, (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'),
                "einsum: the equation has letters, \",\", \"...\" and \"->\", not \"%c\"", ch);
    out.push_back(ch);
  }
  return out;
}

// A tensor whose dimensions have different labels.
struct Term {
  Tensor t;
  Labels labels;
  int at(Label x) const {
    const auto it = std::find(labels.begin(), labels.end(), x);
    return it == labels.end() ? -1 : static_cast<int>(it - labels.begin());
  }
};

// A label that stands twice in one operand means its diagonal.
Term without_repeats(Tensor t, Labels labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t j = i + 1; j < labels.size();) {
      if (labels[i] != labels[j]) {
        ++j;
        continue;
      }
      const int x = static_cast<int>(i), y = static_cast<int>(j);
      TYCHO_CHECK(Kind::Shape, t.size(x) == t.size(y),
                  "einsum: %s stands for sizes %lld and %lld in one operand %s",
                  show(labels[i]).c_str(), static_cast<long long>(t.size(x)),
                  static_cast<long long>(t.size(y)), to_string(t.shape()).c_str());
      t = op<"diagonal">(t, 0, x, y);  // takes both dimensions away and puts one at the end
      const Label label = labels[i];
      labels.erase(labels.begin() + y);
      labels.erase(labels.begin() + x);
      labels.push_back(label);
      j = i + 1;
    }
  return {t, labels};
}

// Sums over the labels that are not wanted any more.
Term sum_out(const Term& x, const Labels& wanted) {
  Sizes dims;
  Term out;
  for (size_t d = 0; d < x.labels.size(); ++d) {
    if (has(wanted, x.labels[d]))
      out.labels.push_back(x.labels[d]);
    else
      dims.push_back(static_cast<int64_t>(d));
  }
  out.t = dims.n ? op<"sum">(x.t, dims, false, x.t.dtype()) : x.t;
  return out;
}

Tensor reordered(const Term& x, const Labels& order) {
  Sizes dims;
  bool same = true;
  for (size_t d = 0; d < order.size(); ++d) {
    dims.push_back(x.at(order[d]));
    same = same && dims[static_cast<int>(d)] == static_cast<int64_t>(d);
  }
  return same ? x.t : op<"permute">(x.t, dims);
}

// Where one side has size 1 and the other more, the one is stretched.
void agree(Term& x, Term& y) {
  Sizes xs = x.t.shape(), ys = y.t.shape();
  for (size_t d = 0; d < x.labels.size(); ++d) {
    const int i = static_cast<int>(d), j = y.at(x.labels[d]);
    if (j < 0 || xs[i] == ys[j]) continue;
    TYCHO_CHECK(Kind::Broadcast, xs[i] == 1 || ys[j] == 1,
                "einsum: %s is %lld in one operand and %lld in another", show(x.labels[d]).c_str(),
                static_cast<long long>(xs[i]), static_cast<long long>(ys[j]));
    (xs[i] == 1 ? xs[i] : ys[j]) = xs[i] == 1 ? ys[j] : xs[i];
  }
  if (!(xs == x.t.shape())) x.t = op<"expand">(x.t, xs);
  if (!(ys == y.t.shape())) y.t = op<"expand">(y.t, ys);
}

Term multiply(Term x, Term y, const Labels& wanted) {
  // What only one side has and nothing wants is summed before the product.
  Labels keep_x = wanted, keep_y = wanted;
  keep_x.insert(keep_x.end(), y.labels.begin(), y.labels.end());
  keep_y.insert(keep_y.end(), x.labels.begin(), x.labels.end());
  x = sum_out(x, keep_x);
  y = sum_out(y, keep_y);
  agree(x, y);
  Labels batch, sum, only_x, only_y;
  int64_t b = 1, k = 1, m = 1, n = 1;
  for (Label l : x.labels) {
    const int64_t size = x.t.size(x.at(l));
    if (y.at(l) < 0)
      only_x.push_back(l), m *= size;
    else if (has(wanted, l))
      batch.push_back(l), b *= size;
    else
      sum.push_back(l), k *= size;
  }
  for (Label l : y.labels)
    if (x.at(l) < 0) only_y.push_back(l), n *= y.t.size(y.at(l));
  const auto join = [](Labels a, const Labels& p, const Labels& q) {
    a.insert(a.end(), p.begin(), p.end());
    a.insert(a.end(), q.begin(), q.end());
    return a;
  };
  Term out;
  out.labels = join(batch, only_x, only_y);
  Sizes shape;
  for (Label l : out.labels) shape.push_back(x.at(l) >= 0 ? x.t.size(x.at(l)) : y.t.size(y.at(l)));
  const Tensor left = op<"reshape">(reordered(x, join(batch, only_x, sum)), Sizes{b, m, k});
  const Tensor right = op<"reshape">(reordered(y, join(batch, sum, only_y)), Sizes{b, k, n});
  // Outer products are products of matrices too, whose rows are longer than those of a broadcast.
  const bool outer = m > 1 && n > 1 && is_floating(left.dtype()) && left.dtype() == right.dtype();
  out.t = op<"reshape">(sum.empty() && !outer ? left * right : op<"matmul">(left, right), shape);
  return out;
}

void einsum(Call& c) {
  const std::string_view equation = c.string(0);
  const int count = c.count(1);
  TYCHO_CHECK(Kind::Argument, count > 0, "einsum: at least one tensor is needed");
  const size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  // The operands' texts, and how many dimensions an ellipsis has at most.
  std::vector<std::string_view> texts;
  for (size_t from = 0;;) {
    const size_t comma = left.find(',', from);
    texts.push_back(left.substr(from, comma == left.npos ? left.npos : comma - from));
    if (comma == left.npos) break;
    from = comma + 1;
  }
  TYCHO_CHECK(Kind::Argument, static_cast<int>(texts.size()) == count,
              "einsum: the equation names %zu operands, %d tensors were given", texts.size(),
              count);
  int dots = 0;
  std::vector<Term> terms;
  Labels all;
  for (int i = 0; i < count; ++i) {
    const Tensor& t = c.tensor(1, i);
    TYCHO_CHECK(Kind::Argument, t.defined(), "einsum: operand %d is nil", i + 1);
    const int letters = static_cast<int>(parse(texts[i], 0).size());
    const bool ellipsis = texts[i].find("...") != texts[i].npos;
    TYCHO_CHECK(Kind::Shape, ellipsis ? t.rank() >= letters : t.rank() == letters,
                "einsum: \"%s\" names %d dimensions, operand %d has %d: %s",
                std::string(texts[i]).c_str(), letters, i + 1, t.rank(),
                to_string(t.shape()).c_str());
    const int extra = ellipsis ? t.rank() - letters : 0;
    dots = std::max(dots, extra);
    const Labels labels = parse(texts[i], extra);
    all.insert(all.end(), labels.begin(), labels.end());
    terms.push_back(without_repeats(t, labels));
  }
  Labels result;
  if (arrow == equation.npos) {  // the ellipsis, then the letters that stand once, in order
    for (int d = dots; d > 0; --d) result.push_back(-d);
    for (Label l = 'A'; l <= 'z'; ++l)
      if (std::count(all.begin(), all.end(), l) == 1) result.push_back(l);
  } else {
    result = parse(equation.substr(arrow + 2), dots);
  }
  for (size_t i = 0; i < result.size(); ++i) {
    TYCHO_CHECK(Kind::Shape, has(all, result[i]), "einsum: %s is in the result but in no operand",
                show(result[i]).c_str());
    TYCHO_CHECK(Kind::Value, std::count(result.begin(), result.end(), result[i]) == 1,
                "einsum: %s stands twice in the result", show(result[i]).c_str());
  }
  Term x = terms[0];
  for (int i = 1; i < count; ++i) {
    Labels wanted = result;
    for (int j = i + 1; j < count; ++j)
      wanted.insert(wanted.end(), terms[j].labels.begin(), terms[j].labels.end());
    x = multiply(x, terms[i], wanted);
  }
  x = sum_out(x, result);
  c.out.push_back(reordered(x, result));
}

const Op& einsum_op = add_op(
    {.name = "einsum",
     .args = "equation: string, operands: tensors*",
     .doc = "Sums of products by letters: \"ij,jk->ik\" is a matrix product, \"...ii\" a batch of "
            "diagonals.",
     .where = kFunction,
     .see = "matmul, tensordot",
     .rule = "by the letters: \"ij,jk->ik\" [n, m], [m, p] -> [n, p]",
     .example =
         "torch.einsum(\"ij,jk->ik\", torch.ones(2, 3), torch.ones(3, 2)) --> f32 [2, 2]  view\n"
         " 3  3\n"
         " 3  3\n"
         "torch.einsum(\"ii->i\", torch.tensor{{1, 2}, {3, 4}}) --> i64 [2]  view  non-contiguous  "
         "1 4",
     .compose = einsum,
     .samples = [](Samples& s) {
       s.add({"ij,jk->ik", s.list({s.normal({2, 3}), s.normal({3, 4})})});
       s.add({"bij,bjk->bik", s.list({s.normal({2, 3, 4}), s.normal({2, 4, 2})})});
       s.add({"ii->i", s.list({s.normal({3, 3})})});
       s.add({"...ij->...ji", s.list({s.normal({2, 3, 4})})});
       s.add({"i,j", s.list({s.normal({3}), s.normal({4})})});
       s.add({"ij,jk,kl->il", s.list({s.normal({2, 3}), s.normal({3, 4}), s.normal({4, 2})})});
     }});

}  // namespace
}  // namespace tycho
