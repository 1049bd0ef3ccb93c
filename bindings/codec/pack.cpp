// The form of a packed message: Head, the storages, the tensors, the message's own bytes, and then
// the contents of the storages that lie in no segment.
#include "bindings/codec/pack.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "bindings/tools/check.h"
#include "engine/base/interrupt.h"
#include "engine/dist/shared.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace codec {
namespace {

constexpr uint32_t kMagic = 0x314d5954;  // "TYM1"
constexpr uint32_t kInside = UINT32_MAX;

struct Head {
  uint32_t magic = kMagic, storages = 0, tensors = 0, unused = 0;
  uint64_t bytes = 0;  // of the message
};
struct PackedStorage {
  uint32_t segment = kInside;  // its number
  int32_t device = -1;
  uint64_t offset = 0, bytes = 0;  // in the segment, or behind the message
};
struct PackedTensor {
  uint32_t storage = 0;
  uint8_t dtype = 0, requires_grad = 0, rank = 0, parameter = 0;
  int64_t offset = 0;  // in elements
  int64_t shape[kMaxDims] = {}, stride[kMaxDims] = {};
};

template <class T>
void put(std::string& to, const T& x) {
  to.append(reinterpret_cast<const char*>(&x), sizeof x);
}

// The elements that a tensor reads lie in [offset, end).
__int128 end_of(int64_t offset, const Sizes& shape, const Sizes& stride) {
  __int128 last = offset;
  for (int d = 0; d < shape.n; ++d) {
    if (shape[d] == 0) return offset;
    last += static_cast<__int128>(shape[d] - 1) * stride[d];
  }
  return last + 1;
}

// A storage and what of it is sent.
struct Part {
  Storage* storage;
  size_t begin = SIZE_MAX, end = 0;
};

struct Parts {
  std::vector<Part> all;
  std::vector<uint32_t> of_tensor;
};

Parts parts_of(const Message& message, bool whole) {
  Parts parts;
  std::unordered_map<const Storage*, uint32_t> numbers;
  for (const CodedTensor& t : message.tensors) {
    const auto [it, fresh] =
        numbers.emplace(t.storage.get(), static_cast<uint32_t>(parts.all.size()));
    if (fresh) parts.all.push_back({t.storage.get()});
    parts.of_tensor.push_back(it->second);
    Part& part = parts.all[it->second];
    const auto size = static_cast<size_t>(dtype_size(t.dtype));
    const auto end = static_cast<size_t>(end_of(t.offset, t.shape, t.stride));
    part.begin = std::min(part.begin, static_cast<size_t>(t.offset) * size);
    part.end = std::max(part.end, end * size);
  }
  for (Part& part : parts.all) {
    // A type's elements begin at multiples of its size, of any type that looks at the storage.
    part.begin = whole ? 0 : part.begin / 64 * 64;
    part.end = whole ? part.storage->bytes : std::max(part.begin, part.end);
  }
  return parts;
}

[[noreturn]] void damaged() { fail(Kind::Value, "what came is damaged: it cannot be read"); }

class Bytes {
 public:
  explicit Bytes(std::string_view all) : all_(all) {}
  template <class T>
  T take() {
    T x;
    std::memcpy(&x, piece(sizeof x).data(), sizeof x);
    return x;
  }
  std::string_view piece(uint64_t n) {
    if (n > all_.size()) damaged();
    const std::string_view p = all_.substr(0, n);
    all_.remove_prefix(n);
    return p;
  }
  std::string_view rest() const { return all_; }

 private:
  std::string_view all_;
};

Ref<Storage> unpack_storage(const PackedStorage& p, std::string_view tail,
                            std::span<const Ref<dist::Segment>> segments) {
  const bool inside = p.segment == kInside;
  if (!inside && p.segment >= segments.size()) damaged();
  const size_t room = inside ? tail.size() : segments[p.segment]->bytes;
  if (p.offset > room || p.bytes > room - p.offset) damaged();
  if (!inside && p.device < 0) return dist::storage_at({segments[p.segment], p.offset}, p.bytes);
  const char* from = (inside ? tail.data() : segments[p.segment]->data) + p.offset;
  Tensor here = empty(Sizes{static_cast<int64_t>(p.bytes)}, DType::UInt8);
  if (p.bytes > 0) std::memcpy(here.host(), from, p.bytes);
  return p.device < 0 ? here->storage : sent(here, cuda_device(p.device))->storage;
}

CodedTensor unpack_tensor(const PackedTensor& p, const std::vector<Ref<Storage>>& storages) {
  if (p.storage >= storages.size() || p.dtype >= kDTypes || p.rank > kMaxDims || p.offset < 0)
    damaged();
  CodedTensor t{storages[p.storage],
                static_cast<DType>(p.dtype),
                p.requires_grad != 0,
                p.parameter != 0,
                false,
                Sizes(p.shape, p.rank),
                Sizes(p.stride, p.rank),
                p.offset};
  __int128 count = 1;
  for (int d = 0; d < p.rank; ++d) {
    if (p.shape[d] < 0 || p.stride[d] < 0) damaged();
    count *= p.shape[d];
    if (count > INT64_MAX) damaged();
  }
  const __int128 end = end_of(p.offset, t.shape, t.stride);
  if (end * dtype_size(t.dtype) > static_cast<__int128>(t.storage->bytes)) damaged();
  if (t.requires_grad && !is_floating(t.dtype)) damaged();
  return t;
}

}  // namespace

