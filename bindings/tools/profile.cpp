// Measuring code for the prompt: the operations inside a call with their time, bytes and
// arithmetic, and the time of many runs. Ctrl-C ends what is measured, not the report.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "bindings/tools/check.h"
#include "bindings/tools/tools.h"
#include "engine/amp/autocast.h"
#include "engine/base/where.h"
#include "engine/ops/elementwise/row_program.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/observer.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void set_number(lua_State* L, const char* key, double x) {
  lua_pushnumber(L, x);
  lua_setfield(L, -2, key);
}

bool is_stop(lua_State* L, int i) {
  if (lua_type(L, i) != LUA_TTABLE) return false;
  i = lua_absindex(L, i);
  lua_pushliteral(L, "kind");
  lua_rawget(L, i);
  const bool yes = lua_type(L, -1) == LUA_TSTRING && !std::strcmp(lua_tostring(L, -1), "interrupt");
  lua_pop(L, 1);
  return yes;
}

int with_traceback(lua_State* L) {
  lua_settop(L, 1);
  lua_createtable(L, 2, 0);
  lua_insert(L, 1);
  lua_rawseti(L, 1, 1);
  luaL_traceback(L, L, nullptr, 1);
  lua_rawseti(L, 1, 2);
  return 1;
}

enum class End { Ok, Failed, Stopped };

// Calls what lies below `arguments` values. A failure leaves the error and its traceback; Ctrl-C
// arrives here, and what was changed by scopes that it left is put back.
End attempt(lua_State* L, int arguments) {
  const int base = lua_gettop(L) - arguments;
  const bool grad = mode.grad, inference = mode.inference;
  const amp::Region region = amp::current();
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, base);
  const int status = lua_pcall(L, arguments, LUA_MULTRET, base);
  lua_remove(L, base);
  if (status == LUA_OK) return End::Ok;
  if (status == LUA_ERRRUN && lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 2);
    lua_rawgeti(L, -2, 1);
    lua_remove(L, -3);
    lua_insert(L, -2);
  } else {
    lua_pushliteral(L, "");  // no memory, or an error while the error was handled
  }
  if (!is_stop(L, -2)) return End::Failed;
  end_interrupt(L);
  mode.grad = grad;
  mode.inference = inference;
  amp::set(region);
  modes_changed(L);
  return End::Stopped;
}

// Bytes that an operation moves for one tensor; a dimension that is only stretched is read once.
double bytes_of(const Impl* t) {
  double n = static_cast<double>(dtype_size(t->dtype));
  for (int d = 0; d < t->rank; ++d)
    if (t->stride[d] != 0 || t->shape[d] == 0) n *= static_cast<double>(t->shape[d]);
  return n;
}

struct OpRow {
  int64_t calls = 0;
  double seconds = 0, bytes = 0, flops = 0;
};
struct LineRow {
  int64_t calls = 0;
  double seconds = 0, lua = 0;  // inside operations, and between them
};
using LineKey = std::pair<uint32_t, int32_t>;

// Sees the outermost operations, and of compositions also those inside: their work is that of their
// parts.
class Gatherer : public Observer {
 public:
  void before(const Call& c) override {
    row_ = &rows_[public_name(*c.op)];
    in_programs_ = 0;
    if (is_composition(c)) mode.observer = &inside_;
  }
  void after(const Call& c, double seconds) override {
    seconds = std::max(0.0, seconds - in_programs_);
    if (!is_composition(c)) add_work(c, row_);
    ++row_->calls;
    row_->seconds += seconds;
    in_ops_ += seconds;
    const Where where = current_where ? current_where() : Where{};
    LineRow& line = lines_[{where.source, where.line}];
    ++line.calls;
    line.seconds += seconds;
  }

