// Threads that play ranks, and the clock that ends what hangs.
#include "tests/dist/ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace tycho::dist {

struct HangLimit::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
};

HangLimit::HangLimit(double seconds) : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_, seconds] {
    std::unique_lock lock(state->mutex);
    if (state->ended.wait_for(lock, Seconds(seconds), [&] { return state->over; })) return;
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s hangs\n", test ? test->name() : "a test");
    std::abort();
  });
}

HangLimit::~HangLimit() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->ended.notify_all();
  thread_.join();
}

Outcome outcome(const std::function<void()>& f) {
  try {
    f();
  } catch (const DistError& e) {
    return {e.reason, e.ranks, e.text, e.hint, e.op, e.seq};
  } catch (const Error& e) {
    return {Reason::System, {}, std::string(kind_name(e.kind)) + ": " + e.text, e.hint, e.op, 0};
  } catch (const std::exception& e) {
    return {Reason::System, {}, e.what(), {}, {}, 0};
  }
  return {};
}

Env env_of(const Server& server, int rank, int world) {
  Env e;
  e.rank = e.local_rank = rank;
  e.world_size = e.local_world_size = world;
  e.address = server.address();
  e.token = server.token();
  return e;
}

std::vector<Outcome> try_ranks(int n, const RankFunction& f, const RanksOptions& options) {
  const HangLimit limit(options.limit);
  const auto server = Server::start();
  std::vector<Outcome> outcomes(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<size_t>(rank)] = outcome([&] {
        Env e = env_of(*server, rank, n);
        e.timeout = options.timeout;
        e.init_timeout = options.init_timeout;
        e.late = options.late;
        const auto job = Job::join(e);
        f(job);
        job->close();
      });
    });
  }
  for (auto& t : threads) t.join();
  return outcomes;
}

void run_ranks(int n, const RankFunction& f, const RanksOptions& options) {
  const auto outcomes = try_ranks(n, f, options);
  for (size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_EQ(outcomes[r].text, "") << "rank " << r << " raised";
}

}  // namespace tycho::dist
