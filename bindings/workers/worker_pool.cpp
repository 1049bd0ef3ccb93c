// The workers of a loader as a Lua value, torch._worker_pool: what torch/utils/workers.lua sends to
// them, waits for, and asks of them.
#include <algorithm>
#include <chrono>
#include <utility>

#include "bindings/core/interrupt.h"
#include "bindings/tools/check.h"
#include "bindings/workers/worker.h"
#include "engine/base/interrupt.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const char kPool[] = "tycho.worker_pool";

struct PoolBox {
  std::shared_ptr<WorkerPool> pool;
  bool keeps = false;  // its workers outlive a loop that is left
  bool forks = false;  // they run forked functions: only an error ends them
};

PoolBox& box_at(lua_State* L) {
  auto* box = static_cast<PoolBox*>(luaL_testudata(L, 1, kPool));
  TYCHO_CHECK(Kind::Argument, box && box->pool, "_worker_pool: wants a pool of workers");
  return *box;
}
Worker& worker_at(lua_State* L, WorkerPool& pool, int i) {
  const lua_Integer id = check_integer(L, i, "_worker_pool");
  TYCHO_CHECK(Kind::Argument, id >= 1 && id <= static_cast<lua_Integer>(pool.workers.size()),
              "_worker_pool: there is no worker %lld", static_cast<long long>(id));
  return *pool.workers[static_cast<size_t>(id) - 1];
}

// _worker_pool(count, keeps, setup): threads, each of which gets the setup as its first task; with
// setup.entry, they run forked functions.
int new_pool(lua_State* L) {
  const int64_t count = check_integer(L, 1, "_worker_pool");
  TYCHO_CHECK(Kind::Value, count >= 1 && count <= 512, "_worker_pool: wants 1 to 512 workers");
  const bool complete_setup = lua_istable(L, 3) && lua_getfield(L, 3, "seed") == LUA_TNUMBER;
  TYCHO_CHECK(Kind::Argument, complete_setup, "_worker_pool: wants a worker's setup");
  const Message setup = write_message(L, 3, kSetup);
  auto* box = new (lua_newuserdatauv(L, sizeof(PoolBox), 0)) PoolBox;
  luaL_setmetatable(L, kPool);
  box->keeps = lua_toboolean(L, 2);
  box->pool = std::make_shared<WorkerPool>();
  box->forks = lua_getfield(L, 3, "entry") == LUA_TSTRING;
  lua_pop(L, 1);
  if (box->forks) box->pool->who = "fork";
  start_pool(box->pool, static_cast<int>(count));
  bool complete;
  {
    const std::lock_guard lock(box->pool->mutex);
    complete = box->pool->workers.size() == static_cast<size_t>(count);
    for (const auto& w : box->pool->workers) {
      w->tasks.emplace_back();
      w->tasks.back().message = setup;
      w->wake.notify_all();
    }
  }
  if (!complete) {
    stop_pool(*box->pool);
    fail(Kind::Oom, format("%s: the system has no room for %d threads more", box->pool->who.c_str(),
                           static_cast<int>(count)));
  }
  return 1;
}

// pool:grow(setup): another worker; false when the system has no room for its thread.
int pool_grow(lua_State* L) {
  PoolBox& box = box_at(L);
  Message setup = write_message(L, 2, kSetup);
  const size_t before = box.pool->workers.size();
  start_pool(box.pool, 1);
  const std::lock_guard lock(box.pool->mutex);
  const bool more = box.pool->workers.size() > before;
  if (more) {
    Worker& w = *box.pool->workers.back();
    w.tasks.emplace_back();
    w.tasks.back().message = std::move(setup);
    w.wake.notify_all();
  }
  lua_pushboolean(L, more);
  return 1;
}

// pool:fork(worker, number, value): sends it in this thread's modes; the tensors in it whose
// gradients come back.
int pool_fork(lua_State* L) {
  WorkerPool& pool = *box_at(L).pool;
  Worker& worker = worker_at(L, pool, 2);
  lua_settop(L, 4);
  lua_newtable(L);
  Parcel task;
  task.number = check_integer(L, 3, "_worker_pool");
  task.worker = worker.id;
  task.message = write_message(L, 4, kFork, {.list = 5});
  task.forked = true;
  task.grad = mode.grad;
  task.inference = mode.inference;
  task.region = amp::current();
  const std::lock_guard lock(pool.mutex);
  worker.tasks.push_back(std::move(task));
  worker.wake.notify_all();
  return 1;
}

// pool:send(worker, number, value)
int pool_send(lua_State* L) {
  WorkerPool& pool = *box_at(L).pool;
  Worker& worker = worker_at(L, pool, 2);
  Parcel task;
  task.number = check_integer(L, 3, "_worker_pool");
  task.worker = worker.id;
  task.message = write_message(L, 4, kBatch);
  const std::lock_guard lock(pool.mutex);
  worker.tasks.push_back(std::move(task));
  worker.wake.notify_all();
  return 0;
}

