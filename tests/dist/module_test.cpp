// Modules: opened once, and named with what is missing where they are not there.
#include "engine/base/module.h"

#include <gtest/gtest.h>

namespace tycho {
namespace {

TEST(Module, IsOpenedOnceAndHasItsFunctions) {
  std::string why;
  void* const module = open_module("gloo", &why);
  ASSERT_NE(module, nullptr) << why;
  EXPECT_EQ(open_module("gloo", &why), module);
  EXPECT_NE(module_symbol("gloo", "tycho_make_mesh", &why), nullptr);
  for (const char* name : {"mpi", "cuda"})  // their files in memory may get the same number
    if (void* other = open_module(name, &why)) {
      EXPECT_NE(other, module) << name;
    }
}

TEST(Module, SaysWhatIsNotThere) {
  std::string why;
  EXPECT_EQ(open_module("abacus", &why), nullptr);
  EXPECT_EQ(why, "this program was built without abacus");
  EXPECT_EQ(module_symbol("gloo", "tycho_make_tea", &why), nullptr);
  EXPECT_EQ(why, "the part of the program for gloo has no tycho_make_tea");
}

}  // namespace
}  // namespace tycho
