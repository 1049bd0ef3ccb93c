// The workers of a loader as a Lua value, torch._crew: what torch/utils/workers.lua sends to them,
// waits for, and asks of them.
#include <algorithm>
#include <chrono>
#include <utility>

#include "bindings/check.h"
#include "bindings/interrupt.h"
#include "bindings/worker.h"
#include "engine/base/interrupt.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const char kCrew[] = "tycho.crew";

struct CrewBox {
  std::shared_ptr<Crew> crew;
  bool keeps = false;  // its workers outlive a loop that is left
};

CrewBox& box_at(lua_State* L) {
  auto* box = static_cast<CrewBox*>(luaL_testudata(L, 1, kCrew));
  TYCHO_CHECK(Kind::Argument, box && box->crew, "_crew: wants a crew of workers");
  return *box;
}
Worker& worker_at(lua_State* L, Crew& crew, int i) {
  const lua_Integer id = check_integer(L, i, "_crew");
  TYCHO_CHECK(Kind::Argument, id >= 1 && id <= static_cast<lua_Integer>(crew.workers.size()),
              "_crew: there is no worker %lld", static_cast<long long>(id));
  return *crew.workers[static_cast<size_t>(id) - 1];
}

// _crew(count, keeps, setup): threads, each of which gets the setup as its first task.
int new_crew(lua_State* L) {
  const int64_t count = check_integer(L, 1, "_crew");
  TYCHO_CHECK(Kind::Value, count >= 1 && count <= 512, "_crew: wants 1 to 512 workers");
  const bool complete_setup = lua_istable(L, 3) && lua_getfield(L, 3, "seed") == LUA_TNUMBER;
  TYCHO_CHECK(Kind::Argument, complete_setup, "_crew: wants a worker's setup");
  const Message setup = write_message(L, 3, Cargo::Setup);
  auto* box = new (lua_newuserdatauv(L, sizeof(CrewBox), 0)) CrewBox;
  luaL_setmetatable(L, kCrew);
  box->keeps = lua_toboolean(L, 2);
  box->crew = std::make_shared<Crew>();
  start_crew(box->crew, static_cast<int>(count));
  bool complete;
  {
    const std::lock_guard lock(box->crew->mutex);
    complete = box->crew->workers.size() == static_cast<size_t>(count);
    for (const auto& w : box->crew->workers) {
      w->tasks.push_back({0, w->id, setup});
      w->wake.notify_all();
    }
  }
  if (!complete) {
    stop_crew(*box->crew);
    fail(Kind::Oom,
         format("DataLoader: the system has no room for %d threads more", static_cast<int>(count)));
  }
  return 1;
}

// crew:send(worker, number, value)
int crew_send(lua_State* L) {
  Crew& crew = *box_at(L).crew;
  Worker& worker = worker_at(L, crew, 2);
  Parcel task{check_integer(L, 3, "_crew"), worker.id, write_message(L, 4, Cargo::Batch)};
  const std::lock_guard lock(crew.mutex);
  worker.tasks.push_back(std::move(task));
  worker.wake.notify_all();
  return 0;
}

// crew:receive(seconds): the number, the worker and the value of a result; nothing when none came.
// A worker that ended is an error.
int crew_receive(lua_State* L) {
  Crew& crew = *box_at(L).crew;
  const double seconds = std::clamp(check_number(L, 2, "_crew"), 0.0, 1e9);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  constexpr auto kSlice = milliseconds(20);  // within which Ctrl-C is seen
  Parcel result;
  for (;;) {
    check_interrupt();
    std::unique_lock lock(crew.mutex);
    TYCHO_CHECK(Kind::Value, !crew.over, "DataLoader: the workers of this loop were stopped");
    if (std::exchange(crew.interrupted, false)) {
      lock.unlock();
      interrupt_lua();
      continue;
    }
    if (!crew.results.empty()) {
      result = std::move(crew.results.front());
      crew.results.pop_front();
      break;
    }
    for (const auto& w : crew.workers)
      if (w->ended)
        fail(Kind::Value, format("DataLoader: worker %d ended: %s", w->id,
                                 w->failure.empty() ? "it was stopped" : w->failure.c_str()));
    const auto now = Clock::now();
    if (now >= until) return 0;
    crew.arrived.wait_for(lock, std::min<Clock::duration>(kSlice, until - now));
  }
  lua_pushinteger(L, result.number);
  lua_pushinteger(L, result.worker);
  read_message(L, result.message);
  return 3;
}

// crew:where(worker): the item that it is loading (0: none) and where its code is, when it answers.
int crew_where(lua_State* L) {
  Crew& crew = *box_at(L).crew;
  Worker& worker = worker_at(L, crew, 2);
  std::string place;
  {
    std::unique_lock lock(crew.mutex);
    worker.place.clear();
    if (!worker.ended && !crew.over) {
      ask_for_place(worker);
      crew.arrived.wait_for(lock, milliseconds(300), [&] { return !worker.place.empty(); });
    }
    place = worker.place;
  }
  lua_pushinteger(L, worker.item.load(std::memory_order_relaxed));
  lua_pushlstring(L, place.data(), place.size());
  return 2;
}

// What was asked for and not begun, or made and not taken, is dropped.
void clear(Crew& crew) {
  const std::lock_guard lock(crew.mutex);
  for (const auto& w : crew.workers)
    std::erase_if(w->tasks, [](const Parcel& task) { return task.number > 0; });
  crew.results.clear();
}

int crew_clear(lua_State* L) {
  clear(*box_at(L).crew);
  return 0;
}
int crew_stop(lua_State* L) {
  stop_crew(*box_at(L).crew);
  return 0;
}
int crew_is_over(lua_State* L) {
  Crew& crew = *box_at(L).crew;
  const std::lock_guard lock(crew.mutex);
  lua_pushboolean(L, crew.over);
  return 1;
}
int crew_gc(lua_State* L) {
  auto* box = static_cast<CrewBox*>(luaL_testudata(L, 1, kCrew));
  if (!box) return 0;
  if (box->crew) stop_crew(*box->crew);
  box->~CrewBox();
  new (box) CrewBox;
  return 0;
}

}  // namespace

// The loop is left: with an error or Ctrl-C all end, with break those end that no later loop needs.
int close_workers(lua_State* L) {
  auto* box = static_cast<CrewBox*>(luaL_testudata(L, 1, kCrew));
  if (!box || !box->crew) return 0;
  if (box->keeps && lua_isnoneornil(L, 2))
    clear(*box->crew);
  else
    stop_crew(*box->crew);
  return 0;
}

void open_workers(lua_State* L, int torch) {
  lua_getglobal(L, "require");
  lua_setfield(L, LUA_REGISTRYINDEX, "tycho.require");
  static const luaL_Reg methods[] = {{"send", guarded<crew_send>},
                                     {"receive", guarded<crew_receive>},
                                     {"where", guarded<crew_where>},
                                     {"clear", guarded<crew_clear>},
                                     {"stop", guarded<crew_stop>},
                                     {"is_over", guarded<crew_is_over>},
                                     {"__gc", crew_gc},
                                     {"__close", close_workers},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kCrew);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "workers of a DataLoader");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  lua_pushcfunction(L, guarded<new_crew>);
  lua_setfield(L, torch, "_crew");
}

}  // namespace tycho::lua
