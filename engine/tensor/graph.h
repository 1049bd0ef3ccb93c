// Graphs: what is asked of a device's stream between begin and end is kept instead of done, to be
// done again any number of times with the same memory. How it is kept is the backend's (Recording).
//
// A graph belongs to one thread; while that thread captures, all that it asks of the device is part
// of the graph, and what needs values on the host raises and ends the capture.
#pragma once
#include <memory>
#include <string>
#include <unordered_set>

#include "engine/tensor/backend.h"

namespace tycho {

struct Call;

// Memory that graphs share, which run one after the other; 0: a graph's own.
using PoolId = int64_t;
PoolId new_pool_id();

// Of a backend; its destructor waits for replays and ends what was not ended.
struct Recording {
  virtual ~Recording() = default;
  virtual void end() = 0;  // raises where what was kept cannot be done
  virtual void replay(StreamId stream) = 0;
  // Keeps a call whose results have been made, instead of its kernel's being called now; false: the
  // kernel is called, and the recording sees what that asks of the device.
  virtual bool take(Call&, void (*)(Call&)) { return false; }
  // Memory that stays with the recording by itself.
  virtual bool owns(const void*) { return false; }
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;

  // Captures what this thread asks of the device, on its current stream there, which is not stream 0.
  void begin(Device device, PoolId pool);
  void end();      // raises what broke the capture
  void discard();  // ends a capture that is of no use
  void replay();   // on the current stream
  void reset();

  Device device() const { return device_; }
  StreamId stream() const { return stream_; }
  PoolId pool() const { return pool_; }
  Recording& recording() { return *recording_; }
  // A tensor that the graph reads or writes: its memory stays as long as the graph.
  void keep(const Impl* t);
  // Ends the capture and raises what was not possible during it.
  [[noreturn]] void refuse(const std::string& what);

 private:
  enum class State : uint8_t { Empty, Capturing, Broken, Ready };
  State state_ = State::Empty;
  Device device_;
  StreamId stream_ = 0;
  PoolId pool_ = 0;
  std::unique_ptr<Recording> recording_;
  std::unordered_set<const Storage*> seen_;
  std::vector<Ref<Storage>> kept_;
  std::string why_;  // it is broken
};

extern constinit thread_local Graph* capturing;  // by this thread

inline Graph* capturing_on(Device device) {
  return capturing && capturing->device() == device ? capturing : nullptr;
}
// Called where the host waits for the device, or would have to.
inline void not_while_capturing(Device device, const char* what) {
  if (Graph* g = capturing_on(device)) [[unlikely]]
    g->refuse(what);
}

}  // namespace tycho
