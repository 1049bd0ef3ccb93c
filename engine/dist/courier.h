// Courier: a mesh whose waits look: failures of other ranks end them, interrupts too, and a broken
// connection is told as what happened to the rank at its other end.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/dist/mesh.h"
#include "engine/dist/transport.h"
#include "engine/dist/wait.h"

namespace tycho::dist {

class Courier {
 public:
  using Buffer = Mesh::Buffer;
  enum class Way { Sent, Received };

  // Connects to all members of the group; collective.
  Courier(const Members& members, const std::function<MakeMesh>& make);
  ~Courier();

  Job& job() const { return *job_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int world_rank(int member) const { return ranks_[static_cast<size_t>(member)]; }
  std::unique_ptr<Buffer> buffer(const void* p, int64_t bytes) {
    return mesh_->buffer(const_cast<void*>(p), static_cast<size_t>(bytes));
  }

  // Memory for the collective at hand, of the one thread that runs them.
  char* scratch(int64_t bytes);

  // Until one more of the buffer's transfers with `peer` is over.
  void wait(Buffer& buffer, Way way, int peer, Wait& looks, const Desc& desc);
  // Waits for whoever comes, until `go_on` says no after a wake; its rank, or -1.
  int wait_any(Buffer& buffer, const std::function<bool()>& go_on);
  // Whether what the buffer sends was sent before the time `until`.
  bool sent_until(Buffer& buffer, double until);
  // What a broken connection to `peer` (-1: one of all) means; raises it.
  [[noreturn]] void broken(int peer, const MeshError& error, const Desc& desc);

  void wake();  // who waits looks
  // Breaks the connections, because bytes have gone astray; all later waits raise why. After it
  // nobody reads or writes what was sent or received, whoever called it first.
  void close(const std::string& why);
  bool closed() const { return closed_; }
  void check(const Desc& desc);  // raises when the job has failed, or connections are closed

 private:
  class Waiting;
  void connect(const Members& members);
  std::string told(Store& store, const std::string& key, int rank);
  void tick();  // on a thread of its own

  const std::shared_ptr<Job> job_;
  const std::vector<int> ranks_;
  const int rank_;
  std::unique_ptr<Mesh> mesh_;
  std::mutex closing_, mutex_;
  std::condition_variable changed_;
  std::vector<Buffer*> waiting_;
  bool asleep_ = false, over_ = false;
  std::atomic<bool> closed_{false};
  std::string why_closed_;
  std::thread ticker_;
  std::unique_ptr<char[]> scratch_;
  int64_t scratch_bytes_ = 0;
};

// At most two sends on their way.
class Sends {
 public:
  Sends(Courier& courier, Wait& looks, const Desc& desc)
      : courier_(courier), looks_(looks), desc_(desc) {}
  void send(Mesh::Buffer& buffer, int to, uint64_t slot, int64_t offset, int64_t bytes);
  void finish(size_t but = 0);  // waits for all but so many

 private:
  struct Sent {
    Mesh::Buffer* buffer;
    int to;
  };
  Courier& courier_;
  Wait& looks_;
  const Desc& desc_;
  std::deque<Sent> sent_;
};

}  // namespace tycho::dist
