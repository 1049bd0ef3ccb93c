// What the module knows of each device: its context, streams, memory and the record that kernels
// write faults to. A device comes into being at its first use.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/device_memory.h"
#include "engine/cuda/driver.h"
#include "engine/cuda/memory.h"
#include "engine/tensor/backend.h"

namespace tycho::cuda {

struct Fault;

// A stream and the marks that were made in it and are not known to be passed.
struct Queue {
  struct Mark {
    uint64_t number;
    Event event;
  };
  Stream stream = nullptr;
  bool used = true;
  uint64_t marks = 0;
  std::deque<Mark> open;
  // Work goes to a graph: its marks mean something in the graph alone, and nobody waits for it.
  bool captured = false;
  bool ends_later = false;  // the stream was released meanwhile
  // How often memory was used on it, and how much of other streams' use it comes after.
  uint64_t asked = 0;
  std::vector<uint64_t> waited;
  std::deque<Mark> inside;
};

// A tensor of the host that a copy reads or writes until the event.
struct Arrival {
  Event event;
  Tensor host;
};

struct DeviceContext {
  Device device;
  int ordinal = 0;  // the driver's
  Context context = nullptr;
  Pool pool = nullptr;
  std::string name;
  int arch = 0, multiprocessors = 0;
  size_t total = 0;
  std::mutex mutex;  // of what follows
  std::deque<Queue> queues;
  std::vector<Arrival> arriving;
  std::map<int64_t, Event> times;
  int64_t last_time = 0;
  std::unique_ptr<Memory> memory;
  Fault* fault = nullptr;  // in pinned memory

  std::atomic<int> streams{1};  // queues that are used

  Stream stream(StreamId id);
  StreamId used(StreamId id);  // 0 for a stream that is gone
  StreamId current() { return streams == 1 ? 0 : used(current_stream(device)); }  // this thread's
  Stream outside_graphs(StreamId id);  // null while it takes part in a capture
  void finish_all();                   // but streams of a capture
  void use(Storage& s, StreamId stream, bool writes);
  // A storage at its start, whose memory is there in the stream's order.
  void begin(Storage& s, StreamId stream);
  // Of streams that used a storage and that `home` is not known to come after: where they are now.
  std::vector<Event> others(uint64_t written, uint64_t readers, StreamId home);
  // The stream comes after all that was asked of others, or they after what was asked of it.
  void gather(StreamId stream);
  void spread(StreamId stream);
  // What others were asked for so far is done.
  void forget_others(Queue& q);

 private:
  StreamId used_one(StreamId id) const;                           // with the lock
  void come_after(StreamId stream, StreamId other, uint64_t at);  // called with the lock
};

int count_devices();
bool has_new_enough();  // a device that can be used
bool in_use(Device device);
// Makes the device's context the calling thread's. Raises Kind::Device.
DeviceContext& context_of(Device device);
Stream stream_of(Device device);  // the calling thread's current one
// Waits, answering Ctrl-C, until the stream's queue is empty.
void finish(DeviceContext& d, Stream stream);

}  // namespace tycho::cuda
