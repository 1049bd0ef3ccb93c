// Ranks as threads of this process: each has a job of its own, and all have one server. A test that
// hangs ends the program, with a line that says so.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/dist/job.h"
#include "engine/dist/server.h"

namespace tycho::dist {

// A hang, not slowness: sanitizers and busy machines take long.
constexpr double kHangSeconds = 300;

// Ends the program when it lives longer than `seconds`.
class HangLimit {
 public:
  explicit HangLimit(double seconds = kHangSeconds);
  ~HangLimit();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

// What a rank's function has raised: reason None and no text if it came to its end.
struct Outcome {
  Reason reason = Reason::None;
  std::vector<int> ranks;
  std::string text, hint, op;
  uint32_t seq = 0;
};
Outcome outcome(const std::function<void()>& f);

Env env_of(const Server& server, int rank, int world);

using RankFunction = std::function<void(std::shared_ptr<Job>)>;
struct RanksOptions {
  Seconds timeout{200}, init_timeout{200}, late{10};
  double limit = kHangSeconds;
};
// Runs `f` on `n` ranks, each on its thread; returns what each has raised. The job is closed at the
// end of `f`, if `f` has not done so.
std::vector<Outcome> try_ranks(int n, const RankFunction& f, const RanksOptions& options = {});
// The same, where nothing must be raised.
void run_ranks(int n, const RankFunction& f, const RanksOptions& options = {});

}  // namespace tycho::dist
