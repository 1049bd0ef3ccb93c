// RandomStream: a stream of either kind, to be passed by value; it belongs to whoever made it.
#pragma once
#include "engine/base/generator.h"
#include "engine/base/philox.h"

namespace tycho {

struct RandomStream {
  Generator* mersenne = nullptr;  // exactly one of the two is set
  PhiloxStream* philox = nullptr;

  RandomStream(Generator& g) : mersenne(&g) {}
  RandomStream(PhiloxStream& g) : philox(&g) {}

  void seed(uint64_t seed) const { mersenne ? mersenne->seed(seed) : philox->seed(seed); }
  uint64_t initial_seed() const {
    return mersenne ? mersenne->initial_seed() : philox->initial_seed();
  }
  std::string state() const { return mersenne ? mersenne->state() : philox->state(); }
  void set_state(std::string_view bytes) const {
    mersenne ? mersenne->set_state(bytes) : philox->set_state(bytes);
  }
};

}  // namespace tycho
