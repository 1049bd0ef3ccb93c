// Values that meet in one place, in lists that are long enough to be sorted.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

TEST(CudaIndex, LongListsMeetInTheOrderOfTheirPositions) {
  const Tensor x = mixed_numbers({300, 5}, DType::Float32);
  same_on_both(
      x,
      [](const Tensor& x) {
        const Device d = x.device();
        const Tensor ids =
            op<"add">(op<"remainder">(op<"mul">(op<"arange">(300, DType::Int64, d), 7), 11), 1);
        const Tensor table = filled({11, 5}, 0.5, DType::Float32, d);
        const Tensor line = filled({11}, 2, DType::Float32, d);
        const Tensor wide = filled({5, 11}, 1, DType::BFloat16, d);
        const Tensor turned = op<"to.dtype">(op<"transpose">(x, 0, 1), DType::BFloat16);
        return std::vector<Tensor>{op<"index_add">(table, 0, ids, x),
                                   op<"index_add">(line, 0, ids, op<"select">(x, 1, 2)),
                                   op<"index_add">(wide, 1, ids, turned),
                                   op<"index_put_at">(table, x, true, ids, Value(), Value(),
                                                      Value(), Value(), Value(), Value(), Value())};
      },
      1e-6);
}

TEST(CudaIndex, LongListsWithABadPositionChangeNothing) {
  cuda::emulated::start();
  cuda::start();
  const Device d{0};
  const Tensor table = filled({11}, 0.5, DType::Float32, d);
  const Tensor ids = op<"arange.start">(1, 101, 1, DType::Int64, d);
  EXPECT_THROW(
      {
        op_<"index_add">(table, 0, ids, filled({100}, 1, DType::Float32, d));
        fetch(table);
      },
      Error);
  const Tensor after = fetch(table);
  for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(number_at(after, i), 0.5);
}

}  // namespace
}  // namespace tycho