  // Rows that ran as one have a line of their own in the table, after their names; one alone is its
  // operation's. Their lines share the time alike.
  bool lets_hold() const override { return true; }
  void ran(const RowProgram& p, std::span<const Where> lines, double seconds) override {
    OpRow& row = rows_[name_of(p)];
    if (p.steps + p.ends != 1) ++row.calls;
    row.seconds += seconds;
    in_ops_ += seconds;
    in_programs_ += seconds;
    devices_ |= bit_of(p.device);
    for (int i = 0; i < p.inputs; ++i)
      row.bytes += static_cast<double>(p.input[i].count * dtype_size(p.input[i].dtype));
    for (int k = 0; k < p.steps; ++k) {
      if (p.step[k].to) row.bytes += static_cast<double>(p.numel * dtype_size(p.step[k].type));
      lines_[{lines[k].source, lines[k].line}].seconds += seconds / p.steps;
    }
    row.flops += static_cast<double>(p.numel) * p.steps;
  }

  // Time in Lua code since the last look goes to the line that runs now.
  void sample(lua_State* L) {
    lua_Debug ar;
    for (int level = 0; level < 12 && lua_getstack(L, level, &ar); ++level) {
      lua_getinfo(L, "Sl", &ar);
      if (ar.currentline <= 0 || !std::strncmp(ar.source, "=torch/", 7) ||
          !std::strncmp(ar.source, "=shell/", 7))
        continue;
      const double now = seconds_since(began_);
      const double gap = now - looked_ - (in_ops_ - ops_then_);
      if (gap > 0) lines_[{intern_source(ar.short_src), ar.currentline}].lua += gap;
      looked_ = now;
      ops_then_ = in_ops_;
      return;
    }
  }

  void push(lua_State* L) {
    OpRow all;
    lua_createtable(L, static_cast<int>(rows_.size()), 0);
    int n = 0;
    for (const auto& [name, row] : rows_) {
      all.bytes += row.bytes;
      all.flops += row.flops;
      if (row.calls == 0) continue;
      lua_createtable(L, 0, 5);
      set_text(L, "name", name);
      set_integer(L, "calls", row.calls);
      set_number(L, "seconds", row.seconds);
      set_number(L, "bytes", row.bytes);
      set_number(L, "flops", row.flops);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "ops");
    lua_createtable(L, static_cast<int>(lines_.size()), 0);
    n = 0;
    for (const auto& [where, row] : lines_) {
      lua_createtable(L, 0, 5);
      set_text(L, "source", where.first ? source_name(where.first) : "");
      set_integer(L, "line", where.second);
      set_integer(L, "calls", row.calls);
      set_number(L, "seconds", row.seconds);
      set_number(L, "lua", row.lua);
      lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "lines");
    lua_newtable(L);
    for (int d = 0, all_devices = 0; d < 32; ++d)
      if (devices_ >> d & 1) {
        lua_pushstring(L, d ? format("cuda:%d", d - 1).c_str() : "cpu");
        lua_rawseti(L, -2, ++all_devices);
      }
    lua_setfield(L, -2, "devices");
    set_number(L, "bytes", all.bytes);
    set_number(L, "flops", all.flops);
    set_number(L, "in_ops", in_ops_);
  }

 private:
  struct Inside : Observer {
    explicit Inside(Gatherer* g) : gatherer(g) {}
    void before(const Call& c) override {
      if (is_composition(c)) mode.observer = this;
    }
    void after(const Call& c, double) override {
      if (!is_composition(c)) gatherer->add_work(c, gatherer->row_);
    }
    bool lets_hold() const override { return true; }
    Gatherer* gatherer;
  };

  static bool is_composition(const Call& c) { return c.op->is_composition(); }
  static uint32_t bit_of(Device d) { return d.is_cpu() ? 1u : 2u << d.number; }

  static std::string name_of(const RowProgram& p) {
    constexpr int kNames = 4;
    std::string name;
    for (int k = 0; k < std::min(p.steps, kNames); ++k)
      name += (k ? " + " : "") + public_name(row_op(static_cast<Row>(p.step[k].row)));
    if (p.steps > kNames) name += format(" + %d more", p.steps - kNames);
    return p.ends ? name + ", reduced" : name;
  }

