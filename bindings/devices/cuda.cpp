// torch.cuda's devices: how many there are, their names, which one "cuda" means.
#include <algorithm>
#include <atomic>
#include <set>
#include <string>

#include "bindings/core/device.h"
#include "bindings/devices/devices.h"
#include "bindings/tools/check.h"
#include "engine/base/module.h"
#include "engine/grad/node.h"
#include "engine/ops/linear/precision.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

int is_available(lua_State* L) {
  lua_pushboolean(L, cuda_device_count() > 0);
  return 1;
}
int device_count(lua_State* L) {
  lua_pushinteger(L, cuda_device_count());
  return 1;
}
std::atomic<int> simulated_by_call = -1;
int simulate(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_isinteger(L, 1), "cuda.simulate: wants a number of devices");
  simulate_cuda(lua_tointeger(L, 1));
  simulated_by_call = cuda_device_count();
  return 0;
}
// _simulated(): how many devices simulate() made, nil where nobody called it: processes that a script
// starts have as many.
int simulated(lua_State* L) {
  if (simulated_by_call < 0) return 0;
  lua_pushinteger(L, simulated_by_call);
  return 1;
}

// The device of an argument, a CUDA one; the current one when the argument is absent.
Device device_at(lua_State* L, int i, const char* what) {
  if (lua_isnoneornil(L, i)) return current_cuda_device();
  Device d;
  std::string room;
  TYCHO_CHECK(Kind::Argument, to_device(L, i, &d), "%s: wants a device, not %s", what,
              describe_value(L, i, &room));
  TYCHO_CHECK(Kind::Device, !d.is_cpu(), "%s: the CPU is no CUDA device", what);
  return d;
}

int get_device_name(lua_State* L) {
  const Device d = device_at(L, 1, "get_device_name");
  lua_pushstring(L, backend_of(d).info(d).name.c_str());
  return 1;
}
// _info(device): its compute capability, its multiprocessors, whether it is simulated.
int info(lua_State* L) {
  const Device d = device_at(L, 1, "get_device_properties");
  const DeviceInfo i = backend_of(d).info(d);
  lua_pushinteger(L, i.major);
  lua_pushinteger(L, i.minor);
  lua_pushinteger(L, i.multiprocessors);
  lua_pushboolean(L, i.simulated);
  return 4;
}
// _limits(device): bytes that the device may hold, bytes of it that nobody has taken.
int limits(lua_State* L) {
  const Device d = device_at(L, 1, "mem_get_info");
  const MemoryStats stats = backend_of(d).memory_stats(d);
  const int64_t total = backend_of(d).capacity(d);
  lua_pushinteger(L, total);
  lua_pushinteger(L, std::max<int64_t>(0, total - stats.live - stats.cached));
  lua_pushinteger(L, stats.allocations);
  return 3;
}
int set_limit(lua_State* L) {
  const Device d = device_at(L, 1, "set_per_process_memory_fraction");
  backend_of(d).set_capacity(d, check_integer(L, 2, "set_per_process_memory_fraction"));
  return 0;
}
// _ops_on_cpu(): a sorted list of the operations that have no kernel for GPUs and are not made of
// others; nil and a sentence where the program was built without the module. Starts no driver.
int ops_on_cpu(lua_State* L) {
  std::string why;
  if (!open_module("cuda", &why)) {
    lua_pushnil(L);
    lua_pushlstring(L, why.data(), why.size());
    return 2;
  }
  bind_kernels();
  std::set<std::string> names;
  for (const Op* op : all_ops())
    if (op->row < 0 && !op->kernel_on(BackendKind::Cuda) && !op->compose &&
        op->kernel_on(BackendKind::Cpu) && !op->same_as)
      names.insert(bare_name(op->name));
  lua_createtable(L, static_cast<int>(names.size()), 0);
  int i = 0;
  for (const std::string& name : names) {
    lua_pushlstring(L, name.data(), name.size());
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}
int current_device(lua_State* L) {
  lua_pushinteger(L, current_cuda_device().number);
  return 1;
}
int set_device(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, !lua_isnoneornil(L, 1), "set_device: wants a CUDA device");
  set_current_cuda_device(device_at(L, 1, "set_device"));
  return 0;
}
int synchronize(lua_State* L) {
  if (cuda_device_count() == 0) return 0;  // so that timing code runs everywhere
  const Device d = device_at(L, 1, "synchronize");
  run_held_rows();
  backend_of(d).synchronize(d);
  return 0;
}

