// MPI: every verb against the serial reference, and messages, among ranks that mpirun has started
// (mpi_test.sh); alone there is nothing to see.
#include <cstdlib>

#include "engine/dist/env.h"
#include "tests/dist/verbs.h"

namespace tycho::dist {
namespace {

TEST(Mpi, MovesAndCombinesEveryTypeAsASerialReference) {
  if (!std::getenv("OMPI_COMM_WORLD_SIZE")) GTEST_SKIP() << "this is for mpirun";
  const HangLimit limit;
  const auto job = Job::join(find_env({}));
  const int me = job->env().rank, n = job->env().world_size;
  {
    std::vector<int> ranks;
    for (int r = 0; r < n; ++r) ranks.push_back(r);
    const Ref<Group> g = Group::make(job, 0, ranks, "mpi");
    EXPECT_STREQ(g->transport(), "mpi");
    for (const DType t : kTypes)
      for (const int64_t count : {0, 1, 7, 1000, 65536}) every_verb(*g, count, t);
    every_verb(*g, 1000003, DType::Float32);

    // Messages in a circle, crossing, and from anybody.
    const int64_t many = 300000;
    const Tensor theirs = data(0, many, DType::Float32);
    const Ref<Work> sent = g->start_send(data(me, many, DType::Float32), (me + 1) % n, 3, true);
    g->start_receive(theirs, (me + n - 1) % n, 3, false);
    sent->wait();
    EXPECT_EQ(bytes(theirs), bytes(data((me + n - 1) % n, many, DType::Float32)));
    if (me > 0) {
      g->start_send(data(me, 10, DType::Int16), 0, me, false);
    } else {
      for (int r = n - 1; r > 0; --r) {
        const Tensor x = data(0, 10, DType::Int16);
        const Ref<Work> w = g->start_receive(x, -1, r, false);
        EXPECT_EQ(w->sender(), r);
        EXPECT_EQ(bytes(x), bytes(data(r, 10, DType::Int16)));
      }
    }
    // Groups of neighbours.
    const int first = me / 2 * 2;
    std::vector<int> pair{first};
    if (first + 1 < n) pair.push_back(first + 1);
    if (pair.size() == 2)
      every_verb(*Group::make(job, static_cast<uint32_t>(1 + first), pair, "mpi"), 100,
                 DType::Int64);
    g->start(desc(Verb::Barrier, data(0, 0, DType::Float32)), {}, {}, false);
  }
  job->close();
}

}  // namespace
}  // namespace tycho::dist
