// Runs a test at each instruction level that the CPU has.
#pragma once
#include <gtest/gtest.h>

#include "engine/cpu/level.h"

namespace tycho {

template <class F>
void at_each_level(F f) {
  const cpu::Level best = cpu::level();
  for (const cpu::Level l : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4})
    if (l <= best) {
      cpu::force_level(l);
      SCOPED_TRACE(cpu::level_name(l));
      f();
    }
  cpu::force_level(best);
}

}  // namespace tycho
