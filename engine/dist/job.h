// Job: one rank's place among the processes that work together: who it is, where they meet, the
// store, and the watch connection, on which the server says GO, DEAD and LEFT. A thread of its own
// reads it, so that a death is known while the rank computes. A process has one job; a test has
// one for each of its threads.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "engine/dist/store.h"

namespace tycho::dist {

// Where ranks meet and who this one is, from arguments and the environment (env.cpp).
struct Env {
  int rank = -1, world_size = -1;
  int local_rank = 0, local_world_size = 1;
  std::string address;  // of the server, "127.0.0.1:29500"; empty: alone
  bool serves = false;  // this rank starts the server
  std::string token;    // 128 random bits, shared by the job
  Seconds timeout{600};
  Seconds init_timeout{120};
  Seconds late{10};  // after it, who waits says for whom
  // When this rank serves: what the server listens at; empty: every address of the machine.
  std::string bind = "127.0.0.1";
  // Processes of one user and machine tell each other what is missing here, address or token,
  // through a user socket (token.h) of this name; empty: of the port's.
  std::string offered;
  std::string file;         // rank 0 writes address and token there, the others read them
  bool print_line = false;  // rank 0 says on stderr how to start the others
};

class Job {
 public:
  // Meets the others: returns when all ranks are there. Raises Reason::Timeout with the missing
  // ranks, Reason::Refused for a wrong token or a rank that exists twice.
  static std::shared_ptr<Job> join(const Env& env);
  virtual ~Job() = default;  // says BYE

  virtual const Env& env() const = 0;
  virtual std::shared_ptr<Store> store() = 0;
  struct Peer {
    int64_t pid;
    std::string host;     // for people
    std::string machine;  // boot id and network namespace: equal means shared memory works
  };
  virtual const Peer& peer(int rank) const = 0;

  // Agreement before bytes move, for transports that have none of their own: announces the hash
  // and waits for GO of all `ranks` of the group; raises Reason::Disagree (with COLL-1's table)
  // on every rank when they differ. Blocks; looks at `failure` and, on the main thread, at
  // interrupts.
  virtual void agree(const Desc& desc, const std::vector<int>& ranks) = 0;

  // What this rank is doing, for the texts of others ("rank 0 was in all_reduce 17 at
  // train.lua:41") and the line about who is late. Cheap: it is stored, and read by the watch
  // thread when somebody asks. `desc` null: nothing.
  virtual void doing(const Desc* desc) = 0;

  // The first failure of any rank, Reason::None while all is well. Who waits looks here at least
  // every 50 ms, and is woken by a listener below.
  virtual Failure failure() const = 0;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // The failure that waiting for these ranks is, now that one of them has said goodbye
  // (Reason::Left), else none. What it sent before is still there: who waits looks for that once
  // more, then raises this.
  virtual Failure left(const std::vector<int>& ranks) const = 0;
  // Called on the watch thread at a failure, and when a rank leaves (then `failed` is false):
  // transports wake whoever waits. Called at once if there is a failure already. Returns a number to
  // take it away with; after that it is not running any more.
  virtual int on_failure(std::function<void(const Failure&)> listener) = 0;
  virtual void remove_listener(int id) = 0;
  // This rank found a failure itself (a timeout, a closed connection): tells the others.
  virtual void report(const Failure& failure) = 0;
  // Says once for all who wait, on stderr of the first, that these ranks have not come to `desc`, and
  // what they do instead; who they are, the server may know better (`missing` empty). To be called by
  // who has waited for 10 s, and each time that doubles (Wait in wait.h does).
  virtual void late(const Desc& desc, const std::vector<int>& missing, double waited) = 0;
  // Goes on with the survivors after a failure (shrink_group): a new generation on the same
  // server; `leave` and all who have ended are left out. Returns who stays, when all of them have
  // asked for the same.
  virtual std::vector<int> shrink(const std::vector<int>& leave) = 0;
  // All later calls raise; the connections close. A rank that ends early is LEFT for the others;
  // `error` tells them why, if it did not end well. The rank that serves waits up to 30 s for the
  // goodbyes of all.
  virtual void close(const std::string& error = {}) = 0;

 protected:
  std::atomic<bool> failed_{false};
};

}  // namespace tycho::dist
