// PyTorch's files into Lua values: the zip format (data.pkl and one entry for each storage) and the
// single pickle of PyTorch before 1.6. Lists become tables from 1, dicts tables by their keys; None
// is nil in a dict and torch.none in a list. Tensors of one storage share it here too.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "bindings/core/device.h"
#include "bindings/files/files.h"
#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/pickle.h"
#include "engine/io/zip.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

using io::PickleKind;

// How a pickle of PyTorch before 1.6 begins, after its version.
constexpr std::string_view kLegacy("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);
constexpr size_t kAlign = 8;  // of any element
constexpr uint32_t kSmallTuple = 4, kLongText = 40;
constexpr uint64_t kLargePickle = uint64_t{16} << 20;

class Loader {
 public:
  Loader(lua_State* L, const io::Input& file, const LoadOptions& options)
      : L_(L), file_(file), path_(file.path()), options_(options) {}

  io::Pickle pickle;
  std::map<std::string, std::string_view> legacy;  // the bytes of storages by key
  std::map<std::string, const io::ZipEntry*> entries;
  bool swapped = false;  // the elements are big-endian

  void push_all() {
    for (const auto& t : pickle.tensors)
      if (t.dtype == DType::Bool) truths_.insert(pickle.storages[t.storage].key);
    tensors_.resize(pickle.tensors.size());
    busy_.resize(pickle.lists.size());
    lua_newtable(L_);
    made_ = lua_absindex(L_, -1);
    push(pickle.root, 0);
    lua_remove(L_, made_);
  }

 private:
  // A part of the file, or unpacked from it.
  Tensor bytes_of(const io::PickleStorage& s, bool map) {
    if (s.inside.data()) {
      Tensor t = empty(Sizes{static_cast<int64_t>(s.inside.size())}, DType::UInt8);
      std::memcpy(t.host(), s.inside.data(), s.inside.size());
      return t;
    }
    const std::string& key = s.key;
    if (const auto it = legacy.find(key); it != legacy.end())
      return file_.read(it->second, map ? kAlign : 0);
    const auto entry = entries.find(key);
    if (entry == entries.end())
      io::damaged(path_, "its storage " + key.substr(0, 60) + " is missing");
    const io::ZipEntry& e = *entry->second;
    if (map && e.method == 0) {
      const auto part = file_.bytes().substr(e.begin, e.size);
      if (file_.can_view(part, kAlign)) return file_.view(part);
    }
    Tensor t = empty(Sizes{static_cast<int64_t>(e.size)}, DType::UInt8);
    io::zip_read(file_, e, t.host());
    return t;
  }

  // All bytes of a storage as a tensor, made once for each key.
  const Tensor& storage(const io::PickleStorage& s) {
    const auto known = storages_.find(s.key);
    if (known != storages_.end()) return known->second;
    const bool truths = truths_.contains(s.key);
    const Tensor t = bytes_of(s, options_.mmap == 1 && !swapped && !truths);
    const int width = dtype_size(s.dtype);
    if (swapped && !s.inside.data()) io::swap_bytes(t.host(), width, t.numel() / width);
    if (truths)
      for (int64_t i = 0; i < t.numel(); ++i) t.host()[i] = t.host()[i] != 0;
    const Device device = options_.place(L_, s.device, t, path_);
    return storages_.emplace(s.key, moved_to(t, device)).first->second;
  }

  Device named_device(std::string_view name) const {
    try {
      return parse_device(name);
    } catch (const Error&) {
      fail(Kind::Io, path_ + " names the device \"" + std::string(name.substr(0, 40)) +
                         "\", which is not known here");
    }
  }

  const Tensor& tensor(size_t i) {
    if (tensors_[i]) return tensors_[i];
    const io::PickleTensor& t = pickle.tensors[i];
    const io::PickleStorage& s = pickle.storages[t.storage];
    const Tensor& base = storage(s);
    if (s.numel > base.numel() / dtype_size(s.dtype))
      io::damaged(
          path_, "its storage " + s.key.substr(0, 60) +
                     format(" has %lld bytes, fewer than its %lld elements need",
                            static_cast<long long>(base.numel()), static_cast<long long>(s.numel)));
    Tensor made = alias(base, t.shape, t.stride, t.offset);
    made->dtype = t.dtype;
    made->requires_grad = t.requires_grad && !made->is_inference;
    return tensors_[i] = made;
  }

  void push_parameter(const io::PickleNode& n) {
    const auto& parts = pickle.list(n);
    const Tensor& t = tensor(static_cast<size_t>(pickle[parts[0]].integer));
    luaL_getsubtable(L_, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L_, -1, "torch");
    lua_getfield(L_, -1, "nn");
    lua_getfield(L_, -1, "Parameter");
    push_same(L_, t);
    lua_pushboolean(L_, pickle[parts[1]].integer && is_floating(t.dtype()) && !t->is_inference);
    lua_call(L_, 2, 1);
    lua_replace(L_, -4);
    lua_pop(L_, 2);
  }

  bool small_tuple(const io::PickleNode& n) {
    if (n.kind != PickleKind::Tuple || pickle.list(n).size() > kSmallTuple) return false;
    for (const uint32_t i : pickle.list(n))
      if (pickle[i].kind >= PickleKind::List) return false;
    return true;
  }

  // A value that several places share is one table here too.
  void push_table(uint32_t i, int depth) {
    const io::PickleNode& n = pickle[i];
    if (lua_rawgeti(L_, made_, i) != LUA_TNIL) return;
    lua_pop(L_, 1);
    uint8_t& busy = busy_[static_cast<size_t>(n.integer)];
    if (busy || depth > kMostDepth)
      io::damaged(path_, format("its tables are nested deeper than %d levels, or hold themselves",
                                kMostDepth));
    busy = true;
    if (n.kind == PickleKind::Parameter) {
      push_parameter(n);
    } else {
      const auto& items = pickle.list(n);
      const int room = static_cast<int>(std::min<size_t>(items.size(), 1 << 24));
      lua_createtable(L_, n.kind == PickleKind::Dict ? 0 : room,
                      n.kind == PickleKind::Dict ? room / 2 : 0);
      if (n.kind == PickleKind::Dict) {
        lua_createtable(L_, room / 2, 0);  // its keys, in the file's order
        lua_insert(L_, -2);
        for (size_t k = 0; k < items.size(); k += 2) {
          push(items[k], depth + 1);
          lua_pushvalue(L_, -1);
          lua_rawseti(L_, -4, static_cast<lua_Integer>(k / 2 + 1));
          push(items[k + 1], depth + 1);
          if (pickle[items[k + 1]].kind == PickleKind::None) {
            lua_pop(L_, 1);
            lua_pushnil(L_);
          }
          lua_rawset(L_, -3);
        }
        if (is_list(L_, -1)) mark_dict(L_, -1);  // of numbers from 1: a dict again when saved
        lua_insert(L_, -2);
        keep_order(L_, -2);
      } else {
        for (size_t k = 0; k < items.size(); ++k) {
          push(items[k], depth + 1);
          lua_rawseti(L_, -2, static_cast<lua_Integer>(k + 1));
        }
      }
    }
    busy = false;
    // A short tuple of numbers cannot change in Python, so each place gets its own here.
    if (small_tuple(n)) return;
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, made_, i);
  }

  // A long text that several places share is one string.
  void push_text(uint32_t i, const io::PickleNode& n) {
    if (n.size > kLongText) {
      if (lua_rawgeti(L_, made_, i) != LUA_TNIL) return;
      lua_pop(L_, 1);
    }
    lua_pushlstring(L_, n.text, n.size);
    if (n.size <= kLongText) return;
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, made_, i);
  }

  void push(uint32_t i, int depth) {
    luaL_checkstack(L_, 12, "load");
    if (++pushed_ % 65536 == 0) check_interrupt();
    const io::PickleNode& n = pickle[i];
    switch (n.kind) {
      case PickleKind::None:
        lua_pushlightuserdata(L_, nullptr);
        return;
      case PickleKind::Bool:
        lua_pushboolean(L_, n.integer != 0);
        return;
      case PickleKind::Int:
        lua_pushinteger(L_, n.integer);
        return;
      case PickleKind::Float:
        lua_pushnumber(L_, n.real);
        return;
      case PickleKind::Text:
        push_text(i, n);
        return;
      case PickleKind::Tensor:
        push_same(L_, tensor(static_cast<size_t>(n.integer)));
        return;
      case PickleKind::DType:
        push_dtype(L_, static_cast<DType>(n.integer));
        return;
      case PickleKind::Device:
        // A name: map_location is about tensors.
        push_device(L_, n.view() == "cuda" ? kCurrentCuda : named_device(n.view()));
        return;
      case PickleKind::Storage:
        fail(Kind::Io, path_ + " holds a storage by itself; save the tensor instead");
      case PickleKind::Class:
      case PickleKind::NumpyType:
      case PickleKind::NumpyArray:
        fail(Kind::Io, path_ + " holds a class of Python or a type of NumPy by itself");
      default:
        push_table(i, depth);
    }
  }

  lua_State* L_;
  const io::Input& file_;
  const std::string& path_;
  const LoadOptions& options_;
  int made_ = 0;
  uint64_t pushed_ = 0;
  std::map<std::string, Tensor> storages_;
  std::set<std::string> truths_;
  std::vector<Tensor> tensors_;
  std::vector<uint8_t> busy_;
};

