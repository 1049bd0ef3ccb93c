// Programs of several rows over tiles give the bits that the rows give one after another.
#include "engine/cpu/elementwise/program.h"

#include "tests/engine/numeric.h"

namespace tycho::cpu {
namespace {

Slot slot_of(const Tensor& t, DType lane) {
  return {t.data(), static_cast<int>(t.dtype()), dtype_size(t.dtype()), t.dtype() == lane};
}

// exp(a * b + c): two places between the rows.
Program three_rows(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c) {
  const auto row = [](Row r) { return level_of::row_f32(static_cast<int>(r)); };
  Program p;
  p.lanes = Lanes::F32;
  p.truth = false;
  p.n = 3;
  int k = 0;
  for (const Tensor& t : {out, a, b, c}) {
    p.slot[k] = slot_of(t, DType::Float32);
    p.single[k++] = false;
  }
  p.add(row(Row::mul), 4, {1, 2});
  p.add(row(Row::add), 5, {4, 3});
  p.add(row(Row::exp), 0, {5});
  return p;
}

void expect_same_bits(const Tensor& have, const Tensor& want) {
  ASSERT_EQ(have.numel(), want.numel());
  EXPECT_EQ(std::memcmp(have.data(), packed(want).data(),
                        static_cast<size_t>(have.numel() * dtype_size(have.dtype()))),
            0);
}

TEST(Program, OfThreeRowsOverRunsGivesTheBitsOfThreeCalls) {
  numeric::Source s;
  for (const int64_t n : {1, 7, 1024, 5000})
    for (const DType t : {DType::Float32, DType::BFloat16}) {
      const Tensor a = numeric::random(s, {n}, DType::Float32), b = numeric::random(s, {n}, t),
                   c = numeric::random(s, {n}, DType::Float32), out = empty({n}, DType::Float32);
      Tiles tiles;
      run_flat(three_rows(out, a, b, c), 0, n, tiles, false);
      expect_same_bits(out, fn::exp(a * b + c));
    }
}

TEST(Program, OfThreeRowsOverStepsGivesTheBitsOfThreeCalls) {
  numeric::Source s;
  const Tensor a = op<"t">(numeric::random(s, {40, 70}, DType::Float32)),
               b = numeric::random(s, {70, 40}, DType::Float32),
               c = op<"expand">(numeric::random(s, {70, 1}, DType::Float32), Sizes{70, 40}),
               out = empty({70, 40}, DType::Float32);
  const Impl* walkers[] = {out.get(), a.get(), b.get(), c.get()};
  const int walker[] = {0, 1, 2, 3};
  Tiles tiles;
  const Walk walk = make_walk(walkers, 4);
  const Boxes boxes(walk);
  run_boxes(three_rows(out, a, b, c), boxes, walker, 0, boxes.count, tiles);
  expect_same_bits(out, fn::exp(a * b + c));
}

}  // namespace
}  // namespace tycho::cpu
