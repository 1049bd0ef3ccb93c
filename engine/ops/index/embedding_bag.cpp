// embedding_bag: rows of a table, summed, averaged or maximised bag by bag.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& embedding_bags =
    add_op({.name = "embedding_bags",
            .args = "offsets, count: int, include_last_offset: bool",
            .doc = "The bag of each of `count` ids, which offsets cut into bags.",
            .where = kHidden,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  c.out.push_back(empty({c.integer(1)}, DType::Int64, c.tensor(0).device()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({3}, {1, 3, 3}, DType::Int64), 5, false});
                  s.add({s.of({3}, {1, 3, 6}, DType::Int64), 5, true});
                }});

const Op& bag_sums = add_op(
    {.name = "bag_sums",
     .args = "ids, weight",
     .doc = "The sum of the rows that each row of ids names.",
     .where = kHidden,
     .saves = "ids",
     .shape =
         [](Call& c) {
           const Tensor &ids = c.tensor(0), &weight = c.tensor(1);
           check_index_type("embedding_bag", ids);
           c.out.push_back(empty({ids.size(0), weight.size(1)}, weight.dtype(), weight.device()));
         },
     .compose =
         [](Call& c) {
           become<"sum">(c, op<"embedding">(c.tensor(0), c.tensor(1)), Sizes{1});
         },
     .grad =
         [](Backward& b) {
           if (!b.needs(1)) return;
           const Tensor ids = b.in(0), g = b.g();
           const Tensor each =
               op<"expand">(op<"unsqueeze">(g, 1), Sizes{ids.size(0), ids.size(1), g.size(1)});
           Tensor z = zeros_for(g, b.shape(1));
           op_<"index_add">(z, 0, op<"reshape">(ids, Sizes{-1}),
                            op<"reshape">(each, Sizes{ids.numel(), g.size(1)}));
           b.set(1, z);
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({2, 3}, 1, 4), s.normal({4, 2})});
           s.add({s.integers({3, 5}, 1, 6), s.normal({6, 70})});
         }});

// The bag of each id: row numbers of a table of ids, or the segments that `offsets` begins. From 1.
Tensor bags_of(const Call& c, int64_t* bags) {
  const Tensor& ids = c.tensor(0);
  if (ids.rank() == 2) {
    TYCHO_CHECK(Kind::Shape, !c.has(2),
                "embedding_bag: offsets are for ids in one dimension; here each row is a bag");
    *bags = ids.size(0);
    const Tensor rows = op<"arange.start">(1, *bags + 1, 1, DType::Int64, ids.device());
    return op<"reshape">(op<"expand">(op<"unsqueeze">(rows, -1), ids.shape()), Sizes{-1});
  }
  TYCHO_CHECK(Kind::Shape, ids.rank() == 1,
              "embedding_bag: ids have 1 dimension (with offsets) or 2, not shape %s",
              to_string(ids.shape()).c_str());
  TYCHO_CHECK(Kind::Shape, c.has(2) && c.tensor(2).rank() == 1,
              "embedding_bag: ids in one dimension need offsets in one dimension");
  const bool last = c.flag(8);
  *bags = c.tensor(2).size(0) - (last ? 1 : 0);
  TYCHO_CHECK(Kind::Shape, *bags >= 0, "embedding_bag: include_last_offset needs an offset");
  return op<"embedding_bags">(c.tensor(2), ids.size(0), last);
}