// _finish(): waits for the devices in use, and raises what went wrong there and nobody has heard of.
int finish_all(lua_State*) {
  if (tycho::detail::device_count > 0) backend_of(Device{0}).finish_all();
  return 0;
}

// _matmul_precision(number?): how exact products of float32 are, from 0 (the most) to 2.
int lua_matmul_precision(lua_State* L) {
  if (!lua_isnoneornil(L, 1)) {
    const int64_t n = check_integer(L, 1, "set_float32_matmul_precision");
    matmul_precision = static_cast<MatmulPrecision>(std::clamp<int64_t>(n, 0, 2));
  }
  lua_pushinteger(L, static_cast<int>(matmul_precision.load()));
  return 1;
}
// _convolutions(name, value?): a setting of torch.backends.cudnn; what it says now.
int lua_convolutions(lua_State* L) {
  ConvolutionSettings& c = convolution_settings;
  const std::pair<std::string_view, std::atomic<bool>*> switches[] = {
      {"enabled", &c.enabled},
      {"benchmark", &c.benchmark},
      {"deterministic", &c.deterministic},
      {"allow_tf32", &c.allow_tf32}};
  const std::string_view name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  for (const auto& [known, on] : switches) {
    if (known != name) continue;
    if (!lua_isnoneornil(L, 2)) *on = lua_toboolean(L, 2);
    lua_pushboolean(L, *on);
    return 1;
  }
  TYCHO_CHECK(Kind::Argument, name == "benchmark_limit",
              "_convolutions: wants the name of a setting of torch.backends.cudnn");
  if (!lua_isnoneornil(L, 2)) {
    const int64_t limit = check_integer(L, 2, "torch.backends.cudnn.benchmark_limit");
    TYCHO_CHECK(
        Kind::Value, limit >= 0,
        "torch.backends.cudnn.benchmark_limit: wants a number of ways to time, or 0 for all, "
        "not %lld",
        static_cast<long long>(limit));
    c.benchmark_limit = limit;
  }
  lua_pushinteger(L, c.benchmark_limit);
  return 1;
}
// _cudnn_version(): 91900 for 9.19; nil where no device would use it.
int cudnn_version(lua_State* L) {
  std::string why;
  using Version = int64_t (*)();
  const bool real = cuda_device_count() > 0 && detail::cuda_kernels == BackendKind::Cuda;
  const auto ask =
      real ? reinterpret_cast<Version>(module_symbol("cuda", "tycho_cuda_cudnn_version", &why))
           : nullptr;
  const int64_t version = ask ? ask() : 0;
  if (version)
    lua_pushinteger(L, version);
  else
    lua_pushnil(L);
  return 1;
}

}  // namespace

void open_cuda(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {{"is_available", is_available},
                                       {"device_count", guarded<device_count>},
                                       {"simulate", guarded<simulate>},
                                       {"_simulated", guarded<simulated>},
                                       {"get_device_name", guarded<get_device_name>},
                                       {"current_device", guarded<current_device>},
                                       {"set_device", guarded<set_device>},
                                       {"synchronize", guarded<synchronize>},
                                       {"_finish", guarded<finish_all>},
                                       {"_info", guarded<info>},
                                       {"_limits", guarded<limits>},
                                       {"_set_limit", guarded<set_limit>},
                                       {"_ops_on_cpu", guarded<ops_on_cpu>},
                                       {"_matmul_precision", guarded<lua_matmul_precision>},
                                       {"_convolutions", guarded<lua_convolutions>},
                                       {"_cudnn_version", guarded<cudnn_version>},
                                       {nullptr, nullptr}};
  luaL_newlib(L, functions);
  open_streams(L, lua_gettop(L));
  open_graphs(L, lua_gettop(L));
  open_doctor(L, lua_gettop(L));
  open_nvtx(L, lua_gettop(L));
  lua_setfield(L, torch, "cuda");
}

}  // namespace tycho::lua
