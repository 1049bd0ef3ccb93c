// A message with its tensors as one string: between processes their memory is passed as segments,
// between machines it stands in the string.
#pragma once
#include <span>

#include "bindings/codec/codec.h"
#include "engine/dist/segment.h"

namespace tycho::lua::codec {

struct Packed {
  std::string bytes;
  std::vector<Ref<dist::Segment>> segments;
};

// With `shared`, the CPU tensors' storages become shared ones (dist::share); storages of devices
// are copied. Without, of every storage what its tensors cover is copied.
Packed pack(Message& message, bool shared);
// Raises Kind::Value for what is damaged: every count and place is checked.
Message unpack(std::string_view bytes, std::span<const Ref<dist::Segment>> segments);

}  // namespace tycho::lua::codec
