// The server's thread: sockets, proofs and frames. What the frames ask for is done by keys.cpp,
// agreement.cpp and meeting.cpp, which know nothing of sockets.
#include "engine/dist/server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "engine/base/interrupt.h"
#include "engine/dist/meeting.h"
#include "engine/dist/socket.h"
#include "engine/dist/token.h"

namespace tycho::dist {
namespace {

constexpr size_t kProofBytes = 64;

class Loop final : public Server, Sender {
 public:
  explicit Loop(const ServerOptions& o)
      : token_(o.token.empty() ? random_token() : o.token),
        to_prove_(o.to_prove.count()),
        keys_(*this),
        meeting_(*this, o.world_size, o.served_by) {
    prove(token_, "", {}, {});  // libcrypto is there
    listener_ = listen_at(o.host, o.port);
    const std::string host = !o.name.empty() ? o.name : o.host.empty() ? "127.0.0.1" : o.host;
    address_ = to_string(Address{host, port_of(listener_.get())});
    offer_ = offer(o.offered.empty() ? port_offer(port_of(listener_.get())) : o.offered);
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    poll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!wake_ || !poll_)
      throw DistError(
          {Reason::System, {}, format("the store cannot serve: %s", std::strerror(errno))});
    watch(listener_.get(), kListener, EPOLLIN);
    watch(wake_.get(), kWake, EPOLLIN);
    if (offer_) watch(offer_.get(), kOffer, EPOLLIN);
    // Signals are the business of the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Loop() override {
    stop_ = true;
    const uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) {
    }
    thread_.join();
  }

  const std::string& address() const override { return address_; }
  const std::string& token() const override { return token_; }
  int ranks_here() const override { return here_; }
  int first_gone() const override { return meeting_.first_gone(); }
  size_t connections() const override { return open_; }

  bool wait_for_goodbyes(Seconds at_most) override {
    const double until = now() + at_most.count();
    std::unique_lock lock(mutex_);
    while (here_ > 0) {
      if (now() > until) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      lock.unlock();
      check_interrupt();
      lock.lock();
    }
    return true;
  }

 private:
  static constexpr ConnId kListener = 0, kWake = 1, kOffer = 2;
  struct Conn {
    Descriptor fd;
    Inbox in;
    std::string out;  // what the socket did not take at once
    Nonce nonce{};
    double until = 0;  // to prove itself
    bool proven = false, ending = false, store = false;
    int rank = -1;
    uint32_t session = 0;
  };

  void watch(int fd, ConnId id, uint32_t events, int op = EPOLL_CTL_ADD) {
    epoll_event e{};
    e.events = events;
    e.data.u64 = id;
    epoll_ctl(poll_.get(), op, fd, &e);
  }

