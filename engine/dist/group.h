// Group: ranks that call collectives together, in the same order. Collectives run in order of issue,
// on the calling thread while nothing is queued, else on the group's own; sends and receives do not
// queue behind them. World 1 is local, with the same checks. The first error that leaves ranks in
// different places poisons the group: all later calls raise it.
//
// A group is used by one thread, the one that made it; tensors stay there, and only addresses cross.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/base/ref.h"
#include "engine/dist/transport.h"
#include "engine/dist/wait.h"
#include "engine/tensor/tensor.h"

namespace tycho::dist {

class Group;

// One call on its way. It holds the tensors; only the thread that issued it releases it.
class Work final : public Shared, public InFlight {
 public:
  // Also when it failed. A message that a device's stream moves is done when the stream has it.
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool passed() const;  // and nothing is left to wait for
  void wait();          // raises its error; looks for interrupts
  // Who sent what a receive has got, as a rank of the group.
  int sender() const { return message_.peer; }
  // Of storages in flight: the same as wait().
  void wait(Storage& s) override;
  static void destroy(Work* w) { delete w; }

 private:
  friend class Group;
  const char* name() const {
    return !is_message_ ? verb_name(desc_.verb) : message_.send ? "send" : "recv";
  }
  void mark(const Tensor& t);
  // It is over: the storages are no longer in flight, what came is where it belongs, the tensors are let go.
  void settle();

  Desc desc_;
  Span in_, out_;
  Transport::Message message_;
  bool is_message_ = false, started_ = false;
  std::unique_ptr<Wait> waits_;
  Tensor tensors_[2];
  Tensor arrives_in_;  // where a message's values go from the host, when they are there
  // The storages that are in flight by this work, and what they were by before.
  struct Mark {
    Storage* storage = nullptr;
    InFlight* before = nullptr;
  } marks_[2];
  Group* group_ = nullptr;
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

class Group : public Shared {
 public:
  // `backend`: "gloo" (shared memory inside a host, Gloo between hosts), "shm", "mpi", "nccl" or
  // "" (by device). Collective over `ranks`.
  // `transport` makes another one than the backend's, for tests.
  using MakeTransport = std::unique_ptr<Transport>(const Members&);
  static Ref<Group> make(std::shared_ptr<Job> job, uint32_t id, std::vector<int> ranks,
                         const std::string& backend, MakeTransport* transport = nullptr);
  ~Group();
  static void destroy(Group* g) { delete g; }

  const Members& members() const { return members_; }
  const char* backend() const { return backend_.c_str(); }
  const char* transport() const { return transport_ ? transport_->name() : "local"; }
  uint32_t seq() const { return seq_; }  // of the last collective
  bool closed() const { return closed_; }
  // Tensors are contiguous and stay alive with the work; an undefined one is memory that this rank
  // does not have (the result of reduce on other ranks than the root). `desc.group` and `desc.seq`
  // are filled in. With `async`, the storages are marked as in flight (Storage::in_flight), so that
  // the next operation on them waits; else the work is done. Raises Kind::DType for what cannot be
  // combined, and DistError.
  Ref<Work> start(Desc desc, const Tensor& in, const Tensor& out, bool async);
  // To and from another rank of the group; `peer` -1: whoever comes first. Both sides must agree in
  // dtype and number of elements.
  Ref<Work> start_send(const Tensor& t, int peer, int tag, bool async);
  Ref<Work> start_receive(const Tensor& t, int peer, int tag, bool async);
  // A number by which operations and scripts name it, as long as it lives; 0 is a group of this
  // process alone. `of` raises Kind::Value for a group that is gone.
  int64_t handle() const { return handle_; }
  static Ref<Group> of(int64_t handle);
  // The work of the last call with `async`.
  const Ref<Work>& last() const { return last_; }
  // Waits for what is queued; all later calls raise.
  void close();

 private:
  friend class Work;
  Group();
  void check_open(const char* what) const;
  void check(const Desc& desc) const;
  Ref<Work> new_work(const Desc& desc, const Tensor& in, const Tensor& out);
  Ref<Work> run_staged(const Desc& desc, const Tensor& in, const Tensor& out);
  void run(const Desc& desc, Span in, Span out);
  void run_local(const Tensor& in, const Tensor& out) const;
  void agree_on_splits(const Desc& desc);
  // What ranks cannot go on after: kept, and told to the others where they do not know.
  [[noreturn]] void poison(const char* op, const Desc& desc);
  bool idle();  // nothing is queued, and the thread runs nothing
  void enqueue(const Ref<Work>& work);
  void work_off();  // on the group's thread
  void finish(Work& w, std::exception_ptr error);
  void reap();
  void end_threads();  // when they have done what is queued
  Ref<Work> start_message(const Tensor& t, int peer, int tag, bool send, bool async);
  static Span span_in_flight(const Tensor& t);
  bool disturbs(const Tensor& t, bool send) const;
  bool may_run_here() const;
  void begin_message(Work& w);
  void start_on_transport(Work& w);
  void look(Work& w);
  void run_message(Work& w);
  void move_messages();  // on the thread of messages

  Members members_;
  std::string backend_;
  std::vector<Tensor> unsent_;  // of messages that have failed; gone after the transport
  std::unique_ptr<Transport> transport_;
  int64_t handle_ = 0;
  Ref<Work> last_;
  uint32_t seq_ = 0;
  bool closed_ = false;
  bool checks_ = true;
  Ref<Work> finished_;            // what calls that are not async return
  std::deque<Ref<Work>> issued_;  // not yet seen to be done, by the thread of the group's user

  mutable std::mutex mutex_;         // of what follows
  std::condition_variable changed_;  // something was queued, or is done
  std::deque<Work*> queue_;
  bool running_ = false, stop_ = false;
  std::exception_ptr poison_;
  std::atomic<bool> poisoned_{false};
  std::thread thread_;
  std::vector<Work*> messages_;  // given to the thread of messages
  bool moving_ = false;
  std::thread mover_;
};

bool has_mpi();   // whether this program was built with Open MPI
bool has_nccl();  // or with the CUDA module

// The spans of tensors; an undefined one is empty memory.
Span span_of(const Tensor& t);

}  // namespace tycho::dist
