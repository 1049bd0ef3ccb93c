// The server's half of liveness: who is here, who has died or left, what they do while others wait
// for them, and how the rest goes on. A meeting goes through sessions: when all ranks of one have
// ended, the next may join. Within a session, a shrink begins a new generation.
#pragma once
#include <atomic>
#include <map>

#include "engine/dist/agreement.h"

namespace tycho::dist {

class Meeting {
 public:
  // `world_size` -1: the first rank to join says. `served_by`: the rank that serves, or -1.
  Meeting(Sender& out, int world_size, int served_by);

  void join(ConnId from, Reader body, double now);
  // A message of a rank that has joined; false: `from` has not.
  bool handle(ConnId from, Msg msg, Reader& body, double now);
  // An announcement over the store's connection of this rank.
  void announce(ConnId from, int rank, uint32_t session, Reader body, double now);
  void cancel(ConnId from, uint32_t request) { agreement_.cancel(from, request); }
  void ended(ConnId who, const std::string& how);  // the end of any connection
  void tick(double now);
  double next_tick() const;
  void close();  // the server ends: who waits for the next session tries again elsewhere
  int first_gone() const { return first_gone_; }  // from any thread
  int present() const { return present_ + static_cast<int>(parked_.size()); }

 private:
  enum class State : uint8_t { Absent, Here, Left, Dead, Out };
  struct Member {
    State state = State::Absent;
    ConnId watch = 0;
    int64_t pid = 0;
    std::string host, machine;
    double until = 0, seconds = 0;  // of joining
    std::string said;               // how it left
  };
  struct Parked {
    ConnId conn;
    std::string body;
    double until;
  };
  struct Question {  // about who is late
    ConnId asker;
    std::string head;
    std::vector<std::pair<int, std::string>> answers;
    size_t open = 0;
    double until = 0;
  };
  struct Regroup {
    ConnId conn;
    std::vector<int> stay;
    double until, seconds;
  };

  std::string name(int rank) const;  // "rank 2 (pid 4711 on h1)"
  Failure how_ended(int rank) const;
  std::vector<int> with_state(State state) const;
  void refuse(ConnId who, const Failure& why);
  void welcome();
  void next_session(double now);
  void died(int rank, const std::string& how);
  void left(int rank, Reader& body);
  void fail(const Failure& why);
  void late(int rank, Reader& body, double now);
  void say(uint32_t id);
  void shrink(int rank, Reader& body, double now);
  void try_regroup();
  void no_regroup(const Failure& why);

  Sender& out_;
  const bool fixed_world_;
  const int served_by_;
  std::vector<Member> members_;
  std::map<ConnId, int> rank_of_;
  int present_ = 0;
  std::atomic<int> first_gone_{-1};
  bool complete_ = false;
  uint32_t session_ = 0, generation_ = 0, questions_ = 0;
  Failure failure_;
  Agreement agreement_;
  std::vector<Parked> parked_;
  std::map<uint32_t, Question> open_questions_;
  std::map<std::pair<uint32_t, uint32_t>, int> said_;  // how often about a collective
  std::map<int, Regroup> regroup_;
};

}  // namespace tycho::dist
