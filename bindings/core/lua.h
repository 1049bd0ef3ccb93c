// The engine seen from Lua: what the binding's files share. Lua is compiled as C++ (liblua5.4-c++),
// so its errors are exceptions and destructors run; engine errors are turned into Lua error objects
// in one place, `guarded`.
#pragma once
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <stdexcept>

#include "engine/ops/table/op.h"

namespace tycho::lua {

// --- state (memory.cpp) ---
// A new Lua state whose allocator frees tensors with their userdata (no __gc), paced by tensor
// bytes.
lua_State* new_state();
// Gives tensors' metatable a __gc where the allocator cannot recognise them (memory.cpp).
void set_tensor_gc(lua_State* L, int meta);
// The coroutine that is running now; set by every entry (enter).
extern constinit thread_local lua_State* running;
// The same, or null where the next entry has more to do than to compute (enter_slowly).
extern constinit thread_local lua_State* entered;
// Grows when the collector frees anything but tensors, such as compiled code.
extern constinit thread_local uint64_t code_epoch;
// To be called first by every function that computes: switches to the coroutine's modes.
inline void enter(lua_State* L);
void enter_slowly(lua_State* L);
void switch_modes(lua_State* L);
void modes_changed(lua_State* L);  // after changing tycho::mode or the autocast region
// Before a gradient is computed: what the script holds no more stands in nobody's way.
void collect_before_sweep(lua_State* L);
// After it: its graph is gone, and memory grows from less.
void look_from_here();
void pace_collector(lua_State* L);  // run the collector when tensors have grown enough
// A reference in the registry that may be dropped while the collector runs.
void drop_later(int ref);
void drop_refs(lua_State* L);

// --- coroutines and Ctrl-C (coroutine.cpp, interrupt.cpp) ---
struct Resumer {
  lua_State* L;  // waits for the coroutine that it resumed
  Resumer* outer;
};
extern constinit thread_local Resumer* resumers;
void open_coroutine(lua_State* L);
void interrupt_hook(lua_State* L, lua_Debug*);  // raises an error of kind interrupt
void arm_interrupt(lua_State* L);
void arm_all();                       // what runs, and all that wait for it
void drop_hook(lua_State* L);         // takes the hook off, but never that of a stop under way
void interrupt_lua();                 // from a signal handler, on the thread that runs Lua
void end_interrupt(lua_State* main);  // at the entry: the stop has arrived

inline void enter(lua_State* L) {
  if (L != entered) [[unlikely]]
    enter_slowly(L);
}

// --- errors (error.cpp) ---
using Function = int (*)(lua_State*);
int raise(lua_State* L, const Error& e);  // throws the error object; does not return
template <Function F>
int guarded(lua_State* L) {
  // The error is copied out, so that no C++ exception is in flight when Lua throws its own.
  try {
    enter(L);
    return F(L);
  } catch (const Error& e) {
    return raise(L, e);
  } catch (const std::bad_alloc&) {
    return raise(L, Error(Kind::Oom, "out of memory"));
  } catch (const std::length_error&) {  // a vector or string beyond what can be counted
    return raise(L, Error(Kind::Oom, "out of memory"));
  }
}
int raise_text(lua_State* L);  // torch._raise: `error` for the half written in Lua
void open_error(lua_State* L);
// The error on top of L's stack, which ended `failed`: an object where a wrong self made it
// (caught.cpp).
void explain_self(lua_State* L, lua_State* failed);
void open_caught(lua_State* L);
// Tables whose pairs come in an order (order.cpp): that of the list of keys on top of the stack,
// which is popped.
void keep_order(lua_State* L, int table);
void push_order(lua_State* L, int table);  // that list, or nil
int keep_order(lua_State* L);
void open_order(lua_State* L);

std::string largest_holders(lua_State* L);  // "cache 1.5 GB (12 tensors), x 4.0 MB" (holders.cpp)

// --- tensors (tensor.cpp) ---
struct Box {
  Impl* p;
  uint64_t tag;
};
extern uint64_t box_secret;
inline Impl* to_impl(lua_State* L, int i) {  // null when the value is no tensor
  Box* b = static_cast<Box*>(lua_touserdata(L, i));
  if (!b || lua_rawlen(L, i) != sizeof(Box)) return nullptr;
  return b->tag == (box_secret ^ reinterpret_cast<uint64_t>(b)) ? b->p : nullptr;
}
const Tensor& check_tensor(lua_State* L, int i, const char* what);
void push(lua_State* L, const Tensor& t);       // nil when undefined
void push_same(lua_State* L, const Tensor& t);  // the same Lua value each time (x.grad)
void keep_same(lua_State* L, int i);            // remember the value at i as that one
void open_tensor(lua_State* L);

// --- dtype, device, shape objects (objects.cpp) ---
void push_dtype(lua_State* L, DType t);
void push_device(lua_State* L, Device d);
void push_shape(lua_State* L, const int64_t* v, int n);
bool to_dtype(lua_State* L, int i, DType* out);  // object or name
// An object, a name or a number; raises for unknown names.
bool to_device(lua_State* L, int i, Device* out);
void open_objects(lua_State* L);

// --- the dispatcher (call.cpp) ---
// A Lua function for an op and its overloads.
void push_op(lua_State* L, const Op* first, bool inplace);
std::string public_name(const Op& op);
// Without the prefix of an op whose name means something else in torch itself: linalg_norm.
std::string name_in_namespace(const std::string& name);
void open_ops(lua_State* L, int torch);  // all ops into torch, its namespaces and the methods

// --- random streams (random.cpp) ---
DeviceGenerator* to_generator(lua_State* L, int i);  // null when the value is no torch.Generator
void open_random(lua_State* L, int torch);           // manual_seed, states, torch.Generator

// --- the rest ---
void push_methods(lua_State* L);                  // the table of tensor methods
int index_get(lua_State* L);                      // x[...]                       (index.cpp)
int index_set(lua_State* L);                      // x[...] = v
void open_index(lua_State* L, int torch);         // torch.ellipsis, torch.newaxis
void open_convert(lua_State* L, int torch);       // tensor(), item, tolist   (convert.cpp)
void open_autograd(lua_State* L, int torch);      // backward, hooks, modes   (autograd.cpp)
std::string show(const Tensor& t);                // tostring(x)              (show.cpp)
void open_io(lua_State* L, int torch);            // save, load, readers      (formats.cpp)
void open_stats(lua_State* L, int torch);         // memory_allocated         (stats.cpp)
void open_shapes_only(lua_State* L, int torch);   // _shapes_only, _stand_in, _lex, _chunks
void open_tools(lua_State* L, int torch);         // _attempt, _inspect, ...     (inspect.cpp)
void number_read(lua_State* L, const Tensor& x);  // item() gave a number     (notes.cpp)
void training_note(lua_State* L);                 // results of training mode are looked at
void sweep_begins(lua_State* L, const Tensor& loss);
std::string rewritten_change(lua_State* L, const std::string& otherwise);
void open_notes(lua_State* L, int torch);  // _use_gradient, _cut  (notes.cpp)
int lua_lex(lua_State* L);                 // _lex                     (lex.cpp)
int open_torch(lua_State* L);              // the module               (core/torch.cpp)
const char* describe_value(lua_State* L, int i, std::string* room);  // "a number", "float32 [2, 3]"

}  // namespace tycho::lua