  void add_work(const Call& c, OpRow* row) {
    if (c.op->view || shapes_only) return;
    // Rows that are held back, and what ends them, bring their work when they run.
    if (rows_held && !c.out.empty() && c.out[0]->storage->in_flight) return;
    bool reads = false;
    const auto read = [&](const Impl* t) {
      if (!t) return;
      devices_ |= bit_of(t->device);
      row->bytes += bytes_of(t);
      reads = true;
    };
    for (int i = 0; i < c.n; ++i) {
      if (c.arg[i].tag == Tag::Tensor) read(c.arg[i].t);
      if (c.arg[i].tag == Tag::Tensors)
        for (uint32_t k = 0; k < c.arg[i].n; ++k) read(c.arg[i].tensors[k]);
    }
    double results = 0;
    for (const Tensor& t : c.out) {
      devices_ |= bit_of(t.device());
      row->bytes += bytes_of(t.get());
      results += static_cast<double>(t.numel());
    }
    if (c.op->flops)
      row->flops += c.out.empty() ? 0 : c.op->flops(c);
    else if (reads)
      row->flops += results;
  }

  Inside inside_{this};
  OpRow* row_ = nullptr;  // of the outermost operation
  uint32_t devices_ = 0;  // the CPU is bit 0
  double in_ops_ = 0, looked_ = 0, ops_then_ = 0;
  double in_programs_ = 0;  // of rows that ran as one during this call
  Clock::time_point began_ = Clock::now();
  std::map<std::string, OpRow> rows_;
  std::map<LineKey, LineRow> lines_;
};

thread_local Gatherer* sampling = nullptr;
constexpr int kSampleEvery = 1000;  // Lua instructions

void sample_hook(lua_State* L, lua_Debug*) {
  if (sampling)
    sampling->sample(L);
  else
    drop_hook(L);  // a coroutine made while it was measured
}

// The gatherer observes while it lives.
class Watch {
 public:
  Watch(lua_State* L, Gatherer* gatherer, bool sample)
      : L_(L),
        hook_(lua_gethook(L)),
        mask_(lua_gethookmask(L)),
        count_(lua_gethookcount(L)),
        observer_(std::exchange(mode.observer, gatherer)),
        programs_(std::exchange(program_observer, gatherer)),
        sampling_(std::exchange(sampling, sample ? gatherer : nullptr)) {
    if (sample) lua_sethook(L, sample_hook, LUA_MASKCOUNT, kSampleEvery);
  }
  ~Watch() {
    if (lua_gethook(L_) == sample_hook) lua_sethook(L_, hook_, mask_, count_);
    sampling = sampling_;
    mode.observer = observer_;
    program_observer = programs_;
  }
  Watch(const Watch&) = delete;

 private:
  lua_State* L_;
  lua_Hook hook_;
  int mask_, count_;
  Observer *observer_, *programs_;
  Gatherer* sampling_;
};

void set_end(lua_State* L, int table, End end, int first) {
  table = lua_absindex(L, table);
  lua_pushboolean(L, end == End::Ok);
  lua_setfield(L, table, "ok");
  lua_pushboolean(L, end == End::Stopped);
  lua_setfield(L, table, "stopped");
  if (end != End::Ok) {
    lua_pushvalue(L, -2);
    lua_setfield(L, table, "error");
    lua_pushvalue(L, -1);
    lua_setfield(L, table, "traceback");
    lua_pop(L, 2);
    return;
  }
  const int n = lua_gettop(L) - first + 1;
  lua_createtable(L, n, 1);
  lua_insert(L, first);
  for (int i = n; i >= 1; --i) lua_rawseti(L, first, i);
  set_integer(L, "n", n);
  lua_setfield(L, table, "results");
}

}  // namespace

