// Jupyter's messages over ZeroMQ, protocol 5.4. One thread owns all sockets: it answers heartbeats,
// interrupts and questions about the kernel while the main thread computes, reads what the process writes
// on its standard streams, and sends what the main thread has to say. A module: the program starts without
// libzmq.
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/module.h"
#include "shell/kernel_wire.h"

namespace tycho::shell {
namespace {

constexpr char kDelimiter[] = "<IDS|MSG>";
constexpr char kVersion[] = "5.4";

std::string random_name() {
  std::array<unsigned char, 16> bytes;
  RAND_bytes(bytes.data(), bytes.size());
  std::string out;
  char room[3];
  for (const unsigned char b : bytes) {
    std::snprintf(room, sizeof room, "%02x", b);
    out += room;
  }
  return out;
}

std::string now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  tm parts;
  gmtime_r(&t.tv_sec, &parts);
  char room[64];
  const size_t n = strftime(room, sizeof room, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(room + n, sizeof room - n, ".%06ldZ", t.tv_nsec / 1000);
  return room;
}

// The bytes of the character that begins here; 0 where none does, -1 where it is cut off.
int character(const std::string& s, size_t i) {
  const auto at = [&](size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned char c = at(i);
  if (c < 0x80) return 1;
  const int n = c >= 0xc2 && c < 0xe0   ? 2
                : c >= 0xe0 && c < 0xf0 ? 3
                : c >= 0xf0 && c < 0xf5 ? 4
                                        : 0;
  for (int k = 1; k < n; ++k) {
    if (i + static_cast<size_t>(k) >= s.size()) return -1;
    const unsigned char next = at(i + static_cast<size_t>(k));
    if ((next & 0xc0) != 0x80) return 0;
    if (k == 1 && ((c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) ||
                   (c == 0xf0 && next < 0x90) || (c == 0xf4 && next > 0x8f)))
      return 0;
  }
  return n;
}

// Valid UTF-8; what is none becomes the character that says so.
std::string valid(const std::string& s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    const int n = character(s, i);
    if (n > 0) {
      out.append(s, i, static_cast<size_t>(n));
      i += static_cast<size_t>(n);
    } else {
      out += "\xef\xbf\xbd";
      ++i;
    }
  }
  return out;
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  char room[8];
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      std::snprintf(room, sizeof room, "\\u%04x", static_cast<unsigned char>(c));
      out += room;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string encoded(uint32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c >= 0x10000) {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
  } else if (c >= 0x800) {
    out += static_cast<char>(0xe0 | c >> 12);
  }
  if (c >= 0x800)
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
  else
    out += static_cast<char>(0xc0 | c >> 6);
  return out + static_cast<char>(0x80 | (c & 0x3f));
}

// The text of a field of an object of texts: {"msg_type": "execute_request"}; "" where there is none.
std::string text_field(const std::string& json, const std::string& name) {
  size_t at = json.find('"' + name + '"');
  if (at == std::string::npos) return "";
  at = json.find_first_not_of(" \t\r\n", at + name.size() + 2);
  if (at == std::string::npos || json[at] != ':') return "";
  at = json.find_first_not_of(" \t\r\n", at + 1);
  if (at == std::string::npos || json[at] != '"') return "";
  const auto code = [&](size_t from) {
    return static_cast<uint32_t>(std::strtoul(json.substr(from, 4).c_str(), nullptr, 16));
  };
  std::string out;
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] != '\\' || at + 1 >= json.size()) {
      out += json[at];
      continue;
    }
    static constexpr char kNames[] = "nbtrf", kMeanings[] = "\n\b\t\r\f";
    const char c = json[++at];
    if (c == 'u') {
      uint32_t u = code(at + 1);
      at += 4;
      if (u >= 0xd800 && u < 0xdc00 && json.compare(std::min(at + 1, json.size()), 2, "\\u") == 0) {
        u = 0x10000 + ((u - 0xd800) << 10) + ((code(at + 3) - 0xdc00) & 0x3ff);
        at += 6;
      }
      out += encoded(u);
    } else {
      const char* known = std::strchr(kNames, c);
      out += known && *known ? kMeanings[known - kNames] : c;
    }
  }
  return valid(out);
}