void push_zip(lua_State* L, const io::Input& input, const LoadOptions& options) {
  const std::string_view file = input.bytes();
  const std::string& path = input.path();
  const auto entries = io::zip_entries(file, path);
  const io::ZipEntry* pkl = nullptr;
  for (const auto& e : entries)
    if (e.name.ends_with("/constants.pkl"))
      fail(
          Kind::Io, path + " holds a TorchScript program, which is code and not data",
          "torch.save(torch.jit.load(path).state_dict(), path)  # in PyTorch: its tensors by name");
  for (const auto& e : entries)
    if (e.name.ends_with("/data.pkl") && (!pkl || e.name.size() < pkl->name.size())) pkl = &e;
  if (!pkl) fail(Kind::Io, path + " is a zip archive, but no file of PyTorch: it has no data.pkl");
  const std::string root = pkl->name.substr(0, pkl->name.size() - 8);
  std::string room, order;
  Loader loader(L, input, options);
  for (const auto& e : entries) {
    if (e.name.starts_with(root + "data/")) loader.entries[e.name.substr(root.size() + 5)] = &e;
    if (e.name == root + "byteorder")
      loader.swapped = io::zip_content(file, e, &order, path) == "big";
  }
  // A value takes more memory than its byte in the pickle, so a pickle that is packed tightly could
  // fill the memory.
  if (pkl->size > kLargePickle && pkl->size / 50 > pkl->packed)
    fail(Kind::Io, path + " has a data.pkl that unpacks to very much, which looks like a zip bomb");
  loader.pickle = io::parse_pickle(io::zip_content(file, *pkl, &room, path), path);
  loader.push_all();
}