void embedding_bag_call(Call& c) {
  const Tensor &ids = c.tensor(0), &weight = c.tensor(1);
  TYCHO_CHECK(Kind::DType, is_integral(ids.dtype()), "embedding_bag: ids are integers, not %s",
              dtype_name(ids.dtype()));
  TYCHO_CHECK(Kind::Shape, weight.rank() == 2, "embedding_bag: the table has 2 dimensions, not %d",
              weight.rank());
  TYCHO_CHECK(Kind::Value, !c.has(3),
              "embedding_bag: max_norm changes the table; use renorm before");
  const std::string mode = c.string(5);
  TYCHO_CHECK(Kind::Value, mode == "sum" || mode == "mean" || mode == "max",
              "embedding_bag: mode is \"sum\", \"mean\" or \"max\", not \"%s\"", mode.c_str());
  Tensor scale = c.tensor(7);
  TYCHO_CHECK(Kind::Value, !scale || mode == "sum",
              "embedding_bag: per_sample_weights need mode \"sum\", not \"%s\"", mode.c_str());
  if (scale)
    TYCHO_CHECK(Kind::Shape, scale.shape() == ids.shape(),
                "embedding_bag: per_sample_weights have shape %s, the ids %s",
                to_string(scale.shape()).c_str(), to_string(ids.shape()).c_str());
  if (ids.rank() == 2 && !c.has(2) && !c.has(9)) {  // bags of one size
    const auto rows = [&] { return op<"embedding">(ids, weight); };
    if (mode == "max" && ids.size(1) > 0) {
      c.out.push_back(op<"max.dim">(rows(), 1));
      return;
    }
    if (mode != "max") {
      const Tensor sum = scale ? op<"sum">(rows() * op<"unsqueeze">(scale, -1), Sizes{1})
                               : op<"bag_sums">(ids, weight);
      const double n = static_cast<double>(std::max<int64_t>(1, ids.size(1)));
      c.out.push_back(mode == "mean" ? sum / n : sum);
      return;
    }
  }
  int64_t bags;
  Tensor bag, flat = op<"reshape">(ids, Sizes{-1});
  {
    NoGrad quiet;
    bag = bags_of(c, &bags);
  }
  if (scale) scale = op<"reshape">(scale, Sizes{-1});
  if (c.has(9) && !shapes_only) {  // the padding row counts nowhere
    int64_t padding = c.integer(9);
    if (padding < 0) padding += weight.size(0);
    Tensor kept;
    {
      NoGrad quiet;
      kept = op<"select">(op<"nonzero">(fn::ne(flat, padding + 1)), 1, 0);
      flat = op<"index_select">(flat, 0, kept);
      bag = op<"index_select">(bag, 0, kept);
    }
    if (scale) scale = op<"index_select">(scale, 0, kept);
  }
  const Sizes shape{bags, weight.size(1)};
  Tensor rows = op<"embedding">(flat, weight);
  if (scale) rows = rows * op<"unsqueeze">(scale, -1);
  const Tensor zeros = op<"zeros">(shape, rows.dtype(), rows.device());
  if (mode == "max") {
    c.out.push_back(op<"index_reduce">(zeros, 0, bag, rows, "amax", false));
    return;
  }
  Tensor sum = op<"index_add">(zeros, 0, bag, rows);
  if (mode == "mean") {
    NoGrad quiet;
    const Tensor ones = op<"ones">(Sizes{bag.size(0)}, rows.dtype(), rows.device());
    const Tensor counts =
        op<"index_add">(op<"zeros">(Sizes{bags}, rows.dtype(), rows.device()), 0, bag, ones);
    scale = op<"unsqueeze">(op<"clamp_min">(counts, 1), -1);
  }
  c.out.push_back(mode == "mean" ? sum / scale : sum);
}

const Op& embedding_bag = add_op(
    {.name = "embedding_bag",
     .args =
         "input, weight, offsets: tensor?, max_norm: float?, norm_type: float = 2.0, mode: "
         "string = mean, sparse: bool = false, per_sample_weights: tensor?, "
         "include_last_offset: bool = false, padding_idx: position?, scale_grad_by_freq: bool = "
         "false",
     .doc = "Rows of a table at given positions, averaged (or summed, or maximised) bag by bag; "
            "offsets say where each bag begins.",
     .where = kFunctional,
     .see = "nn.functional.embedding",
     .rule = "[b, n], [rows, d] -> [b, d]; [n], [rows, d], offsets [b] -> [b, d]",
     .example =
         "F.embedding_bag(torch.tensor{{1, 2}}, torch.tensor{{1., 2.}, {3., 4.}}) --> f32 [1, 2]\n"
         " 2  3",
     .compose = embedding_bag_call,
     .samples = [](Samples& s) {
       s.add({s.integers({2, 3}, 1, 4), s.normal({4, 2})});
       s.add({s.integers({5}, 1, 4), s.normal({4, 2}), s.of({2}, {1, 3}, DType::Int64), Value(),
              2.0, "sum", false, s.normal({5})});
       s.add({s.of({4}, {1, 2, 3, 4}, DType::Int64), s.normal({4, 2}),
              s.of({2}, {1, 3}, DType::Int64), Value(), 2.0, "max"});
     }});

}  // namespace
}  // namespace tycho