  void run() {
    HoldInterrupts hold;
    std::vector<epoll_event> events(256);
    while (!stop_) {
      double next = meeting_.next_tick();
      for (const ConnId id : unproven_) next = std::min(next, conns_.at(id).until);
      if (rest_until_ > 0) next = std::min(next, rest_until_);
      const double left = next - now();
      const int wait = left > 1e6 ? -1 : left <= 0 ? 0 : static_cast<int>(left * 1000) + 1;
      const int n = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), wait);
      for (int i = 0; i < n; ++i) on_event(events[static_cast<size_t>(i)]);
      bury();
      const double t = now();
      if (t >= meeting_.next_tick()) meeting_.tick(t);
      for (const ConnId id : std::vector<ConnId>(unproven_))
        if (conns_.at(id).until <= t) drop(id, {});
      if (rest_until_ > 0 && t >= rest_until_) {
        rest_until_ = 0;
        watch(listener_.get(), kListener, EPOLLIN);
      }
      bury();
      publish();
    }
    meeting_.close();
  }

  void publish() {
    open_ = conns_.size();
    if (here_ == meeting_.present()) return;
    const std::lock_guard lock(mutex_);
    here_ = meeting_.present();
    changed_.notify_all();
  }

  void on_event(const epoll_event& e) {
    const ConnId id = e.data.u64;
    if (id == kListener) return accept_all();
    if (id == kOffer) return answer_offer(offer_.get(), address_ + " " + token_);
    if (id == kWake) return;
    const auto it = conns_.find(id);
    if (it == conns_.end()) return;
    if (e.events & EPOLLOUT) flush(id, it->second);
    if (e.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(id, it->second);
  }

  void accept_all() {
    for (;;) {
      Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) {
        // Without descriptors the listener would stay ready: it rests a little.
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          epoll_ctl(poll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
          rest_until_ = now() + 0.1;
        }
        return;
      }
      prepare_connection(fd.get());
      const ConnId id = ++last_id_;
      Conn& c = conns_[id];
      c.fd = std::move(fd);
      c.in.most = kProofBytes;
      c.until = now() + to_prove_;
      c.nonce = random_nonce();
      unproven_.push_back(id);
      watch(c.fd.get(), id, EPOLLIN);
      send(id, Writer(Msg::Challenge).raw(c.nonce.data(), c.nonce.size()));
    }
  }

  void receive(ConnId id, Conn& c) {
    std::string how;
    bool over = false;
    // A few pieces, then the others have their turn.
    for (int piece = 0; piece < 16; ++piece) {
      const ssize_t n = c.in.read_from(c.fd.get());
      if (n > 0) {
        if (n < 16384 || (!c.proven && c.in.size() > kProofBytes)) break;
        continue;
      }
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      over = true;
      if (n < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH))
        how = ": its host does not answer";
      break;
    }
    try {
      if (!c.proven && c.in.size() > kProofBytes) throw BadFrame{};
      while (!c.ending) {
        const auto f = c.in.next();
        if (!f) break;
        handle(id, c, f->msg, Reader(f->body));
      }
    } catch (const BadFrame&) {
      over = true;
      how = ": it sent what no rank sends";
    }
    if (over) drop(id, how);
  }

  void handle(ConnId id, Conn& c, Msg msg, Reader body) {
    if (!c.proven) return check_proof(id, c, msg, body);
    if (c.store) {
      if (msg == Msg::Agree) return meeting_.announce(id, c.rank, c.session, body, now());
      if (msg == Msg::Cancel) {
        Reader again = body;
        meeting_.cancel(id, again.u32());
      }
      return keys_.handle(id, msg, body);
    }
    if (msg == Msg::UseStore) {
      c.store = true;
      c.rank = body.i32();
      c.session = body.u32();
    } else if (msg == Msg::Join) {
      meeting_.join(id, body, now());
    } else if (!meeting_.handle(id, msg, body, now())) {
      throw BadFrame{};
    }
  }

  void check_proof(ConnId id, Conn& c, Msg msg, Reader body) {
    if (msg != Msg::Proof) throw BadFrame{};
    Nonce theirs;
    std::memcpy(theirs.data(), body.raw(theirs.size()).data(), theirs.size());
    if (!same_mac(prove(token_, "rank", theirs, c.nonce), body.raw(sizeof(Mac)))) {
      Writer w(Msg::Refused);
      send(id, write_failure(w, {Reason::Refused,
                                 {},
                                 "the store at " + address_ +
                                     " belongs to another job: the tokens differ (TYCHO_TOKEN)"}));
      return end(id);
    }
    c.proven = true;
    c.in.most = kFrameMost;
    std::erase(unproven_, id);
    const Mac mac = prove(token_, "server", c.nonce, theirs);
    send(id, Writer(Msg::Proven).raw(mac.data(), mac.size()));
  }

  void send(ConnId to, Writer& frame) override {
    const auto it = conns_.find(to);
    if (it == conns_.end() || it->second.ending) return;
    Conn& c = it->second;
    const std::string& data = frame.frame();
    size_t done = 0;
    if (c.out.empty()) {
      const ssize_t n = ::send(c.fd.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) done = static_cast<size_t>(n);
      // A broken connection shows itself when it is read.
    }
    if (done == data.size()) return;
    if (c.out.empty()) watch(c.fd.get(), to, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    c.out.append(data, done);
  }

  void flush(ConnId id, Conn& c) {
    const ssize_t n = ::send(c.fd.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) c.out.erase(0, static_cast<size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR) c.out.clear();
    if (!c.out.empty()) return;
    watch(c.fd.get(), id, EPOLLIN, EPOLL_CTL_MOD);
    if (c.ending) finish(id, c);
  }

  void end(ConnId who) override {
    const auto it = conns_.find(who);
    if (it == conns_.end() || it->second.ending) return;
    it->second.ending = true;
    if (it->second.out.empty()) finish(who, it->second);
  }

  // The other side reads what was sent, then the end; it closes then. Whoever does not is dropped
  // with those who do not prove themselves.
  void finish(ConnId id, Conn& c) {
    shutdown(c.fd.get(), SHUT_WR);
    c.until = now() + to_prove_;
    if (std::find(unproven_.begin(), unproven_.end(), id) == unproven_.end())
      unproven_.push_back(id);
  }

  void drop(ConnId id, const std::string& how) {
    if (std::find_if(dead_.begin(), dead_.end(), [&](const auto& d) { return d.first == id; }) ==
        dead_.end())
      dead_.emplace_back(id, how);
  }

  // Closes what has ended, and tells the meeting, which may send to others and end them.
  void bury() {
    while (!dead_.empty()) {
      const auto [id, how] = dead_.back();
      dead_.pop_back();
      std::erase(unproven_, id);
      if (conns_.erase(id) == 0) continue;
      keys_.gone(id);
      meeting_.ended(id, how);
    }
  }

  std::string address_, token_;
  const double to_prove_;
  Descriptor listener_, offer_, wake_, poll_;
  double rest_until_ = 0;
  ConnId last_id_ = kOffer;
  std::unordered_map<ConnId, Conn> conns_;
  std::vector<ConnId> unproven_;
  std::vector<std::pair<ConnId, std::string>> dead_;
  Keys keys_;
  Meeting meeting_;
  std::atomic<bool> stop_{false};
  std::atomic<int> here_{0};
  std::atomic<size_t> open_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Server> Server::start(const ServerOptions& options) {
  return std::make_unique<Loop>(options);
}

Variables rank_variables(const Server& server, int rank, int world_size, int local_rank,
                         int local_world_size) {
  const Address a = parse_address(server.address());
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(local_world_size)},
          {"MASTER_ADDR", a.host},
          {"MASTER_PORT", std::to_string(a.port)},
          {"TYCHO_STORE", server.address()},
          {"TYCHO_TOKEN", server.token()}};
}

}  // namespace tycho::dist
