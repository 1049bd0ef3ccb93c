// Wait: what whoever waits for other ranks looks at, in one place: failures, interrupts, ranks that
// left, the line about who is late, the timeout.
#pragma once
#include "engine/dist/job.h"

namespace tycho::dist {

class Wait {
 public:
  // `desc` stays as long as the wait.
  Wait(Job& job, const Desc& desc);
  // To be called at least every 50 ms, with the ranks of the world that have not come yet (empty:
  // the server knows). Raises the job's failure; Left, when one of them has left and is still
  // missing at the next look; Timeout, which it reports to the others; and interrupts.
  void look(const std::vector<int>& missing = {});

 private:
  Job& job_;
  const Desc& desc_;
  const double began_;
  double next_line_;
  bool left_ = false;
};

// The job's failure as this operation's error.
[[noreturn]] void raise(const Failure& failure, const Desc& desc);

}  // namespace tycho::dist