Packed pack(Message& message, bool shared) {
  const Parts parts = parts_of(message, shared);
  Packed out;
  std::vector<Tensor> copies;  // of storages on devices, then shared in their place
  std::vector<Storage*> moved;
  std::vector<Storage*> host(parts.all.size());
  for (size_t i = 0; i < parts.all.size(); ++i) {
    Storage* s = parts.all[i].storage;
    ready(*s);
    if (!s->device.is_cpu()) {
      copies.push_back(empty(Sizes{static_cast<int64_t>(s->bytes)}, DType::UInt8));
      backend_of(s->device).read(s->device, copies.back().host(), s->data, s->bytes);
      host[i] = copies.back()->storage.get();
    } else {
      host[i] = s;
    }
    if (shared && !dist::is_shared(*host[i])) moved.push_back(host[i]);
  }
  if (!moved.empty()) dist::share(moved);

  put(out.bytes, Head{.storages = static_cast<uint32_t>(parts.all.size()),
                      .tensors = static_cast<uint32_t>(message.tensors.size()),
                      .bytes = message.bytes.size()});
  uint64_t tail = 0;
  for (size_t i = 0; i < parts.all.size(); ++i) {
    const Part& part = parts.all[i];
    PackedStorage p{.device = part.storage->device.number, .bytes = part.end - part.begin};
    if (shared) {
      const dist::Place place = dist::place_of(*host[i]);
      const auto at = std::find(out.segments.begin(), out.segments.end(), place.segment);
      p.segment = static_cast<uint32_t>(at - out.segments.begin());
      p.offset = place.offset;
      if (at == out.segments.end()) out.segments.push_back(place.segment);
    } else {
      p.offset = tail;
      tail += p.bytes;
    }
    put(out.bytes, p);
  }
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const CodedTensor& t = message.tensors[i];
    const Part& part = parts.all[parts.of_tensor[i]];
    PackedTensor p{.storage = parts.of_tensor[i],
                   .dtype = static_cast<uint8_t>(t.dtype),
                   .requires_grad = t.requires_grad,
                   .rank = static_cast<uint8_t>(t.shape.n),
                   .parameter = t.parameter};
    p.offset = t.offset - static_cast<int64_t>(part.begin) / dtype_size(t.dtype);
    std::copy_n(t.shape.begin(), t.shape.n, p.shape);
    std::copy_n(t.stride.begin(), t.stride.n, p.stride);
    put(out.bytes, p);
  }
  out.bytes += message.bytes;
  if (!shared)
    for (size_t i = 0; i < parts.all.size(); ++i)
      out.bytes.append(static_cast<const char*>(host[i]->data) + parts.all[i].begin,
                       parts.all[i].end - parts.all[i].begin);
  return out;
}

Message unpack(std::string_view bytes, std::span<const Ref<dist::Segment>> segments) {
  Bytes in(bytes);
  const auto head = in.take<Head>();
  if (head.magic != kMagic) damaged();
  const std::string_view storages = in.piece(uint64_t{head.storages} * sizeof(PackedStorage));
  Bytes tensors(in.piece(uint64_t{head.tensors} * sizeof(PackedTensor)));
  Message message;
  message.bytes = in.piece(head.bytes);
  std::vector<Ref<Storage>> made;
  Bytes each(storages);
  for (uint32_t i = 0; i < head.storages; ++i)
    made.push_back(unpack_storage(each.take<PackedStorage>(), in.rest(), segments));
  for (uint32_t i = 0; i < head.tensors; ++i)
    message.tensors.push_back(unpack_tensor(tensors.take<PackedTensor>(), made));
  return message;
}

}  // namespace codec

std::string encode(lua_State* L, int value, const char* who) {
  Cargo cargo = kObject;
  cargo.who = who;
  Message message = write_message(L, value, cargo);
  return std::move(codec::pack(message, false).bytes);
}

void decode(lua_State* L, std::string_view bytes) {
  Message message = codec::unpack(bytes, {});
  read_message(L, message, Trust::Data);
}

namespace {

int lua_encode(lua_State* L) {
  const std::string who(check_text(L, 2, "_encode"));
  const std::string bytes = encode(L, 1, who.c_str());
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}
int lua_decode(lua_State* L) {
  decode(L, check_text(L, 1, "_decode"));
  return 1;
}

}  // namespace

void open_codec(lua_State* L, int torch) {
  lua_pushcfunction(L, guarded<lua_encode>);
  lua_setfield(L, torch, "_encode");
  lua_pushcfunction(L, guarded<lua_decode>);
  lua_setfield(L, torch, "_decode");
}

}  // namespace tycho::lua
