// The thread of a worker, and how it is stopped: by a flag that native work looks at, and by a
// signal whose handler, on the worker's own thread, sets the hook that stops Lua at its next
// instruction.
#include "bindings/workers/worker.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bindings/core/interrupt.h"
#include "bindings/tools/check.h"
#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

int stop_signal() { return SIGRTMIN + 2; }   // system calls that wait return
int place_signal() { return SIGRTMIN + 3; }  // they go on

sigset_t own_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, stop_signal());
  sigaddset(&set, place_signal());
  return set;
}

struct Here {
  std::shared_ptr<WorkerPool> pool;
  Worker* worker;
};
constinit thread_local Here* here = nullptr;    // in a worker's thread
constinit thread_local int64_t bytes_sent = 0;  // since the last collection
constexpr int64_t kBytesMost = int64_t{4} << 20;

std::atomic<int> left_behind{0};

// --- On the worker's thread ---

void on_stop(int) {
  if (here && here->worker->stop.load(std::memory_order_relaxed)) interrupt_lua();
}

void place_hook(lua_State* L, lua_Debug*) {
  drop_hook(L);
  std::string place;
  lua_Debug ar;
  for (int level = 0; place.empty() && lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && std::strncmp(ar.source, "=torch/", 7) != 0)
      place = std::string(ar.short_src) + ":" + std::to_string(ar.currentline);
  }
  const std::lock_guard lock(here->pool->mutex);
  here->worker->place = std::move(place);
  here->pool->arrived.notify_all();
}

void on_place(int) {
  if (here && running && !lua_gethook(running)) lua_sethook(running, place_hook, LUA_MASKCOUNT, 1);
}

void install_handlers() {
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_stop;
  sigaction(stop_signal(), &action, nullptr);
  action.sa_handler = on_place;
  action.sa_flags = SA_RESTART;
  sigaction(place_signal(), &action, nullptr);
}

