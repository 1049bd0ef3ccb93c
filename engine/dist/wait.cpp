// Looking while waiting.
#include "engine/dist/wait.h"

#include "engine/base/interrupt.h"
#include "engine/dist/socket.h"

namespace tycho::dist {

void raise(const Failure& failure, const Desc& desc) {
  DistError e(failure);
  e.op = verb_name(desc.verb);
  e.seq = desc.seq;
  throw e;
}

Wait::Wait(Job& job, const Desc& desc)
    : job_(job), desc_(desc), began_(now()), next_line_(job.env().late.count()) {}

void Wait::look(const std::vector<int>& missing) {
  if (job_.failed()) raise(job_.failure(), desc_);
  check_interrupt();
  if (!missing.empty()) {
    const Failure left = job_.left(missing);
    if (left.reason != Reason::None && left_) raise(left, desc_);
    left_ = left.reason != Reason::None;
  }
  const double waited = now() - began_, most = job_.env().timeout.count();
  if (waited > next_line_) {
    job_.late(desc_, missing, next_line_);
    next_line_ *= 2;
  }
  // Who knows not whom it waits for leaves it to the server for a while.
  if (waited < (missing.empty() ? most + 5 : most)) return;
  const Failure f{Reason::Timeout, missing,
                  format("%s did not come to %s %u%s within %g s",
                         missing.empty() ? "other ranks" : ranks_text(missing).c_str(),
                         verb_name(desc_.verb), desc_.seq, at(desc_.line).c_str(), most)};
  job_.report(f);
  raise(f, desc_);
}

}  // namespace tycho::dist
