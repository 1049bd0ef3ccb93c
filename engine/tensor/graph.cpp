// What graphs of all backends share: their states, and what keeps a capture from going on.
#include "engine/tensor/graph.h"

#include <atomic>
#include <utility>

#include "engine/base/check.h"
#include "engine/tensor/defer.h"

namespace tycho {

constinit thread_local Graph* capturing = nullptr;

PoolId new_pool_id() {
  static std::atomic<PoolId> last{0};
  return ++last;
}

Graph::~Graph() {
  try {
    reset();
  } catch (...) {  // an interrupt: the driver ends it with its work
  }
}

void Graph::begin(Device device, PoolId pool) {
  TYCHO_CHECK(Kind::Value, state_ == State::Empty,
              "this graph holds a capture already; g:reset() empties it");
  TYCHO_CHECK(Kind::Value, !capturing, "another graph is being captured");
  TYCHO_CHECK(Kind::Value, current_stream(device) != 0,
              "a graph cannot be captured on the default stream; torch.cuda.graph(g, f) takes "
              "another one, or choose one by torch.cuda.stream");
  run_held_rows();
  backend_of(device).synchronize(device);
  device_ = device;
  stream_ = current_stream(device);
  pool_ = pool ? pool : new_pool_id();
  recording_ = backend_of(device).record(device, stream_, pool_);
  state_ = State::Capturing;
  capturing = this;
}

void Graph::end() {
  if (state_ == State::Broken) {
    const std::string why = std::move(why_);
    reset();
    fail(Kind::Value, "nothing was captured: " + why);
  }
  TYCHO_CHECK(Kind::Value, state_ == State::Capturing && capturing == this,
              "this graph is not being captured; g:capture_begin() comes first");
  run_held_rows();
  capturing = nullptr;
  state_ = State::Ready;
  try {
    recording_->end();
  } catch (...) {
    reset();
    throw;
  }
}

void Graph::discard() {
  if (state_ == State::Capturing || state_ == State::Broken) reset();
}

void Graph::replay() {
  TYCHO_CHECK(Kind::Value, state_ == State::Ready,
              "there is nothing to replay: capture something first, torch.cuda.graph(g, f)");
  TYCHO_CHECK(Kind::Value, !capturing, "a graph cannot be replayed while one is captured");
  recording_->replay(current_stream(device_));
}

void Graph::reset() {
  if (capturing == this) capturing = nullptr;
  state_ = State::Empty;
  recording_.reset();
  seen_.clear();
  kept_.clear();
  why_.clear();
}

void Graph::keep(const Impl* t) {
  const Storage* s = t->storage.get();
  if (!s->data && s->in_flight) return;  // rows that are held: who runs them keeps what it reads
  if (recording_->owns(s->data) || !seen_.insert(s).second) return;
  kept_.push_back(t->storage);
}

void Graph::refuse(const std::string& what) {
  const std::string text = what +
                           " while a CUDA graph is captured: nothing is computed until it is "
                           "replayed, so the host has no values to look at";
  capturing = nullptr;
  recording_.reset();
  state_ = State::Broken;
  why_ = what;
  fail(Kind::Device, text, "do that before the capture, or after g:replay()");
}

}  // namespace tycho