int lua_attempt(lua_State* L) {
  check_function(L, 1, "_attempt");
  const End end = attempt(L, lua_gettop(L) - 1);
  if (end == End::Ok) {
    lua_pushboolean(L, true);
    lua_insert(L, 1);
    return lua_gettop(L);
  }
  lua_pushboolean(L, false);
  lua_insert(L, -3);
  lua_pushboolean(L, end == End::Stopped);
  return 4;
}

int lua_observe(lua_State* L) {
  check_function(L, 1, "_observe");
  const bool sample = lua_toboolean(L, 2);
  lua_settop(L, 1);
  lua_newtable(L);
  lua_insert(L, 1);
  Gatherer gatherer;
  End end;
  double took;
  run_held_rows();  // they are not the function's
  {
    const Watch watch(L, &gatherer, sample);
    const auto began = Clock::now();
    end = attempt(L, 0);
    run_held_rows();
    took = seconds_since(began);
  }
  set_end(L, 1, end, 2);
  lua_settop(L, 1);
  set_number(L, "seconds", took);
  gatherer.push(L);
  return 1;
}

int lua_measure(lua_State* L) {
  check_function(L, 1, "_measure");
  const double limit = lua_isnoneornil(L, 2) ? 1.0 : check_number(L, 2, "_measure");
  if (!lua_isnoneornil(L, 3)) check_function(L, 3, "_measure");
  lua_settop(L, 3);  // the function, the limit, what waits for the devices or nil
  const bool devices = !lua_isnil(L, 3);
  const Watch unseen(L, nullptr, false);
  End end = End::Ok;
  double host = 0, device = 0;
  // One sample: `runs` calls, then waiting for the devices.
  const auto run = [&](int64_t runs) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < runs && end == End::Ok; ++i) {
      lua_pushvalue(L, 1);
      end = attempt(L, 0);
      if (end == End::Ok) lua_settop(L, 3);
    }
    host = seconds_since(began);
    if (devices && end == End::Ok) {
      lua_pushvalue(L, 3);
      end = attempt(L, 0);
      if (end == End::Ok) lua_settop(L, 3);
    }
    device = seconds_since(began);
  };
  // The first call pays for pages and caches; short ones are run until they are warm.
  constexpr double kWarm = 0.1, kShortest = 20e-6;
  run(1);
  double first = device, spent = device;
  for (int i = 0; i < 1000 && spent < kWarm && end == End::Ok; ++i) {
    run(1);
    first = std::min(first, device);
    spent += device;
  }
  const int64_t runs = first < kShortest
                           ? std::max<int64_t>(1, static_cast<int64_t>(kShortest / (first + 1e-9)))
                           : 1;
  std::vector<double> times;
  double hosts = 0;
  constexpr size_t kFewest = 3;
  for (spent = 0; end == End::Ok && (spent < limit || times.size() < kFewest);) {
    if (times.size() >= 1 && spent > 10 * limit) break;
    run(runs);
    if (end != End::Ok) break;
    times.push_back(device / static_cast<double>(runs));
    hosts += host / static_cast<double>(runs);
    spent += device;
  }
  lua_newtable(L);
  lua_insert(L, 4);
  const bool gathered = !times.empty();
  set_end(L, 4, end, 5);
  lua_settop(L, 4);
  std::sort(times.begin(), times.end());
  if (gathered) {
    const auto at = [&](double part) {
      return times[std::min(times.size() - 1,
                            static_cast<size_t>(part * static_cast<double>(times.size())))];
    };
    set_number(L, "median", at(0.5));
    set_number(L, "low", at(0.1));
    set_number(L, "high", at(0.9));
    set_number(L, "host", hosts / static_cast<double>(times.size()));
    set_integer(L, "runs", static_cast<int64_t>(times.size()) * runs);
  }
  return 1;
}

}  // namespace tycho::lua
