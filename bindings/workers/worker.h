// Threads that load data or run forked functions. Each has a Lua state of its own, in which torch is
// open; messages go to it and come back (codec/codec.h). What they are asked is written in Lua: how
// batches are put in order in torch/utils/workers.lua and worker.lua, forks in torch/fork.lua and
// forked.lua.
#pragma once
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/codec/codec.h"
#include "bindings/show/show.h"
#include "engine/amp/autocast.h"

namespace tycho::lua {

// One message, and a number that says what it belongs to.
struct Parcel {
  lua_Integer number = 0;
  int worker = 0;
  Message message;
  // A forked function runs in the modes of who forked it.
  bool forked = false;
  bool grad = true, inference = false;
  amp::Region region;
};

struct WorkerPool;

struct Worker {
  int id = 0;
  pthread_t thread{};
  std::atomic<bool> stop{false};         // it is to end
  std::atomic<bool> interrupt{false};    // what native work in it looks at
  std::atomic<lua_Integer> item{0};      // the position it is loading, else 0
  DType default_dtype = DType::Float32;  // this and what follows: as the main thread has it
  PrintOptions print;
  // Guarded by the pool's mutex:
  std::condition_variable wake;
  std::deque<Parcel> tasks;
  bool finished = false;    // its code runs no more
  bool ended = false;       // and its state is closed
  bool left_alone = false;  // it did not end when told to
  std::string failure;      // why it ended by itself
  std::string place;        // where it was when asked last: "data.lua:22"
};

struct WorkerPool {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Parcel> results;
  std::deque<std::unique_ptr<Worker>> workers;
  std::string who = "DataLoader";  // begins the errors
  bool over = false;               // stopped
  bool interrupted = false;        // a worker's program was ended by Ctrl-C
};

// Further workers; fewer when there is no room.
void start_pool(const std::shared_ptr<WorkerPool>& pool, int count);
void stop_pool(WorkerPool& pool);    // returns when no worker's code runs any more
void ask_for_place(Worker& worker);  // it writes `place` when its Lua code runs on

// How many threads were left behind because nothing could stop them: then the process must end
// without running what comes after main.
int workers_left_behind();

void open_workers(lua_State* L, int torch);  // torch._worker_pool

}  // namespace tycho::lua
