// Group: ranks that call collectives together, in the same order. Collectives run in order of issue,
// on the calling thread while nothing is queued, else on the group's own; sends and receives do not
// queue behind them. World 1 is local, with the same checks.
#pragma once
#include "engine/base/ref.h"
#include "engine/dist/transport.h"
#include "engine/tensor/tensor.h"

namespace tycho::dist {

// One call on its way. It holds the tensors; only the thread that issued it releases it.
class Work : public Shared {
 public:
  bool done() const;  // also when it failed
  void wait();        // raises its error; looks for interrupts
  static void destroy(Work* w);
};

class Group : public Shared {
 public:
  // `backend`: "gloo" (shared memory inside a host, Gloo between hosts), "shm", "mpi", "nccl" or
  // "" (by device). Collective over `ranks`.
  static Ref<Group> make(std::shared_ptr<Job> job, uint32_t id, std::vector<int> ranks,
                         const std::string& backend);
  static void destroy(Group* g);

  const Members& members() const;
  const char* backend() const;
  // Tensors are contiguous and stay alive with the work. With `async`, the storages are marked as in
  // flight (Storage::in_flight), so that the next operation on them waits.
  Ref<Work> start(Desc desc, const Tensor& in, const Tensor& out, bool async);
  Ref<Work> start_send(const Tensor& t, int peer, int tag);
  Ref<Work> start_receive(const Tensor& t, int peer, int tag);  // peer -1: any
  void close();
};

}  // namespace tycho::dist
