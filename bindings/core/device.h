// Devices as Lua values: torch.device makes those that are not there, too; and torch.cuda.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// torch.device("cuda"), without a number: whichever is the current one when it is used. Only values of
// the language are this; to_device gives the one that is meant.
inline constexpr Device kCurrentCuda{127};

// As to_device, but the device need not exist, and may be kCurrentCuda: to name it, to save it, to ask for its type.
bool to_device_value(lua_State* L, int i, Device* out);
// torch.set_default_device: where what a script makes lies, unless it says where. Each thread's has its
// own; none at first.
struct DefaultDevice {
  bool set = false;
  Device device;  // may be kCurrentCuda
};
extern constinit thread_local DefaultDevice default_device;
// Does the call that runs now take it? The language's own half says where its tensors belong.
bool takes_default_device(lua_State* L, Device* out);
// As largest_holders, of one device's memory.
std::string largest_holders_on(lua_State* L, Device device);
// torch.cuda: counts and names of devices, which of them "cuda" means, waiting for them.
void open_cuda(lua_State* L, int torch);

}  // namespace tycho::lua