// print as Lua has it, but a line stays whole when several threads print.
int print_line(lua_State* L) {
  std::string line;
  for (int i = 1, n = lua_gettop(L); i <= n; ++i) {
    size_t size;
    const char* s = luaL_tolstring(L, i, &size);
    if (i > 1) line += '\t';
    line.append(s, size);
    lua_pop(L, 1);
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return 0;
}

// next(): waits for a task; its number and value, or nothing when the worker is to end.
int next_task(lua_State* L) {
  // The batches that were sent are garbage here, and keep their memory from being used again.
  if (bytes_sent > kBytesMost) {
    bytes_sent = 0;
    lua_gc(L, LUA_GCSTEP, 0);
  }
  Parcel task;
  {
    std::unique_lock lock(here->pool->mutex);
    Worker& me = *here->worker;
    me.wake.wait(lock,
                 [&] { return me.stop.load(std::memory_order_relaxed) || !me.tasks.empty(); });
    if (me.stop.load(std::memory_order_relaxed)) return 0;
    task = std::move(me.tasks.front());
    me.tasks.pop_front();
  }
  if (task.forked) {
    mode.grad = task.grad;
    mode.inference = task.inference;
    amp::set(task.region);
    modes_changed(L);
  }
  lua_pushinteger(L, task.number);
  lua_newtable(L);
  read_message(L, task.message, Trust::All, {.list = lua_gettop(L)});
  lua_insert(L, -2);
  return 3;  // and the tensors whose gradients go back
}

// send(number, value); send(number, value, leaves): the tensors in the value through which gradients
// flow to the leaves.
int send_result(lua_State* L) {
  Parcel result;
  result.number = luaL_checkinteger(L, 1);
  result.worker = here->worker->id;
  std::unordered_set<const Impl*> leaves;
  const bool forked = lua_istable(L, 3);
  lua_settop(L, 3);
  lua_newtable(L);
  for (lua_Integer i = 1; forked && lua_rawgeti(L, 3, i) != LUA_TNIL; ++i) {
    leaves.insert(to_impl(L, -1));
    lua_pop(L, 1);
  }
  lua_settop(L, 4);
  result.message = forked ? write_message(L, 2, kForked, {.list = 4, .leaves = &leaves})
                          : write_message(L, 2, kBatch);
  for (const CodedTensor& t : result.message.tensors)
    bytes_sent += static_cast<int64_t>(t.storage->bytes);
  const std::lock_guard lock(here->pool->mutex);
  here->pool->results.push_back(std::move(result));
  here->pool->arrived.notify_all();
  return 1;
}

// at(position) says which item is being loaded, for messages; at() asks.
int item(lua_State* L) {
  auto& item = here->worker->item;
  if (lua_gettop(L) > 0) item.store(lua_tointeger(L, 1), std::memory_order_relaxed);
  lua_pushinteger(L, item.load(std::memory_order_relaxed));
  return 1;
}

int work(lua_State* L) {
  lua_gc(L, LUA_GCSTOP);
  luaL_openlibs(L);
  lua_pushcfunction(L, print_line);
  lua_setglobal(L, "print");
  open_torch(L);
  lua_gc(L, LUA_GCRESTART);
  lua_settop(L, 0);
  push_module(L, "torch.utils.worker");
  static const luaL_Reg functions[] = {{"next", guarded<next_task>},
                                       {"send", guarded<send_result>},
                                       {"at", item},
                                       {nullptr, nullptr}};
  luaL_newlib(L, functions);
  lua_pushinteger(L, here->worker->id);
  lua_call(L, 2, 0);
  return 0;
}

int to_text(lua_State* L) {
  luaL_tolstring(L, 1, nullptr);
  return 1;
}

// Without memory for its state, a worker ends with a message as for any other failure.
std::string run_state() {
  lua_State* L = new_state();
  if (!L) {
    const std::lock_guard lock(here->pool->mutex);
    here->worker->finished = true;
    return "out of memory";
  }
  lua_pushcfunction(L, work);
  const bool failed = lua_pcall(L, 0, 0, 0) != LUA_OK;
  // From here on no handler may touch the state, and what is closed and collected may run.
  sigset_t signals = own_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  end_interrupt(L);
  here->worker->interrupt.store(false, std::memory_order_relaxed);
  std::string failure;
  if (failed && !here->worker->stop.load(std::memory_order_relaxed)) {
    lua_pushcfunction(L, to_text);  // an error's own __tostring may fail
    lua_insert(L, -2);
    failure = lua_pcall(L, 1, 1, 0) == LUA_OK ? lua_tostring(L, -1) : "an error without a text";
  }
  {
    const std::lock_guard lock(here->pool->mutex);
    here->worker->finished = true;
    here->pool->arrived.notify_all();
  }
  lua_close(L);
  running = entered = nullptr;
  return failure;
}

void* thread_main(void* argument) {
  Here mine = std::move(*static_cast<Here*>(argument));
  delete static_cast<Here*>(argument);
  here = &mine;
  use_own_interrupts(mine.worker->interrupt);
  compute_alone();
  set_default_dtype(mine.worker->default_dtype);
  print_options = mine.worker->print;
  sigset_t signals = own_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::string failure = run_state();
  here = nullptr;
  {
    const std::lock_guard lock(mine.pool->mutex);
    mine.worker->failure = std::move(failure);
    mine.worker->ended = true;
    if (mine.worker->left_alone) left_behind.fetch_sub(1, std::memory_order_relaxed);
    mine.pool->arrived.notify_all();
  }
  return nullptr;
}

// --- On the thread that runs the loop ---

// All that are at work, for the end of the process.
struct WorkerPools {
  std::mutex mutex;
  std::deque<std::weak_ptr<WorkerPool>> all;
};
WorkerPools& pools() {
  static WorkerPools* const c = new WorkerPools;  // outlives what runs after main
  return *c;
}

void stop_all(int status, void*) {
  std::deque<std::weak_ptr<WorkerPool>> all;
  {
    const std::lock_guard lock(pools().mutex);
    all.swap(pools().all);
  }
  for (const auto& weak : all)
    if (const auto pool = weak.lock()) stop_pool(*pool);
  if (workers_left_behind() > 0) {
    std::fflush(nullptr);
    _exit(status);
  }
}

}  // namespace