struct Letter {  // from the main thread
  enum Kind { Reply, Publish, Ask, Parent } kind;
  std::string type, content;
  KernelMessage to;
};

class Wire final : public KernelWire {
 public:
  Wire(const KernelConnection& c, const KernelHooks& h) : connection_(c), hooks_(h) {}
  ~Wire() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        ending_ = true;
      }
      wake();
      thread_.join();
    }
    for (void* s : {shell_, control_, iopub_, input_, heartbeat_})
      if (s) zmq_close(s);
    if (context_) zmq_ctx_term(context_);
    if (wake_ >= 0) close(wake_);
  }
  Wire(const Wire&) = delete;

  bool open(std::string* why) {
    digest_ = EVP_get_digestbyname(connection_.digest.c_str());
    if (!connection_.key.empty() && !digest_) {
      *why = "the connection file asks for signatures by \"hmac-" + connection_.digest +
             "\", which libcrypto does not know; hmac-sha256 is usual";
      return false;
    }
    context_ = zmq_ctx_new();
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!context_ || wake_ < 0) {
      *why = std::string("no sockets can be had: ") + std::strerror(errno);
      return false;
    }
    return bind(&shell_, ZMQ_ROUTER, connection_.shell, "shell_port", why) &&
           bind(&control_, ZMQ_ROUTER, connection_.control, "control_port", why) &&
           bind(&iopub_, ZMQ_XPUB, connection_.iopub, "iopub_port", why) &&
           bind(&input_, ZMQ_ROUTER, connection_.input, "stdin_port", why) &&
           bind(&heartbeat_, ZMQ_ROUTER, connection_.heartbeat, "hb_port", why);
  }

  void start() {
    sigset_t all, old;  // signals are the main thread's
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    thread_ = std::thread([this] {
      run();
      {
        const std::lock_guard lock(mutex_);
        over_ = gone_ = true;
      }
      changed_.notify_all();
    });
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  const KernelMessage* next() override { return take(true); }
  const KernelMessage* next_at_hand() override { return take(false); }
  int waiting() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what is under way arrives
    const std::lock_guard lock(mutex_);
    return static_cast<int>(requests_.size());
  }

  void reply(const std::string& type, const std::string& content) override {
    post({Letter::Reply, type, content, current_});
  }
  void publish(const std::string& type, const std::string& content) override {
    post({Letter::Publish, type, content, current_});
  }
  bool ask(const std::string& prompt, std::string* line) override {
    {
      const std::lock_guard lock(mutex_);
      answer_.reset();
      asking_ = true;
    }
    post({Letter::Ask, "input_request", "{\"prompt\":" + quoted(prompt) + ",\"password\":false}",
          current_});
    std::unique_lock lock(mutex_);
    while (!answer_ && !gone_ && !hooks_.interrupted())
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    asking_ = false;
    if (!answer_) return false;
    *line = std::move(*answer_);
    return true;
  }

 private:
  bool bind(void** out, int kind, int port, const char* name, std::string* why) {
    void* s = *out = zmq_socket(context_, kind);
    const int linger = 3000, yes = 1, most_waiting = 100000;
    std::string at = connection_.transport + "://" + connection_.address +
                     (connection_.transport == "ipc" ? "-" : ":") + std::to_string(port);
    bool ok = s && zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger) == 0;
    // A client that comes again under its old name takes the place of what is left of it.
    if (kind == ZMQ_ROUTER) zmq_setsockopt(s, ZMQ_ROUTER_HANDOVER, &yes, sizeof yes);
    if (kind == ZMQ_XPUB) zmq_setsockopt(s, ZMQ_XPUB_VERBOSE, &yes, sizeof yes);
    if (kind == ZMQ_XPUB) zmq_setsockopt(s, ZMQ_SNDHWM, &most_waiting, sizeof most_waiting);
    // The server that chose the port has held it a moment ago, and others look for ports as well.
    for (int attempt = 0; ok && attempt < 10; ++attempt) {
      if (zmq_bind(s, at.c_str()) == 0) return true;
      if (errno != EADDRINUSE) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      errno = EADDRINUSE;
    }
    *why = errno == EADDRINUSE
               ? at + " is taken (" + name +
                     " of the connection file): another kernel runs there, or another program"
               : "cannot listen at " + at + " (" + name +
                     " of the connection file): " + zmq_strerror(errno);
    return false;
  }

  void wake() {
    const uint64_t one = 1;
    if (write(wake_, &one, sizeof one) < 0) return;
  }
  // Waits until it is sent: what is written on the streams afterwards comes after it.
  void post(Letter letter) {
    std::unique_lock lock(mutex_);
    letters_.push_back(std::move(letter));
    wake();
    changed_.wait(lock, [&] { return letters_.empty() || over_; });
  }

  const KernelMessage* take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [&] { return gone_ || !requests_.empty(); });
    if (requests_.empty()) return nullptr;
    current_ = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    post({Letter::Parent, "", "", current_});
    return &current_;
  }

  // --- the thread of the sockets ---

  void run() {
    const char* parent =
        std::getenv("JPY_PARENT_PID");  // who started the kernel, and may be killed
    const pid_t began_under = getppid();
    int alone = 0;
    while (true) {
      std::array<zmq_pollitem_t, 8> items = {{{shell_, 0, ZMQ_POLLIN, 0},
                                              {control_, 0, ZMQ_POLLIN, 0},
                                              {input_, 0, ZMQ_POLLIN, 0},
                                              {heartbeat_, 0, ZMQ_POLLIN, 0},
                                              {iopub_, 0, ZMQ_POLLIN, 0},
                                              {nullptr, wake_, ZMQ_POLLIN, 0},
                                              {nullptr, hooks_.out, ZMQ_POLLIN, 0},
                                              {nullptr, hooks_.err, ZMQ_POLLIN, 0}}};
      const int n = zmq_poll(items.data(), static_cast<int>(items.size()), parent ? 1000 : -1);
      if (n < 0 && errno != EINTR) return leave();
      if (parent && getppid() != began_under) {
        leave();
        if (n == 0 && ++alone == 10)
          _exit(1);  // what runs cannot be stopped, and nobody is left to do it
      }
      if (items[3].revents) echo();
      if (items[4].revents) welcome();
      if (items[1].revents) receive(control_, true);
      if (items[2].revents) receive(input_, false);
      if (items[0].revents) receive(shell_, false);
      // Lines that are printed one after the other become one message.
      if (n > 0 && !items[5].revents && (items[6].revents || items[7].revents))
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      drain();
      bool ending = false;
      if (items[5].revents) {
        uint64_t count;
        if (read(wake_, &count, sizeof count) < 0) count = 0;
      }
      while (true) {
        std::optional<Letter> letter;
        {
          const std::lock_guard lock(mutex_);
          ending = ending_;
          if (!letters_.empty()) letter = letters_.front();
        }
        if (!letter) break;
        drain();  // what was written before it
        deliver(*letter);
        {
          const std::lock_guard lock(mutex_);
          letters_.pop_front();
        }
        changed_.notify_all();
      }
      if (ending) return drain();  // the last words came after the others were read
    }
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    changed_.notify_all();
    hooks_.interrupt();
  }

  using Frames = std::vector<std::string>;

  // The frames of one message; empty when none waits.
  static Frames frames_of(void* socket) {
    Frames out;
    int more = 1;
    while (more) {
      zmq_msg_t m;
      zmq_msg_init(&m);
      if (zmq_msg_recv(&m, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&m);
        return {};
      }
      out.emplace_back(static_cast<const char*>(zmq_msg_data(&m)), zmq_msg_size(&m));
      more = zmq_msg_more(&m);
      zmq_msg_close(&m);
    }
    return out;
  }
  static void send(void* socket, const Frames& frames) {
    for (size_t i = 0; i < frames.size(); ++i)
      if (zmq_send(socket, frames[i].data(), frames[i].size(),
                   ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0)) < 0)
        return;  // nobody is there any more
  }

  void echo() {
    for (Frames f; !(f = frames_of(heartbeat_)).empty();) send(heartbeat_, f);
  }

  // Whoever begins to listen is told so: from here on nothing is missed.
  void welcome() {
    for (Frames f; !(f = frames_of(iopub_)).empty();) {
      if (f[0].empty() || f[0][0] != 1) continue;
      const std::string topic = f[0].substr(1);
      send(iopub_, packed({topic}, "iopub_welcome", "{}",
                          "{\"subscription\":" + quoted(valid(topic)) + "}"));
    }
  }

  std::string signature(const std::string* parts) const {
    if (connection_.key.empty()) return "";
    const std::string all = parts[0] + parts[1] + parts[2] + parts[3];
    unsigned char room[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    HMAC(digest_, connection_.key.data(), static_cast<int>(connection_.key.size()),
         reinterpret_cast<const unsigned char*>(all.data()), all.size(), room, &n);
    std::string out;
    char digits[3];
    for (unsigned i = 0; i < n; ++i) {
      std::snprintf(digits, sizeof digits, "%02x", room[i]);
      out += digits;
    }
    return out;
  }

  void receive(void* socket, bool control) {
    for (Frames f; !(f = frames_of(socket)).empty();) {
      size_t mark = 0;
      while (mark < f.size() && f[mark] != kDelimiter) ++mark;
      if (f.size() < mark + 6) {
        hooks_.remark("a message without all its parts came, and was left out");
        continue;
      }
      const std::string wanted = signature(&f[mark + 2]);
      if (!connection_.key.empty() &&
          (f[mark + 1].size() != wanted.size() ||
           CRYPTO_memcmp(f[mark + 1].data(), wanted.data(), wanted.size()) != 0)) {
        hooks_.remark("a message with a wrong signature came, and was left out");
        continue;
      }
      KernelMessage m;
      m.control = control;
      m.from.assign(f.begin(), f.begin() + static_cast<ptrdiff_t>(mark));
      m.header = f[mark + 2];
      m.content = f[mark + 5];
      m.type = text_field(m.header, "msg_type");
      if (m.type.empty() || valid(m.header) != m.header)
        hooks_.remark("a message without a type came, and was left out");
      else if (socket == input_)
        answered(m);
      else if (control)
        controlled(std::move(m));
      else
        push(std::move(m), false);
    }
  }

  void push(KernelMessage m, bool first) {
    {
      const std::lock_guard lock(mutex_);
      if (first)
        requests_.push_front(std::move(m));
      else
        requests_.push_back(std::move(m));
    }
    changed_.notify_all();
  }

  // An answer to a question that nobody asks any more is left out.
  void answered(const KernelMessage& m) {
    if (m.type != "input_reply") return;
    {
      const std::lock_guard lock(mutex_);
      if (!asking_) return;
      answer_ = text_field(m.content, "value");
    }
    changed_.notify_all();
  }

  // Requests that must not wait for what runs.
  void controlled(KernelMessage m) {
    const bool stop = m.type == "interrupt_request", info = m.type == "kernel_info_request";
    if (m.type == "shutdown_request") {
      push(std::move(m), true);
      hooks_.interrupt();
      return;
    }
    if (!stop && !info) return push(std::move(m), true);
    status(m, "busy");
    if (stop) hooks_.interrupt();
    send(control_, packed(m.from, stop ? "interrupt_reply" : "kernel_info_reply", m.header,
                          stop ? "{\"status\":\"ok\"}" : hooks_.info));
    status(m, "idle");
  }
  void status(const KernelMessage& m, const char* state) {
    send(iopub_, packed({"kernel.status"}, "status", m.header,
                        std::string("{\"execution_state\":\"") + state + "\"}"));
  }

  // A message of ours: to whom, type, the header that it answers, content.
  Frames packed(Frames frames, const std::string& type, const std::string& parent,
                const std::string& content) {
    const std::string parts[] = {
        "{\"msg_id\":\"" + session_ + "_" + std::to_string(++sent_) + "\",\"session\":\"" +
            session_ + "\",\"username\":\"kernel\",\"date\":\"" + now() + "\",\"msg_type\":\"" +
            type + "\",\"version\":\"" + kVersion + "\"}",
        parent.empty() ? "{}" : parent, "{}", valid(content)};
    frames.emplace_back(kDelimiter);
    frames.push_back(signature(parts));
    frames.insert(frames.end(), std::begin(parts), std::end(parts));
    return frames;
  }

  void deliver(const Letter& l) {
    switch (l.kind) {
      case Letter::Parent:
        // What is written from here on belongs to this request.
        parent_ = l.to.header;
        return;
      case Letter::Reply:
        return send(l.to.control ? control_ : shell_,
                    packed(l.to.from, l.type, l.to.header, l.content));
      case Letter::Publish:
        return send(iopub_, packed({"kernel." + l.type}, l.type, l.to.header, l.content));
      case Letter::Ask:
        return send(input_, packed(l.to.from, l.type, l.to.header, l.content));
    }
  }

  // --- standard output and error ---

  struct Stream {
    const char* name;
    int fd;
    std::string rest = {};  // the beginning of a character
  };

  void drain() {
    for (Stream& s : streams_) {
      char room[16384];
      ssize_t n = 0;
      std::string text;
      // What is written without end goes out in pieces, so that the sockets get their turn.
      while (text.size() < (1 << 20) &&
             ((n = read(s.fd, room, sizeof room)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) text.append(room, static_cast<size_t>(n));
      if (text.empty()) continue;
      text.insert(0, std::exchange(s.rest, {}));
      for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        if (character(text, text.size() - back) != -1) continue;
        s.rest = text.substr(text.size() - back);
        text.resize(text.size() - back);
        break;
      }
      if (text.empty()) continue;
      send(iopub_, packed({std::string("stream.") + s.name}, "stream", parent_,
                          std::string("{\"name\":\"") + s.name +
                              "\",\"text\":" + quoted(valid(text)) + "}"));
    }
  }

  const KernelConnection connection_;
  const KernelHooks hooks_;
  const EVP_MD* digest_ = nullptr;
  const std::string session_ = random_name();
  void *context_ = nullptr, *shell_ = nullptr, *control_ = nullptr, *iopub_ = nullptr,
       *input_ = nullptr, *heartbeat_ = nullptr;
  int wake_ = -1;
  KernelMessage current_;  // the main thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<KernelMessage> requests_;
  std::deque<Letter> letters_;
  std::optional<std::string> answer_;
  bool asking_ = false, gone_ = false, ending_ = false, over_ = false;

  // The thread's own.
  uint64_t sent_ = 0;
  std::string parent_;
  std::array<Stream, 2> streams_{Stream{"stdout", hooks_.out}, Stream{"stderr", hooks_.err}};
  std::thread thread_;
};

}  // namespace

TYCHO_MODULE_EXPORT KernelWire* tycho_open_kernel_wire(const KernelConnection& connection,
                                                       const KernelHooks& hooks, std::string* why) {
  auto wire = std::make_unique<Wire>(connection, hooks);
  if (!wire->open(why)) return nullptr;
  wire->start();
  return wire.release();
}

}  // namespace tycho::shell