// Five pickles (a magic number, the version, the writer's system, the value, the storages' keys),
// then for each key the number of elements and the elements.
void push_legacy(lua_State* L, const io::Input& input, const LoadOptions& options) {
  std::string_view file = input.bytes();
  const std::string& path = input.path();
  Loader loader(L, input, options);
  for (int i = 0; i < 3; ++i) file.remove_prefix(io::parse_pickle(file, path).end);
  loader.pickle = io::parse_pickle(file, path);
  file.remove_prefix(loader.pickle.end);
  const io::Pickle keys = io::parse_pickle(file, path);
  file.remove_prefix(keys.end);
  std::map<std::string, DType> dtypes;
  for (const auto& s : loader.pickle.storages) dtypes.emplace(s.key, s.dtype);
  if (keys[keys.root].kind != PickleKind::List) io::damaged(path, "it has no list of storages");
  for (const uint32_t i : keys.list(keys[keys.root])) {
    const auto it =
        keys[i].kind == PickleKind::Text ? dtypes.find(std::string(keys[i].view())) : dtypes.end();
    if (it == dtypes.end()) io::damaged(path, "it has a storage that no tensor uses");
    uint64_t n = 0;
    if (file.size() < 8) io::damaged(path, "it ends too early");
    for (int k = 8; k-- > 0;) n = n << 8 | static_cast<uint8_t>(file[static_cast<size_t>(k)]);
    file.remove_prefix(8);
    const auto width = static_cast<uint64_t>(dtype_size(it->second));
    if (n > file.size() / width) io::damaged(path, "it ends too early");
    loader.legacy.emplace(it->first, file.substr(0, n * width));
    file.remove_prefix(n * width);
  }
  loader.push_all();
}

}  // namespace

Tensor on_cpu(const Tensor& t) { return packed(fetch(t)); }

Tensor moved_to(const Tensor& t, Device device) { return device.is_cpu() ? t : sent(t, device); }

bool is_pytorch_file(std::string_view file) {
  return io::is_zip(file) ||
         (file.size() > 15 && file[0] == '\x80' && file.substr(2, kLegacy.size()) == kLegacy);
}

void push_pytorch(lua_State* L, const io::Input& file, const LoadOptions& options) {
  if (io::is_zip(file.bytes()))
    push_zip(L, file, options);
  else
    push_legacy(L, file, options);
}

}  // namespace tycho::lua
