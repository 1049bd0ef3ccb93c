// Looking rows up by id, one-hot vectors, membership. Ids and classes count from 1.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& embedding = add_op(
    {.name = "embedding",
     .args = "input, weight, padding_idx: position?, max_norm: float?, norm_type: float = 2.0, "
             "scale_grad_by_freq: bool = false, sparse: bool = false",
     .doc =
         "The rows of a weight matrix that ids (from 1) name; no gradient reaches row padding_idx; "
         "rows longer than max_norm are shortened in place first.",
     .where = kFunctional,
     .saves = "input",
     .see = "one_hot, nn.Embedding",
     .rule = "ids of any shape [..], weight [n, d] -> [.., d]",
     .example =
         "F.embedding(torch.tensor{2, 1}, torch.tensor{{1.0, 2.0}, {3.0, 4.0}}) --> f32 [2, 2]\n"
         " 3  4\n"
         " 1  2",
     .shape =
         [](Call& c) {
           const Tensor &ids = c.tensor(0), &weight = c.tensor(1);
           check_index_type("embedding", ids);
           TYCHO_CHECK(Kind::Value, weight.rank() == 2,
                       "embedding: the weight must be a matrix, not %s",
                       to_string(weight.shape()).c_str());
           if (c.has(2)) {
             const int64_t n = weight.size(0), i = c.integer(2);
             TYCHO_CHECK(Kind::Index, i >= -n && i < n,
                         "embedding: padding_idx %lld is out of range for %lld rows",
                         static_cast<long long>(i < 0 ? i : i + 1), static_cast<long long>(n));
             if (i < 0) c.arg[2] = Value(i + n);
           }
           Sizes shape = ids.shape();
           shape.push_back(weight.size(1));
           c.out.push_back(empty(shape, weight.dtype(), weight.device()));
         },
     .grad =
         [](Backward& b) {
           if (!b.needs(1)) return;
           const Tensor ids = op<"reshape">(b.in(0), Sizes{-1});
           const Sizes shape = b.shape(1);
           Tensor g = op<"reshape">(b.g(), Sizes{ids.numel(), shape[1]});
           if (b.has(2)) {
             const Tensor padding = op<"to.dtype">(fn::eq(ids, b.integer(2) + 1), g.dtype());
             g = g * op<"unsqueeze">(1 - padding, 1);
           }
           if (b.flag(5)) {
             Tensor counts = filled({shape[0]}, 0, g.dtype(), g.device());
             op_<"index_add">(counts, 0, ids, filled({ids.numel()}, 1, g.dtype(), g.device()));
             g = g / op<"unsqueeze">(op<"index_select">(counts, 0, ids), 1);
           }
           Tensor z = zeros_for(g, shape);
           op_<"index_add">(z, 0, ids, g);
           b.set(1, z);
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({2, 3}, 1, 5), s.normal({5, 4})});
           s.add({s.integers({6}, 1, 5), s.normal({5, 4}), 1}, false);
           s.add({s.integers({6}, 1, 3), s.normal({3, 2}), nullptr, nullptr, 2.0, true}, false);
         }});

const Op& one_hot = add_op(
    {.name = "one_hot",
     .args = "input, num_classes: int = -1",
     .doc = "For each class (from 1) a row of zeros with a 1 at the class's place.",
     .where = kFunctional,
     .differentiable = false,
     .see = "embedding, eq",
     .rule = "labels of any shape [..] -> [.., num_classes]",
     .example = "F.one_hot(torch.tensor{2, 1}, 3) --> i64 [2, 3]\n"
                " 0  1  0\n"
                " 1  0  0",
     .size_from_values = true,
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::DType, x.dtype() == DType::Int64, "one_hot: classes are int64, not %s",
                       dtype_name(x.dtype()));
           const int64_t n = c.integer(1);
           TYCHO_CHECK(Kind::Value, n >= -1 && n != 0,
                       "one_hot: the number of classes cannot be %lld", static_cast<long long>(n));
           if (n < 0) {  // the largest class
             TYCHO_CHECK(Kind::Value, x.numel() > 0,
                         "one_hot: the number of classes of an empty tensor must be given");
             return;
           }
           Sizes shape = x.shape();
           shape.push_back(n);
           c.out.push_back(empty(shape, DType::Int64, x.device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({2, 3}, 1, 5)});
           s.add({s.integers({4}, 1, 3), 6});
         }});

const Op& isin = add_op(
    {.name = "isin",
     .args = "elements: operand, test_elements: operand, assume_unique: bool = false, invert: bool "
             "= false",
     .doc = "Where an element is one of the test elements.",
     .where = kFunction,
     .differentiable = false,
     .see = "unique, eq",
     .rule = "elements of any shape -> that shape",
     .example = "torch.isin(torch.tensor{1, 2, 3}, torch.tensor{3, 1}) --> bool [3]  # . #",
     .shape =
         [](Call& c) {
           TYCHO_CHECK(Kind::Argument, c.arg[0].tag == Tag::Tensor || c.arg[1].tag == Tag::Tensor,
                       "isin: one of the two must be a tensor");
           const Tensor& x = c.tensor(0);
           c.out.push_back(
               empty(x ? x.shape() : Sizes(), DType::Bool, (x ? x : c.tensor(1)).device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({3, 4}, 0, 9), s.integers({5}, 0, 9)});
           s.add({s.integers({3, 4}, 0, 9), s.integers({5}, 0, 9), false, true});
           s.add({s.integers({3}, 0, 3), 2});
         }});

BATCH("embedding", [](Spread& s) { return s.batched(1) ? BatchResults() : by_leading(s); });

}  // namespace
}  // namespace tycho
