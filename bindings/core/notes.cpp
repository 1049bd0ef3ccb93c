// Notes from the engine on their way to the catalogue of texts (torch/notes.lua), and what the
// notes that are found in Lua ask the engine.
#include "engine/watch/notes.h"

#include <chrono>
#include <unordered_set>

#include "bindings/core/notes.h"
#include "bindings/tools/check.h"
#include "engine/grad/passes.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/trace.h"

namespace tycho::lua {
namespace {

// Notes that were said, or are switched off, by code and place: most are offered in every turn of
// a loop.
std::unordered_set<uint64_t>& done_notes() {
  static thread_local std::unordered_set<uint64_t> set;
  return set;
}
uint64_t key_of(const char* code, Where where) {
  uint64_t h = static_cast<uint64_t>(where.source) << 32 | static_cast<uint32_t>(where.line);
  for (const char* p = code; *p; ++p) h = h * 1099511628211u + static_cast<unsigned char>(*p);
  return h;
}

bool is_done(const char* code, Where where) { return done_notes().count(key_of(code, where)) > 0; }

bool push_function(lua_State* L, const char* name) { return push_note_function(L, name); }

void print_note(const char* code, const char* form, Where where,
                std::initializer_list<watch::NoteValue> values) {
  lua_State* L = running;
  const int top = L ? lua_gettop(L) : 0;
  if (!push_function(L, "from_engine")) return;
  lua_pushstring(L, code);
  lua_pushstring(L, form);
  lua_createtable(L, 0, static_cast<int>(values.size()));
  for (const watch::NoteValue& v : values) {
    lua_pushlstring(L, v.value.data(), v.value.size());
    lua_setfield(L, -2, v.name);
  }
  if (where.source) {
    lua_pushstring(L, source_name(where.source).c_str());
    lua_pushinteger(L, where.line);
  } else {
    lua_pushnil(L);
    lua_pushnil(L);
  }
  lua_call(L, 5, 1);
  if (lua_toboolean(L, -1)) {
    if (done_notes().size() > 100000) done_notes().clear();
    done_notes().insert(key_of(code, where));
  }
  lua_settop(L, top);
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// --- item() in loops ---
// Counted by line, where each call waits for a device or picks one of many elements.
void count_items(const Tensor& x) {
  struct Line {
    Where where;
    int count;
    double began;
  };
  constexpr int kMany = 1000;
  static thread_local Line lines[16];
  const bool device = !x.device().is_cpu();
  if (!device && !(x->base && x->base->numel > kMany)) return;
  const Where where = here();
  Line& l = lines[(static_cast<uint32_t>(where.line) ^ where.source * 5) % 16];
  if (l.where.source != where.source || l.where.line != where.line) l = {where, 0, 0};
  if (++l.count == 1) l.began = seconds();
  if (l.count <= kMany) return;
  // A training step of milliseconds may well read its loss.
  if (l.count == kMany + 1 && seconds() - l.began > 2) {
    l.count = 0;
    return;
  }
  if (!watch::wants_note("SYNC", where)) return;
  watch::show_note("SYNC", device ? "device" : "element", where,
                   {{"count", std::to_string(l.count)}, {"device", device_name(x.device())}});
}

// --- Layers in training mode under no_grad ---
// That may be meant (a generator's samples, statistics): so the note waits until a number is read,
// and a backward pass before that cancels it.
struct {
  bool pending = false, said = false;
  std::string layer;
  Where where;
} thread_local training;

// _training(layer): a dropout or batch norm layer runs in training mode.
int note_layer(lua_State* L) {
  const char* name = lua_tostring(L, 1);
  TYCHO_CHECK(Kind::Argument, name, "_training: wants the layer's name");
  if (mode.grad || mode.sweeping || shapes_only || training.pending || training.said) return 0;
  training.pending = true;
  training.layer = name;
  training.where = here();
  if (push_function(L, "from_engine")) lua_pop(L, 1);  // it says the note at the end, at the latest
  return 0;
}

int flush_training(lua_State* L) {
  training_note(L);
  return 0;
}

int forget(lua_State*) {
  done_notes().clear();
  return 0;
}

// _use_gradient(g): an optimiser takes its step with g; the number of passes it sums when that is
// likely a mistake.
int use_gradient(lua_State* L) {
  const Tensor g = check_tensor(L, 1, "step");
  lua_pushinteger(L, grad::use_gradient(*g->storage));
  return 1;
}

int passes(lua_State* L) {
  const Tensor g = check_tensor(L, 1, "_passes");
  lua_pushinteger(L, grad::passes_of(*g->storage).count);
  return 1;
}

// _class_losses(offers): how many losses over classes were computed while training, and the classes
// of the last; the next `offers` of them are told to torch.notes.
int class_losses(lua_State* L) {
  if (!lua_isnoneornil(L, 1))
    watch::class_losses.offers = static_cast<int>(check_integer(L, 1, "_class_losses"));
  lua_pushinteger(L, watch::class_losses.count);
  lua_pushinteger(L, watch::class_losses.classes);
  return 2;
}

// _cut(x): why x has no graph, as far as known: "mul at train.lua:8 ran inside no_grad".
int cut(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "_cut");
  const std::string text = watch::cut_text(x.get());
  if (text.empty()) return 0;
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

}  // namespace

bool push_note_function(lua_State* L, const char* name) {
  if (!L || !lua_checkstack(L, 12)) return false;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "torch.notes");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  return true;
}

void training_note(lua_State*) {
  if (!training.pending) [[likely]]
    return;
  training.pending = false;
  training.said = true;
  if (watch::wants_note("MODE", training.where))
    print_note("MODE", "layer", training.where,
               {{"layer", training.layer}, {"at", at(training.where)}});
}

void number_read(lua_State* L, const Tensor& x) {
  training_note(L);
  count_items(x);
}

void sweep_begins(lua_State* L, const Tensor& loss) {
  training.pending = false;
  look_at_loss(L, loss);
}

// The hint where a change in place stopped a sweep: the user's statement without the change.
std::string rewritten_change(lua_State* L, const std::string& otherwise) {
  const int top = lua_gettop(L);
  const watch::Blame& b = watch::last_blame;
  if (!push_function(L, "change_fix")) return otherwise;
  lua_pushstring(L, source_name(b.changed_at.source).c_str());
  lua_pushinteger(L, b.changed_at.line);
  lua_pushstring(L, b.changed_by.c_str());
  lua_call(L, 3, 1);
  const std::string hint = lua_isstring(L, -1) ? lua_tostring(L, -1) : otherwise;
  lua_settop(L, top);
  return hint;
}

void open_notes(lua_State* L, int torch) {
  open_nan(L, torch);
  if (!watch::note_is_done) {  // by the first state, before other threads have theirs
    watch::show_note = print_note;
    watch::note_is_done = is_done;
  }
  static const luaL_Reg functions[] = {{"_forget_notes", forget},
                                       {"_use_gradient", guarded<use_gradient>},
                                       {"_passes", guarded<passes>},
                                       {"_cut", guarded<cut>},
                                       {"_class_losses", guarded<class_losses>},
                                       {"_training", guarded<note_layer>},
                                       {"_flush_notes", guarded<flush_training>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
