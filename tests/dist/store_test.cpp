// The store, of a server and of one process alone, and the server's door: who gets in, and what
// strangers can do.
#include "engine/dist/store.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "engine/base/interrupt.h"
#include "engine/dist/socket.h"
#include "engine/dist/token.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

StoreOptions soon(double seconds = 10) {
  StoreOptions o;
  o.until = now() + seconds;
  o.asked = seconds;
  return o;
}

void try_store(const std::shared_ptr<Store>& s) {
  const std::string bytes("a\0b\n", 4);
  s->set("k", bytes);
  EXPECT_EQ(s->get("k", Seconds(1)), bytes);
  EXPECT_EQ(s->try_get("none"), std::nullopt);
  EXPECT_EQ(s->add("n", 5), 5);
  EXPECT_EQ(s->add("n", -7), -2);
  EXPECT_EQ(s->get("n", Seconds(1)), "-2");
  EXPECT_EQ(outcome([&] { s->add("k", 1); }).text,
            "value: store: the value of key \"k\" is not a whole number");
  EXPECT_EQ(s->compare_set("c", "", "first"), "first");
  EXPECT_EQ(s->compare_set("c", "other", "second"), "first");
  EXPECT_EQ(s->compare_set("c", "first", "second"), "second");
  EXPECT_EQ(s->compare_set("new", "expected", "x"), "expected");
  EXPECT_EQ(s->try_get("new"), std::nullopt);
  EXPECT_EQ(s->num_keys(), 3);
  EXPECT_TRUE(s->delete_key("c"));
  EXPECT_FALSE(s->delete_key("c"));
  EXPECT_EQ(s->num_keys(), 2);
  const Outcome o = outcome([&] { s->get("none", Seconds(0.05)); });
  EXPECT_EQ(o.reason, Reason::Timeout);
  EXPECT_EQ(o.text, "store: key \"none\" was not set within 0.05 s");
  const auto p = prefix_store("p/", s);
  p->set("k", "in p");
  EXPECT_EQ(s->get("p/k", Seconds(1)), "in p");
  EXPECT_EQ(s->get("k", Seconds(1)), bytes);
  EXPECT_EQ(p->add("n", 1), 1);
  s->set("big", std::string(5'000'000, 'x'));
  EXPECT_EQ(s->get("big", Seconds(10)).size(), 5'000'000u);
  s->set("", "");
  EXPECT_EQ(s->get("", Seconds(1)), "");
}

TEST(Store, OfTheServerAndOfOneProcessDoTheSame) {
  const HangLimit limit;
  try_store(local_store());
  const auto server = Server::start();
  try_store(connect_store(server->address(), server->token(), soon()));
}

TEST(Store, ManyThreadsWaitThroughOneConnection) {
  const HangLimit limit;
  const auto server = Server::start();
  const auto store = connect_store(server->address(), server->token(), soon());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        const std::string key = std::to_string(k) + "/";
        store->set(key + std::to_string(i), std::to_string(i));
        EXPECT_EQ(store->get(key + std::to_string((i + 1) % 8), Seconds(20)),
                  std::to_string((i + 1) % 8));
        store->add("sum", i);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(store->add("sum", 0), 20 * 28);
}

TEST(Store, AWaitCanBeInterruptedAndTheStoreGoesOn) {
  const HangLimit limit;
  const auto server = Server::start();
  const auto store = connect_store(server->address(), server->token(), soon());
  std::atomic<bool> flag{false}, waits{false};
  std::thread waiter([&] {
    use_own_interrupts(flag);
    waits = true;
    EXPECT_EQ(outcome([&] { store->get("never", Seconds(20)); }).text, "interrupt: interrupted");
  });
  while (!waits) usleep(100);
  flag = true;
  waiter.join();
  store->set("never", "late");  // nobody waits any more
  EXPECT_EQ(store->get("never", Seconds(1)), "late");
}

TEST(Store, TheEndOfTheServerIsLost) {
  const HangLimit limit;
  auto server = Server::start();
  const auto store = connect_store(server->address(), server->token(), soon());
  store->set("k", "v");
  const std::string address = server->address();
  server.reset();
  const Outcome o = outcome([&] { store->get("k", Seconds(20)); });
  EXPECT_EQ(o.reason, Reason::Lost);
  EXPECT_EQ(o.text, "the store at " + address + " is gone");
}

TEST(Store, AWrongTokenIsRefused) {
  const HangLimit limit;
  const auto server = Server::start();
  const Outcome o = outcome([&] { connect_store(server->address(), random_token(), soon()); });
  EXPECT_EQ(o.reason, Reason::Refused);
  EXPECT_EQ(o.text, "the store at " + server->address() +
                        " belongs to another job: the tokens differ (TYCHO_TOKEN)");
}

TEST(Store, APortThatIsTakenIsSaidToBe) {
  const Descriptor other = listen_at("127.0.0.1", 0);
  ServerOptions o;
  o.port = port_of(other.get());
  const Outcome out = outcome([&] { Server::start(o); });
  EXPECT_EQ(out.reason, Reason::System);
  EXPECT_EQ(out.text,
            format("port %d of 127.0.0.1 is taken by another program", port_of(other.get())));
  EXPECT_NE(out.hint, "");
}

