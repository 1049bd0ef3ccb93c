// What `tycho doctor` asks: processor, libraries, modules and devices of this machine, as rows.
#include "engine/cuda/doctor.h"

#include "bindings/devices/devices.h"
#include "engine/base/module.h"
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/cpu/library/trust.h"
#include "engine/cpu/matmul/tiles.h"
#include "engine/tensor/backend.h"

namespace tycho::lua {
namespace {

using cuda::DoctorRow;

DoctorRow module_row(const char* name, const char* module) {
  std::string why;
  if (open_module(module, &why)) return {name, "there", ""};
  const size_t fix = why.find("; install it: ");
  return {name, why.substr(0, fix), fix == std::string::npos ? "" : why.substr(fix + 14)};
}

// _doctor(): a list of {name, found, mend or nil}. Opens every library and starts the driver.
int doctor(lua_State* L) {
  std::vector<DoctorRow> rows{
      {"processor",
       format("kernels for %s (it has %s), %d threads", cpu::level_name(cpu::level()),
              cpu::cpu_features(), get_num_threads()),
       ""},
      {"AMX tiles", cpu::tiles() ? "in use for products of bfloat16" : cpu::why_no_tiles(), ""},
      {"oneDNN", cpu::onednn_in_use(), ""},
      module_row("Gloo", "gloo"),
      module_row("MPI", "mpi"),
      module_row("Jupyter", "jupyter"),
  };
  std::string why;
  using Examine = void (*)(std::vector<DoctorRow>*);
  if (const auto examine =
          reinterpret_cast<Examine>(module_symbol("cuda", "tycho_cuda_doctor", &why))) {
    std::vector<DoctorRow> more;
    examine(&more);
    rows.insert(rows.end(), more.begin(), more.end());
  } else {
    rows.push_back(
        {"GPU kernels", why,
         has_module("cuda") ? "" : "build it where CUDA's compiler nvcc is (toolkit 12 or newer)"});
  }
  // Asking the devices themselves would raise for a GPU that is too old.
  const bool simulated =
      cuda_device_count() > 0 && tycho::detail::cuda_kernels != BackendKind::Cuda;
  rows.push_back({"simulated", simulated ? format("%d devices", cuda_device_count()) : "off",
                  simulated
                      ? ""
                      : "to try several devices on the CPU: TYCHO_SIMULATE_CUDA=2 tycho FILE.lua"});
  lua_createtable(L, static_cast<int>(rows.size()), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const DoctorRow& r = rows[i];
    lua_createtable(L, 3, 0);
    int k = 0;
    for (const std::string* text : {&r.name, &r.found, &r.mend}) {
      if (!text->empty()) {
        lua_pushlstring(L, text->data(), text->size());
        lua_rawseti(L, -2, ++k);
      }
    }
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

}  // namespace

void open_doctor(lua_State* L, int cuda) {
  lua_pushcfunction(L, guarded<doctor>);
  lua_setfield(L, cuda, "_doctor");
}

}  // namespace tycho::lua
