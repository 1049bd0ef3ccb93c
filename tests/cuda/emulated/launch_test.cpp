// Kernels launched on the emulated driver: arguments, streams, faults.
#include "engine/cuda/launch.h"

#include <gtest/gtest.h>

#include "engine/cuda/context.h"
#include "engine/cuda/kernels/walk.cuh"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

TEST(CudaLaunch, RunsTheKernelOfAFileOnTheStreamWithItsArgumentsAsTheyWere) {
  emulated::start();
  const Device d{0};
  const Scratch from(d, 4 * sizeof(float)), to(d, 4 * sizeof(double));
  const float host[] = {1, 2.5f, -3, 4};
  const Stream s = stream_of(d);
  check(driver().copy_up(reinterpret_cast<Address>(from.as()), host, sizeof host, s), "up");
  Operands w{};
  w.numel = 4;
  w.count = 2;
  w.stride[0][0] = w.stride[1][0] = 1;
  w.data[0] = to.as(), w.data[1] = from.as();
  w.dtype[0] = kF64, w.dtype[1] = kF32;
  launch(d, {"move", "move_f32"}, grid_for(d, w.numel), Block{256}, 0, w);
  w.numel = 0;  // the launch has its own
  double back[4];
  check(driver().copy_down(back, reinterpret_cast<Address>(to.as()), sizeof back, s), "down");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(back[i], host[i]);
}

}  // namespace
}  // namespace tycho::cuda
