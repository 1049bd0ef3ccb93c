// The bytes of a Philox stream's state.
#include "engine/base/philox.h"

#include <cstring>

#include "engine/base/check.h"

namespace tycho {

std::string PhiloxStream::state() const {
  std::string bytes(kStateBytes, '\0');
  std::memcpy(bytes.data(), &seed_, 8);
  std::memcpy(bytes.data() + 8, &offset_, 8);
  return bytes;
}

void PhiloxStream::set_state(std::string_view bytes) {
  TYCHO_CHECK(Kind::Value, bytes.size() == kStateBytes,
              "the state of a device's generator has %zu bytes, this has %zu", kStateBytes,
              bytes.size());
  std::memcpy(&seed_, bytes.data(), 8);
  std::memcpy(&offset_, bytes.data() + 8, 8);
}

}  // namespace tycho
