// The server's half of agreement: every member of a group announces what it asks for, and when all
// have, all are told to go, or what each of them asked for. Nothing is kept of a collective after
// that.
#pragma once
#include <functional>
#include <limits>
#include <map>

#include "engine/dist/keys.h"
#include "engine/dist/types.h"

namespace tycho::dist {

class Agreement {
 public:
  // `ended`: how a rank has ended; Reason::None while it is there.
  Agreement(Sender& out, std::function<Failure(int rank)> ended)
      : out_(out), ended_(std::move(ended)) {}
  // u32 request, u32 generation, f64 seconds, u32 group, u32 seq, u64 hash, text, line, and the
  // members as ranks of the world, none for all of it. The caller has read the first two.
  void announce(ConnId from, uint32_t request, int rank, int world, Reader body, double now);
  // A rank is gone: who waits for it is told so.
  void lost(int rank, const Failure& why);
  void fail_all(const Failure& why);
  void gone(ConnId who);
  void cancel(ConnId who, uint32_t request);
  void tick(double now);  // timeouts
  double next_tick() const { return next_; }
  std::vector<int> missing(uint32_t group, uint32_t seq) const;

 private:
  struct Place {
    ConnId conn;
    uint32_t request;
    double until, seconds;
    Asked asked;
  };
  struct Pending {
    bool whole = false;  // all of the world
    std::vector<int> ranks;
    std::vector<Place> places;
    std::vector<int> missing() const;
  };
  using Key = std::pair<uint32_t, uint32_t>;  // group, seq
  void fail(const Place& place, const Failure& why);
  void finish(const Key& key, Pending& pending);
  Sender& out_;
  std::function<Failure(int rank)> ended_;
  double next_ = std::numeric_limits<double>::infinity();
  std::map<Key, Pending> pending_;
};

// u8 reason, ranks, text
inline Writer& write_failure(Writer& w, const Failure& f) {
  return w.u8(static_cast<uint8_t>(f.reason)).list(f.ranks).text(f.text);
}
inline Failure read_failure(Reader& r) {
  Failure f;
  f.reason = static_cast<Reason>(r.u8());
  f.ranks = r.list();
  f.text = r.string();
  if (f.reason > Reason::System) throw BadFrame{};
  return f;
}

}  // namespace tycho::dist