void start_pool(const std::shared_ptr<WorkerPool>& pool, int count) {
  install_handlers();
  {
    const std::lock_guard lock(pools().mutex);
    auto& all = pools().all;
    std::erase_if(all, [](const auto& weak) { return weak.expired(); });
    all.push_back(pool);
    static const int registered = on_exit(stop_all, nullptr);
    (void)registered;
  }
  // Signals are for the main thread: a new thread begins with all of them blocked. But programs
  // that it starts inherit what it blocks, and Ctrl-C must end them; the handler passes it on.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGINT);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int first = static_cast<int>(pool->workers.size()) + 1;
  for (int id = first; id < first + count; ++id) {
    auto worker = std::make_unique<Worker>();
    worker->id = id;
    worker->default_dtype = default_dtype();
    worker->print = print_options;
    auto* argument = new Here{pool, worker.get()};
    {
      const std::lock_guard lock(pool->mutex);
      pool->workers.push_back(std::move(worker));
    }
    if (pthread_create(&argument->worker->thread, nullptr, thread_main, argument) != 0) {
      delete argument;
      const std::lock_guard lock(pool->mutex);
      pool->workers.pop_back();
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Tells all to end, and waits for them; those that nothing stops are left behind.
void stop_pool(WorkerPool& pool) {
  constexpr auto kPatience = milliseconds(3000), kAgain = milliseconds(50),
                 kClosing = milliseconds(1000);
  std::unique_lock lock(pool.mutex);
  if (pool.over) return;
  pool.over = true;
  const auto give_up = Clock::now() + kPatience;
  const auto all = [&](bool Worker::*what) {
    return std::all_of(pool.workers.begin(), pool.workers.end(),
                       [what](const auto& w) { return (*w).*what; });
  };
  while (!all(&Worker::finished) && Clock::now() < give_up) {
    for (const auto& w : pool.workers) {
      if (w->finished) continue;
      w->stop.store(true, std::memory_order_relaxed);
      w->interrupt.store(true, std::memory_order_relaxed);
      w->wake.notify_all();
      pthread_kill(w->thread, stop_signal());
    }
    pool.arrived.wait_for(lock, kAgain, [&] { return all(&Worker::finished); });
  }
  // Closing a state may take long: of a program that writes to it, it waits for the end.
  pool.arrived.wait_for(lock, kClosing, [&] { return all(&Worker::ended); });
  for (const auto& w : pool.workers) {
    if (w->ended) continue;
    w->left_alone = true;
    left_behind.fetch_add(1, std::memory_order_relaxed);
    pthread_detach(w->thread);
    if (w->finished) continue;
    std::fprintf(stderr,
                 "note: worker %d of %s does not end: what it waits for cannot be stopped\n", w->id,
                 pool.who == "DataLoader" ? "a DataLoader" : "torch.fork");
  }
  lock.unlock();
  for (const auto& w : pool.workers)
    if (!w->left_alone) pthread_join(w->thread, nullptr);
  lock.lock();
  pool.results.clear();
  for (const auto& w : pool.workers) w->tasks.clear();
}

void ask_for_place(Worker& worker) { pthread_kill(worker.thread, place_signal()); }

// Not by a signal: while any thread waits in os.execute, the process ignores Ctrl-C's.
void pass_interrupt() {
  if (!here) {
    ::raise(SIGINT);
    return;
  }
  interrupt_lua();  // this thread goes no further
  const std::lock_guard lock(here->pool->mutex);
  here->pool->interrupted = true;
  here->pool->arrived.notify_all();
}

int workers_left_behind() { return left_behind.load(std::memory_order_relaxed); }

}  // namespace tycho::lua
