// Calls of NCCL for one communicator, and its end.
#include "engine/dist/module/nccl_channel.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/base/interrupt.h"
#include "engine/dist/socket.h"

namespace tycho::dist {

using cuda::nccl::kGood;
using cuda::nccl::kInProgress;
using cuda::nccl::Status;

namespace {

[[noreturn]] void refused(const Job& job, Status status, const char* what) {
  const int me = job.env().rank;
  throw DistError({Reason::System,
                   {me},
                   format("rank %d: NCCL: %s: %s (NCCL_DEBUG=INFO says more)", me, what,
                          cuda::nccl_library().error_text(status))});
}

}  // namespace

void Channel::check(Status status, const char* what) const {
  if (status != kGood && status != kInProgress) refused(job_, status, what);
}

void Channel::meet(Device device, const cuda::nccl::Id& id, int ranks, int rank, const Desc& desc) {
  cuda::context_of(device);
  stream_ = backend_of(device).new_stream(device);
  device_ = device;
  cuda::nccl::Config config;
  ask("meeting the others", desc, [&](cuda::nccl::Comm, cuda::Stream) {
    return cuda::nccl_library().start(&comm_, ranks, id, rank, &config);
  });
}

void Channel::ask(const char* what, const Desc& desc, const Call& call) {
  const cuda::Stream stream = cuda::context_of(device_).stream(stream_);
  const std::lock_guard lock(mutex_);
  if (aborted_) raise(job_.failure(), desc);
  check(call(comm_, stream), what);
}

bool Channel::taken(const char* what, const Desc& desc) {
  Status status = kGood;
  const std::lock_guard lock(mutex_);
  if (aborted_) raise(job_.failure(), desc);
  check(cuda::nccl_library().ask(comm_, &status), what);
  check(status, what);
  return status == kGood;
}

void Channel::ask_and_wait(const char* what, const Desc& desc, const Call& call) {
  ask(what, desc, call);
  wait_until_taken(what, desc);
}

void Channel::wait_until_taken(const char* what, const Desc& desc) {
  Wait looks(job_, desc);
  for (double next_look = now() + 0.02; !taken(what, desc); usleep(50)) {
    if (now() <= next_look) continue;
    looks.look();
    next_look = now() + 0.02;
  }
}

void Channel::after(StreamId stream, uint64_t mark) {
  backend().wait_on_device(device_, stream_, device_, stream, mark);
}

uint64_t Channel::mark() { return backend().mark(device_, stream_); }

void Channel::abort() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(aborted_, true) || !comm_) return;
  cuda::nccl_library().abort(comm_);
  comm_ = nullptr;
}

void Channel::close() {
  cuda::context_of(device_);
  const std::lock_guard lock(mutex_);
  if (aborted_ || !comm_) return;
  closing_ = true;
  check(cuda::nccl_library().finalize(comm_), "the end");
}

bool Channel::closed() {
  const std::lock_guard lock(mutex_);
  if (aborted_ || !comm_ || !closing_) return true;
  Status status = kGood;
  cuda::nccl_library().ask(comm_, &status);
  if (status == kGood) cuda::nccl_library().end(std::exchange(comm_, nullptr));
  return !comm_;
}

void Channel::release() {
  if (stream_) backend().release_stream(device_, std::exchange(stream_, 0));
}

cuda::nccl::Id new_nccl_id(Job& job) {
  cuda::nccl::Id id{};
  const Status status = cuda::nccl_library().new_id(&id);
  if (status != kGood && status != kInProgress) refused(job, status, "an id");
  return id;
}

std::string gpu_of(Device device) {
  char bus[64] = "";
  cuda::check(cuda::driver().bus(bus, sizeof bus, cuda::context_of(device).ordinal), "NCCL");
  return bus;
}

DistError one_gpu(const std::vector<int>& ranks, const std::string& gpu) {
  return DistError({Reason::Refused, ranks,
                    format("%s use one GPU (%s), and NCCL wants one for each rank",
                           ranks_text(ranks).c_str(), gpu.c_str())},
                   "torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count()), or backend "
                   "\"gloo\"");
}

void close_all(Job& job, const std::vector<Channel*>& channels) {
  try {
    for (Channel* c : channels) {
      const uint64_t end = c->mark();
      while (!job.failed() && !backend_of(c->device()).passed(c->device(), c->stream(), end))
        check_interrupt(), usleep(50);
    }
    if (!job.failed())
      for (Channel* c : channels) c->close();
    constexpr double kMost = 5;  // others may be gone
    const double until = now() + kMost;
    const auto closed = [](Channel* c) { return c->closed(); };
    while (!job.failed() && now() < until && !std::all_of(channels.begin(), channels.end(), closed))
      usleep(200);
    for (Channel* c : channels) {
      c->abort();
      c->release();
    }
  } catch (const Error&) {  // an interrupt, or the device has gone
    for (Channel* c : channels) c->abort();
  }
}

}  // namespace tycho::dist
