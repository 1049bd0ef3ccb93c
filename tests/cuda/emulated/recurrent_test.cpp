// Recurrent layers on a device over many units and steps, packed sequences in both directions, with
// their gradients; and grids that leave the image.
#include "engine/grad/backward.h"
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

TEST(CudaRecurrence, LayersGiveTheCpusResultsAndGradients) {
  constexpr int64_t n = 40;
  const std::vector<int64_t> counts{5, 5, 3, 3, 1};
  const struct {
    const char* kind;
    int64_t gates;
  } kinds[] = {{"tanh", 1}, {"relu", 1}, {"lstm", 4}, {"gru", 3}};
  for (const auto& kind : kinds)
    for (const bool reverse : {false, true})
      same_made(
          [&](Device d) {
            const auto leaf = [&](const Sizes& shape, int64_t different) {
              const Tensor host = op<"mul">(mixed_numbers(shape, DType::Float32, different), 0.5);
              const Tensor x = d.is_cpu() ? host : sent(host, d);
              x->requires_grad = true;
              return x;
            };
            const bool lstm = kind.gates == 4, gru = kind.gates == 3;
            std::vector<Tensor> in{leaf({17, kind.gates * n}, 997), leaf({5, n}, 991),
                                   leaf({kind.gates * n, n}, 983)};
            if (lstm || gru) in.push_back(lstm ? leaf({5, n}, 977) : leaf({3 * n}, 971));
            const Tensor none;
            const auto y = ops<"_recurrence">(in[0], in[1], lstm ? in[3] : none, in[2],
                                              gru ? in[3] : none, none, kind.kind, counts, reverse);
            std::vector<Tensor> roots, all;
            for (const Tensor& t : y) {
              roots.push_back(t);
              all.push_back(alias(t));
            }
            std::vector<Tensor> ones;
            for (const Tensor& t : roots) ones.push_back(op<"ones_like">(t));
            for (const Tensor& g : grad::gradients(roots, in, ones, {})) all.push_back(g);
            return all;
          },
          1e-4, kind.kind);
}

TEST(CudaGridSample, PlacesOutsideAndNan) {
  const Tensor x = mixed_numbers({2, 3, 5, 7}, DType::Float32);
  const Tensor grid = op<"mul">(mixed_numbers({2, 6, 8, 2}, DType::Float32), 2.5);
  grid.data<float>()[7] = std::nanf("");
  for (const char* mode : {"nearest", "bilinear", "bicubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const bool corners : {false, true})
        same_made(
            [&](Device d) {
              const auto there = [&](const Tensor& t) { return d.is_cpu() ? t : sent(t, d); };
              return std::vector<Tensor>{
                  op<"grid_sample_forward">(there(x), there(grid), mode, padding, corners)};
            },
            1e-4, mode);
}

}  // namespace
}  // namespace tycho
