// Groups over shared memory: every verb, type, size and root at worlds of 1 to 4 against a serial
// reference, with the same bits on every rank; ranks are threads here.
#include "tests/dist/verbs.h"

namespace tycho::dist {
namespace {

class EveryWorld : public testing::TestWithParam<int> {};

TEST_P(EveryWorld, MovesAndCombinesEveryTypeAsASerialReference) {
  run_ranks(GetParam(), [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (const DType t : kTypes)
      for (const int64_t n : {0, 1, 7, 1000, 65536}) every_verb(*g, n, t);
  });
}

TEST_P(EveryWorld, MovesAMillionAndThreeElements) {
  run_ranks(GetParam(), [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (const DType t : {DType::Int16, DType::BFloat16, DType::Float32})
      every_verb(*g, 1000003, t);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryWorld, testing::Range(1, 5));

}  // namespace
}  // namespace tycho::dist
