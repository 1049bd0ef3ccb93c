// Fills in place with random numbers: uniform_, normal_, random_, ... What stood there does not matter.

#include "engine/grad/node.h"
#include "engine/ops/random/random.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
void no_gradient(Backward& b) {
  if (b.needs(0)) b.set(0, op<"zeros_like">(b.g()));
}

namespace {

// Fills in place, or a new tensor like the first argument.
void fill_self(Call& c) { c.out.push_back(c.inplace ? c.tensor(0) : empty_like(c.tensor(0))); }

// x:name_(..).
const Op& fill_op(const char* name, const char* args, const char* doc, const char* see,
                  const char* example, void (*samples)(Samples&)) {
  return add_op({.name = name,
                 .args = args,
                 .doc = doc,
                 .where = kMethod,
                 .inplace = Inplace::Only,
                 .random = true,
                 .see = see,
                 .rule = "any shape -> the same shape",
                 .example = example,
                 .shape = fill_self,
                 .grad = no_gradient,
                 .samples = samples});
}

const Op& uniform =
    fill_op("uniform", "self, from: float = 0, to: float = 1, generator: generator?",
            "Fills the tensor with numbers drawn evenly from [from, to).", "rand, normal_",
            "torch.manual_seed(0);\n"
            "torch.zeros(2):uniform_(-1, 1) --> f32 [2]   -0.007  0.536",
            [](Samples& s) {
              s.add({s.normal({2, 3}), -1.0, 2.0}, false);
            });

const Op& normal_fill =
    fill_op("normal.fill", "self, mean: float = 0, std: float = 1, generator: generator?",
            "Fills the tensor with normal numbers.", "randn",
            "torch.zeros(2):normal_(3, 0) --> f32 [2]  3 3", [](Samples& s) {
              s.add({s.normal({5, 4}), 1.0, 2.0}, false);
            });

const Op& random =
    fill_op("random", "self, to: int?, generator: generator?",
            "Fills the tensor with integers from 0 to `to` - 1; without `to` "
            "up to the largest that the type holds exactly.",
            "randint, uniform_", "torch.zeros(3):random_(1) --> f32 [3]  0 0 0", [](Samples& s) {
              s.add({s.integers({2, 3}, 0, 1)}, false);
              s.add({s.normal({2, 3}), 10}, false);
            });

const Op& random_range =
    fill_op("random.range", "self, from: int, to: int?, generator: generator?",
            "Fills the tensor with integers from `from` to `to` - 1.", "randint",
            "torch.zeros(3):random_(7, 8) --> f32 [3]  7 7 7", [](Samples& s) {
              s.add({s.normal({2, 3}), -5, 10}, false);
              s.add({s.integers({3}, 0, 1, DType::UInt8), 200}, false);
            });

const Op& exponential =
    fill_op("exponential", "self, lambd: float = 1, generator: generator?",
            "Fills the tensor with exponential numbers of rate lambd.", "uniform_, poisson",
            "torch.zeros(3):exponential_():ge(0):all() --> bool []  true", [](Samples& s) {
              s.add({s.normal({2, 3}), 2.5}, false);
            });

const Op& geometric =
    fill_op("geometric", "self, p: float, generator: generator?",
            "Fills the tensor with counts of trials up to the first "
            "success, which has probability p.",
            "bernoulli, exponential_",
            "torch.zeros(3):geometric_(0.5):ge(1):all() --> bool []  true", [](Samples& s) {
              s.add({s.normal({2, 3}), 0.3}, false);
            });

const Op& cauchy =
    fill_op("cauchy", "self, median: float = 0, sigma: float = 1, generator: generator?",
            "Fills the tensor with numbers of a Cauchy distribution.", "normal_, uniform_",
            "torch.zeros(3):cauchy_().shape --> [3]", [](Samples& s) {
              s.add({s.normal({2, 3}), 1.0, 2.0}, false);
            });

const Op& log_normal =
    fill_op("log_normal", "self, mean: float = 1, std: float = 2, generator: generator?",
            "Fills the tensor with numbers whose logarithm is normal.", "normal_",
            "torch.zeros(3):log_normal_():gt(0):all() --> bool []  true", [](Samples& s) {
              s.add({s.normal({2, 3})}, false);
            });

}  // namespace
}  // namespace tycho
