// Lua values on their way from one state to another's, in another thread, process or machine. They
// cross by value: tables with what hangs on them, each once however often it is named; functions by
// their code and the variables they use; what torch and Lua have under a name stays that name.
// Tensors share their memory with threads as it is and with processes through segments; in a
// message for another machine (encode) their bytes stand.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bindings/core/lua.h"
#include "engine/dist/segment.h"

namespace tycho::lua {

struct CodedTensor {
  Ref<Storage> storage;
  DType dtype;
  bool requires_grad, parameter;  // parameter: of a module, also when it is frozen
  bool attached;                  // its gradient goes on at the other side (GraphTensors)
  Sizes shape, stride;
  int64_t offset;
};

// An end of a connection to another process (processes/socket.h).
using Handle = std::shared_ptr<dist::Descriptor>;

struct Message {
  std::string bytes;
  std::vector<CodedTensor> tensors;
  std::vector<Handle> handles;
};

// What a message is about: what its errors say, and what may go with it.
struct Cargo {
  const char* who;      // begins the errors
  const char* root;     // what the value is called
  const char* part;     // what its parts by position are called; "": by their number
  const char* refusal;  // ends the errors: "which cannot go to a worker"
  const char* hint;     // and what to do about it
  const char* file_hint;
  const char* graph_hint;     // "": x = x:detach() of the tensor
  bool globals = false;       // those that the functions in it use cross with them
  bool code = true;           // functions cross at all
  bool plain_tables = false;  // tables without a metatable are looked up among the names only
                              // where a function uses them
  bool addresses = true;      // pointers mean the same on the other side
  bool handles = false;       // queues and pipes cross
};
extern const Cargo kSetup;    // a dataset and functions
extern const Cargo kBatch;    // what a worker made
extern const Cargo kProcess;  // what goes to another process of this program, and comes back
extern const Cargo kFork;     // a function and its arguments for another thread (torch.fork)
extern const Cargo kForked;   // what it gave
extern const Cargo kObject;   // data for other ranks: nothing that could run there

// The tensors of a message through which gradients flow: they become leaves on the other side. Who
// writes and who reads gets them as a list, in the same order, to tie the two graphs together.
struct GraphTensors {
  int list = 0;  // the table that takes them; 0: graphs stay here
  // Of those without a graph, only these count; null: all that require grad.
  const std::unordered_set<const Impl*>* leaves = nullptr;
};

// Raises Kind::Argument for what cannot cross, with the way to it: "dataset.reader.file".
Message write_message(lua_State* L, int value, const Cargo& cargo, GraphTensors graph = {});
// Pushes the value. Of a message that did not come from a thread of this process or its own
// parent or child, whatever bytes it has, only data is made: no code is loaded and no module, and
// what is damaged raises Kind::Value.
enum class Trust : bool { Data, All };
void read_message(lua_State* L, Message& message, Trust trust = Trust::All,
                  GraphTensors graph = {});

// The same as one string, tensors included, for another machine (Lua: torch._encode(value, who),
// torch._decode(text)). `who` begins the errors: "all_gather_object".
std::string encode(lua_State* L, int value, const char* who);
void decode(lua_State* L, std::string_view bytes);  // pushes the value
void open_codec(lua_State* L, int torch);

// The module of that name, also when a user has another `require`.
void push_module(lua_State* L, const char* name);

// Calls found(name) for every global that a dumped function (lua_dump, not stripped) or a function
// inside it reads or sets; `environment[i]`: its upvalue i is the table of globals. It reads Lua's
// own form of code: for where insides::knows_dumps() holds.
void find_globals(std::string_view dump, const std::vector<bool>& environment, void* context,
                  void (*found)(void* context, std::string_view name));

}  // namespace tycho::lua
