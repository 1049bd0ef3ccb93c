// Transport: moves the bytes of one group's collectives: shared memory inside a host (shm.cpp), Gloo
// between hosts (gloo.cpp), MPI (mpi.cpp), NCCL in the CUDA module. A group calls it from one thread
// at a time for collectives; sends and receives come from another one.
#pragma once
#include <memory>

#include "engine/dist/job.h"

namespace tycho::dist {

// The members of a group, as a transport needs them.
struct Members {
  uint32_t id = 0;         // of the group, the same on all ranks
  std::vector<int> ranks;  // of the world, in the group's order
  int rank = 0;            // this one's place in `ranks`
  std::shared_ptr<Job> job;
  std::shared_ptr<Store> store;  // with the group's prefix
  int size() const { return static_cast<int>(ranks.size()); }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;  // "shm", "gloo", "mpi", "nccl"
  // Does `run` find out itself whether ranks agree (shm: in its header)? Else the group calls
  // Job::agree first.
  virtual bool agrees() const = 0;
  virtual bool takes(Device device) const = 0;  // "gloo": any, through the host; "nccl": CUDA

  // Called on the user's thread when a collective is asked for, before `run`, which may come later
  // and elsewhere.
  virtual void issue(Desc&, Span, Span) {}

  // One collective, from start to end, on the calling thread. `in` and `out` may be the same
  // memory. Sizes: all_gather, gather: out.n == in.n * size (gather: on the root only);
  // reduce_scatter, scatter: in.n == out.n * size (scatter: on the root only); all_to_all: the
  // desc's splits. Sums of f16 and bf16 add in float32; the order is fixed by rank, so bits are
  // equal on every rank and in every run. Raises DistError when Job::failure is set, and
  // check_interrupt()s while it waits.
  virtual void run(const Desc& desc, Span in, Span out) = 0;

  // A message to or from one member, in order per pair and tag. `from` -1: whoever comes first.
  // `poll` moves what it can without waiting, and says whether all is done.
  struct Message {
    bool send = false;
    int peer = -1;  // of the group; receive: filled in when it was -1
    int tag = 0;
    Span span;
    int64_t moved = 0;  // bytes
    bool done = false;
    Where line;
    // Of a message that a device's stream moves (`on_stream`, when it is done): where the caller's
    // stream was when it was asked for; then the stream that moves it, and where it has moved it.
    int32_t stream = 0;
    uint64_t mark = 0;
    bool on_stream = false;
  };
  // Called on the user's thread, before `start_message`, which may come later and elsewhere.
  virtual void issue_message(Message&) {}
  virtual void start_message(Message& m) = 0;
  virtual bool poll_messages(const std::vector<Message*>& open) = 0;  // true: something moved
  virtual void wait_for_messages(Seconds at_most) = 0;  // until something may have moved

  // Wakes whoever waits in `run` or for messages: they look at Job::failure.
  virtual void wake() = 0;
};

// Each raises Reason::System when it cannot be had. Collective: all members call it.
std::unique_ptr<Transport> make_shm(const Members& members);
std::unique_ptr<Transport> make_gloo(const Members& members);
std::unique_ptr<Transport> make_mpi(const Members& members);  // built where Open MPI is found
// Null on simulated devices: make_host_transport has their bytes.
std::unique_ptr<Transport> make_nccl(const Members& members);
std::unique_ptr<Transport> make_host_transport(const Members& members);  // shm, or gloo

}  // namespace tycho::dist
