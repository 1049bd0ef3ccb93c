// Letters: messages between two members of a mesh. The sender tells what it has in a note; when the
// receiver has asked for it, the bytes come, and a note says so. One thread waits for the notes of
// all others; whoever sends and receives only looks at what has come of it.
#pragma once
#include <deque>
#include <map>

#include "engine/dist/courier.h"

namespace tycho::dist {

class Letters {
 public:
  using Message = Transport::Message;
  explicit Letters(Courier& courier);
  ~Letters();  // waits for notes that are still on their way
  void start(Message& m);
  bool poll(const std::vector<Message*>& open);
  void wait(Seconds at_most);

 private:
  enum class Kind : uint32_t { Offer, Taken, Refused };
  struct Note {
    Kind kind = Kind::Offer;
    int32_t tag = 0;
    DType dtype = DType::Float32;
    int64_t n = 0;
    uint64_t id = 0;        // of the letter, counted by its sender
    uint64_t consumed = 0;  // of the notes that its receiver has sent to this one
    char line[64] = {};
  };
  struct Letter {
    bool send = false;
    int peer = -1, tag = 0;
    Span span;
    Where line;
    uint64_t id = 0;
    bool done = false;
    std::unique_ptr<char[]> room;  // what arrives: the message's own memory may be gone by then
    std::unique_ptr<Mesh::Buffer> buffer;
  };
  using Held = std::shared_ptr<Letter>;
  struct Posted {  // a note on its way
    Note note;
    std::unique_ptr<Mesh::Buffer> buffer;
  };
  struct Peer {
    std::deque<std::unique_ptr<Posted>> posted;
    uint64_t told = 0, consumed = 0, offered = 0;
    std::deque<Note> offers;           // nobody has asked for them
    std::map<uint64_t, Held> leaving;  // by id
  };

  void run();  // on the thread
  void land_all();
  void handle(int from, const Note& note);
  void fail(std::exception_ptr error);
  // The rest with the lock.
  void offer(const Held& letter);
  void tell(int to, Note note);
  bool match(const Held& letter, int from);
  void ready(const Held& letter);
  [[noreturn]] void disagree(int from, int to, const std::string& sent, const std::string& wanted);

  Courier& courier_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::map<const Message*, Held> open_;
  std::deque<Held> asked_, landing_;  // receives: without an offer, and with bytes on their way
  std::exception_ptr error_;
  uint64_t moved_ = 0, seen_ = 0;  // how often something has; what `poll` has seen of it
  std::atomic<bool> over_{false}, landing_some_{false};  // for the thread
  Note incoming_;
  std::unique_ptr<Mesh::Buffer> notes_;
  std::thread thread_;
};

}  // namespace tycho::dist
