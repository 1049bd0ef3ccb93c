// Channel: a communicator of NCCL with a stream of its own. Its library answers before it is done: what
// was asked is taken when `taken` says so, and only then may its stream be waited for.
#pragma once
#include <functional>
#include <mutex>

#include "engine/cuda/context.h"
#include "engine/cuda/nccl.h"
#include "engine/dist/wait.h"

namespace tycho::dist {

class Channel {
 public:
  explicit Channel(Job& job) : job_(job) {}
  Channel(const Channel&) = delete;

  // Begins to meet the others; `device` is this rank's.
  void meet(Device device, const cuda::nccl::Id& id, int ranks, int rank, const Desc& desc);
  // One call of the library. Raises the job's failure, and what NCCL says against it.
  using Call = std::function<cuda::nccl::Status(cuda::nccl::Comm, cuda::Stream)>;
  void ask(const char* what, const Desc& desc, const Call& call);
  bool taken(const char* what, const Desc& desc);
  void ask_and_wait(const char* what, const Desc& desc, const Call& call);
  void wait_until_taken(const char* what, const Desc& desc);

  bool met() const { return !device_.is_cpu(); }
  Device device() const { return device_; }
  StreamId stream() const { return stream_; }
  void after(StreamId stream, uint64_t mark);  // what is asked from now on comes after the mark
  uint64_t mark();

  void abort();  // ends what the GPU waits for; on any thread
  void close();  // begins to end what went well
  bool closed();
  void release();  // the stream; after `closed`, or an abort

 private:
  Backend& backend() const { return backend_of(device_); }
  void check(cuda::nccl::Status status, const char* what) const;

  Job& job_;
  Device device_;
  StreamId stream_ = 0;
  std::mutex mutex_;  // of calls of the library, and what follows
  cuda::nccl::Comm comm_ = nullptr;
  bool aborted_ = false, closing_ = false;
};

// A new name for ranks to meet under.
cuda::nccl::Id new_nccl_id(Job& job);

// NCCL cannot have two ranks on one GPU, and says so in words of its own.
std::string gpu_of(Device device);  // on this machine
DistError one_gpu(const std::vector<int>& ranks, const std::string& gpu);

// Ends all, together: the others do the same.
void close_all(Job& job, const std::vector<Channel*>& channels);

}  // namespace tycho::dist