// pool:receive(seconds): the number, the worker and the value of a result; nothing when none came.
// A worker that ended is an error.
int pool_receive(lua_State* L) {
  WorkerPool& pool = *box_at(L).pool;
  const double seconds = check_seconds(L, 2, "_worker_pool");
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  constexpr auto kSlice = milliseconds(20);  // within which Ctrl-C is seen
  Parcel result;
  for (;;) {
    check_interrupt();
    std::unique_lock lock(pool.mutex);
    TYCHO_CHECK(Kind::Value, !pool.over, "%s: the workers were stopped", pool.who.c_str());
    if (std::exchange(pool.interrupted, false)) {
      lock.unlock();
      interrupt_lua();
      continue;
    }
    if (!pool.results.empty()) {
      result = std::move(pool.results.front());
      pool.results.pop_front();
      break;
    }
    for (const auto& w : pool.workers)
      if (w->ended)
        fail(Kind::Value, format("%s: worker %d ended: %s", pool.who.c_str(), w->id,
                                 w->failure.empty() ? "it was stopped" : w->failure.c_str()));
    const auto now = Clock::now();
    if (now >= until) return 0;
    pool.arrived.wait_for(lock, std::min<Clock::duration>(kSlice, until - now));
  }
  lua_pushinteger(L, result.number);
  lua_pushinteger(L, result.worker);
  lua_newtable(L);
  read_message(L, result.message, Trust::All, {.list = lua_gettop(L)});
  lua_insert(L, -2);
  return 4;  // and the tensors in it through which gradients flow
}

// pool:where(worker): the item that it is loading (0: none) and where its code is, when it answers.
int pool_where(lua_State* L) {
  WorkerPool& pool = *box_at(L).pool;
  Worker& worker = worker_at(L, pool, 2);
  std::string place;
  {
    std::unique_lock lock(pool.mutex);
    worker.place.clear();
    if (!worker.ended && !pool.over) {
      ask_for_place(worker);
      pool.arrived.wait_for(lock, milliseconds(300), [&] { return !worker.place.empty(); });
    }
    place = worker.place;
  }
  lua_pushinteger(L, worker.item.load(std::memory_order_relaxed));
  lua_pushlstring(L, place.data(), place.size());
  return 2;
}

// What was asked for and not begun, or made and not taken, is dropped.
void clear(WorkerPool& pool) {
  const std::lock_guard lock(pool.mutex);
  for (const auto& w : pool.workers)
    std::erase_if(w->tasks, [](const Parcel& task) { return task.number > 0; });
  pool.results.clear();
}

int pool_clear(lua_State* L) {
  clear(*box_at(L).pool);
  return 0;
}
int pool_stop(lua_State* L) {
  stop_pool(*box_at(L).pool);
  return 0;
}
int pool_is_over(lua_State* L) {
  WorkerPool& pool = *box_at(L).pool;
  const std::lock_guard lock(pool.mutex);
  lua_pushboolean(L, pool.over);
  return 1;
}
int pool_gc(lua_State* L) {
  auto* box = static_cast<PoolBox*>(luaL_testudata(L, 1, kPool));
  if (!box) return 0;
  if (box->pool) stop_pool(*box->pool);
  box->~PoolBox();
  new (box) PoolBox;
  return 0;
}

}  // namespace

// The loop is left: with an error or Ctrl-C all end, with break those end that no later loop needs.
int close_workers(lua_State* L) {
  auto* box = static_cast<PoolBox*>(luaL_testudata(L, 1, kPool));
  if (!box || !box->pool) return 0;
  if (box->forks && lua_isnoneornil(L, 2)) return 0;
  if (box->keeps && lua_isnoneornil(L, 2))
    clear(*box->pool);
  else
    stop_pool(*box->pool);
  return 0;
}

void open_workers(lua_State* L, int torch) {
  lua_getglobal(L, "require");
  lua_setfield(L, LUA_REGISTRYINDEX, "tycho.require");
  static const luaL_Reg methods[] = {{"send", guarded<pool_send>},
                                     {"grow", guarded<pool_grow>},
                                     {"fork", guarded<pool_fork>},
                                     {"receive", guarded<pool_receive>},
                                     {"where", guarded<pool_where>},
                                     {"clear", guarded<pool_clear>},
                                     {"stop", guarded<pool_stop>},
                                     {"is_over", guarded<pool_is_over>},
                                     {"__gc", pool_gc},
                                     {"__close", close_workers},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kPool);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "workers of a DataLoader");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  lua_pushcfunction(L, guarded<new_pool>);
  lua_setfield(L, torch, "_worker_pool");
}

}  // namespace tycho::lua