TEST(Store, NobodyAtTheAddressIsATimeoutOfRank0) {
  const HangLimit limit;
  const int port = port_of(listen_at("127.0.0.1", 0).get());
  const Outcome o = outcome(
      [&] { connect_store("127.0.0.1:" + std::to_string(port), random_token(), soon(0.2)); });
  EXPECT_EQ(o.reason, Reason::Timeout);
  EXPECT_EQ(o.ranks, std::vector<int>{0});
  EXPECT_EQ(o.text,
            format("nobody serves at 127.0.0.1:%d after 0.2 s (Connection refused): is rank 0 "
                   "running?",
                   port));
}

TEST(Store, SomethingElseAtTheAddressIsRefused) {
  const HangLimit limit;
  const Descriptor listener = listen_at("127.0.0.1", 0);
  const std::string address = "127.0.0.1:" + std::to_string(port_of(listener.get()));
  for (const std::string& greeting :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
        std::string(Writer(Msg::Challenge).raw("0123456789abcdef", 16).frame())}) {
    std::thread stranger([&] {
      while (!wait_readable(listener.get(), now() + 1)) {
      }
      const Descriptor fd(accept(listener.get(), nullptr, nullptr));
      send_all(fd.get(), greeting);
      // The second one plays a server that does not know the token, and answers something.
      char room[64];
      if (recv(fd.get(), room, sizeof room, 0) > 0)
        send_all(fd.get(), Writer(Msg::Proven).raw(room, 32).frame());
      recv(fd.get(), room, sizeof room, 0);
    });
    const Outcome o = outcome([&] { connect_store(address, random_token(), soon()); });
    EXPECT_EQ(o.reason, Reason::Refused);
    EXPECT_NE(o.text.find(address), std::string::npos) << o.text;
    stranger.join();
  }
}

// True: the server has closed the connection.
bool closed(int fd) {
  char room[256];
  for (int i = 0; i < 100; ++i) {
    if (!wait_readable(fd, now() + 1)) continue;
    const ssize_t n = recv(fd, room, sizeof room, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

TEST(Store, StrangersAreShownTheDoorAndNobodyNoticesThem) {
  const HangLimit limit;
  ServerOptions o;
  o.to_prove = Seconds(0.2);
  const auto server = Server::start(o);
  std::vector<std::thread> ranks;
  std::atomic<bool> over{false};
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const auto job = Job::join(env_of(*server, rank, 2));
      Desc d;
      for (d.seq = 1;; ++d.seq) {
        const std::string turn = "turn" + std::to_string(d.seq);
        if (rank == 0) job->store()->set(turn, over ? "stop" : "go on");
        if (job->store()->get(turn, Seconds(20)) == "stop") break;
        job->agree(d, {0, 1});
      }
      EXPECT_FALSE(job->failed());
    });
  std::string why;
  const Address address = parse_address(server->address());
  const std::string huge("\xff\xff\xff\x7f\x01", 5);
  const std::string wrong(Writer(Msg::Proof).raw(std::string(48, 'x').data(), 48).frame());
  const std::string early(Writer(Msg::Join).i32(0).i32(2).frame());
  const std::string empty("\0\0\0\0", 4);
  for (const std::string& data :
       {std::string("GET / HTTP/1.0\r\n\r\n"), huge, wrong, early, empty, std::string(1000, '\0'),
        std::string(70000, 'y'), std::string("ab")}) {
    const Descriptor fd = connect_to(address, Seconds(5), &why);
    ASSERT_TRUE(fd) << why;
    send_all(fd.get(), data);
    EXPECT_TRUE(closed(fd.get())) << data.size();
  }
  {  // says nothing, then goes; and many at once who say nothing
    std::vector<Descriptor> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(connect_to(address, Seconds(5), &why));
    for (const Descriptor& fd : silent) EXPECT_TRUE(closed(fd.get()));
  }
  while (server->connections() > 4) usleep(1000);
  over = true;
  for (auto& t : ranks) t.join();
}

TEST(Store, WhoIsProvenAndTalksNonsenseLosesOnlyItsConnection) {
  const HangLimit limit;
  const auto server = Server::start();
  const auto store = connect_store(server->address(), server->token(), soon());
  for (const std::string& data :
       {std::string("\x05\0\0\0\x77zzzz", 9), std::string("\xff\xff\xff\xff", 4),
        std::string(Writer(Msg::Join).i32(0).frame()), std::string(Writer(Msg::Bye).frame()),
        std::string(
            Writer(Msg::Join).i32(0).i32(-5).i64(1).text("h").text("m").f64(1).f64(1).frame())}) {
    Proven c = connect_proven(server->address(), server->token(), now() + 5, 5);
    send_all(c.fd.get(), data);
    EXPECT_TRUE(closed(c.fd.get()));
  }
  store->set("k", "v");
  EXPECT_EQ(store->get("k", Seconds(1)), "v");
}

}  // namespace
}  // namespace tycho::dist
