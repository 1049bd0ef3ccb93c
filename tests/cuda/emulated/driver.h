// A CUDA driver without a GPU: device memory is poisoned host memory, streams are queues that are
// run in a seeded random order within their events, and launches call kernels compiled for the CPU.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "engine/cuda/driver.h"

namespace tycho::cuda::emulated {

struct Options {
  int devices = 2;
  size_t memory = size_t(256) << 20;
  uint64_t seed = 1;
  // Work is also done when it is asked for, by chance: 0 never, so that it waits as long as it can.
  int eager_percent = 50;
  int old_device = -1;  // the number of one that is of compute capability 6.1
};

extern const bool kReal;  // whether it is a GPU's driver instead (tests/cuda/gpu)

// Makes it the driver in use; a second call changes the options of the same one.
void start(const Options& options = {});

// Work of a library's stand-in: runs in the stream's order once it may, which is asked again and again.
void enqueue(Stream stream, std::function<void()> run, std::function<bool()> may_run = {});

// A launch of a program of rows (engine/cuda/programs.h), by its source; how many there were.
std::function<void()> bound_program(const std::string& source, void** arguments);
extern std::atomic<int> programs_run;

// What the driver holds, for tests that nothing is left behind.
struct Held {
  size_t blocks, bytes, events, streams, graphs;
  size_t lost;  // work whose memory was gone when it was done
  size_t pinned;
};
Held held();

}  // namespace tycho::cuda::emulated
