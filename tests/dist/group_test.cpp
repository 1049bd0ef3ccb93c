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

#if defined(__SANITIZE_THREAD__)
constexpr int64_t kMany = 200'003;  // the serial reference would take minutes
#else
constexpr int64_t kMany = 1'000'003;
#endif

TEST_P(EveryWorld, MovesManyPiecesAndARest) {
  run_ranks(GetParam(), [](std::shared_ptr<Job> job) {
    const Ref<Group> g = world(job);
    for (const DType t : {DType::Int16, DType::BFloat16, DType::Float32}) every_verb(*g, kMany, t);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryWorld, testing::Range(1, 5));

}  // namespace
}  // namespace tycho::dist
