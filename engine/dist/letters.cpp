// Notes and letters.
#include "engine/dist/letters.h"

#include <algorithm>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/dist/socket.h"

namespace tycho::dist {
namespace {

// Collectives count from 1 in the upper bits.
constexpr uint64_t kNotes = 1;
constexpr uint64_t kLetter = uint64_t{1} << 63;
constexpr double kFarewell = 5;  // seconds for the last notes

std::string described(int64_t n, DType t, const std::string& line) {
  return format("%lld elements of %s%s%s", static_cast<long long>(n), dtype_name(t),
                line.empty() ? "" : " at ", line.c_str());
}

}  // namespace

Letters::Letters(Courier& courier)
    : courier_(courier), peers_(static_cast<size_t>(courier.size())) {
  notes_ = courier_.buffer(&incoming_, sizeof incoming_);
  thread_ = std::thread([this] { run(); });
}

Letters::~Letters() {
  over_ = true;
  courier_.wake();
  thread_.join();
  // Who sent a letter waits to hear that it was taken.
  const double until = now() + kFarewell;
  for (size_t k = 0; k < peers_.size(); ++k)
    for (const auto& posted : peers_[k].posted)
      if (posted->note.kind != Kind::Offer && !courier_.closed() &&
          !courier_.sent_until(*posted->buffer, until))
        break;
}

void Letters::start(Message& m) {
  m.moved = 0;
  m.done = false;
  const auto letter = std::make_shared<Letter>();
  letter->send = m.send;
  letter->peer = m.peer;
  letter->tag = m.tag;
  letter->span = m.span;
  letter->line = m.line;
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  open_[&m] = letter;
  int peer = m.peer;
  try {
    if (m.send) return offer(letter);
    asked_.push_back(letter);
    for (int k = 0; k < courier_.size(); ++k)
      if (peer = k; (m.peer < 0 || m.peer == k) && match(letter, k)) break;
  } catch (const MeshError& e) {
    courier_.broken(peer, e, {});
  }
}

void Letters::offer(const Held& letter) {
  Peer& peer = peers_[static_cast<size_t>(letter->peer)];
  const Span& span = letter->span;
  letter->id = peer.offered++;
  peer.leaving[letter->id] = letter;
  Note note{Kind::Offer, letter->tag, span.t, span.n, letter->id, 0, {}};
  std::strncpy(note.line, to_string(letter->line).c_str(), sizeof note.line - 1);
  if (span.n > 0) {
    letter->buffer = courier_.buffer(span.p, span.bytes());
    letter->buffer->send(letter->peer, kLetter | letter->id, 0, static_cast<size_t>(span.bytes()));
  }
  tell(letter->peer, note);
}

bool Letters::poll(const std::vector<Message*>& open) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  seen_ = moved_;
  bool some = false;
  for (Message* m : open) {
    const auto it = open_.find(m);
    if (m->done || it == open_.end() || !it->second->done) continue;
    const Letter& letter = *it->second;
    if (!letter.send && letter.span.n > 0)
      copy_bytes(m->span.p, letter.room.get(), static_cast<size_t>(letter.span.bytes()));
    m->peer = letter.peer;
    m->moved = letter.span.bytes();
    m->done = some = true;
    open_.erase(it);
  }
  return some;
}

void Letters::wait(Seconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return moved_ != seen_ || error_ != nullptr; });
}

void Letters::tell(int to, Note note) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  auto posted = std::make_unique<Posted>();
  ++peer.told;
  note.consumed = peer.consumed;
  posted->note = note;
  posted->buffer = courier_.buffer(&posted->note, sizeof(Note));
  posted->buffer->send(to, kNotes, 0, sizeof(Note));
  peer.posted.push_back(std::move(posted));
}

// Takes the first offer that fits.
bool Letters::match(const Held& letter, int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  const auto it = std::find_if(peer.offers.begin(), peer.offers.end(),
                               [&](const Note& n) { return n.tag == letter->tag; });
  if (it == peer.offers.end()) return false;
  const Note offer = *it;
  peer.offers.erase(it);
  std::erase(asked_, letter);
  letter->peer = from;
  letter->id = offer.id;
  Note answer{Kind::Taken, letter->tag, letter->span.t, letter->span.n, offer.id, 0, {}};
  if (offer.n != letter->span.n || offer.dtype != letter->span.t) {
    answer.kind = Kind::Refused;
    const std::string line = to_string(letter->line);
    std::strncpy(answer.line, line.c_str(), sizeof answer.line - 1);
    tell(from, answer);
    disagree(from, courier_.rank(), described(offer.n, offer.dtype, offer.line),
             described(letter->span.n, letter->span.t, line));
  }
  if (offer.n == 0) {
    tell(from, answer);
    ready(letter);
    return true;
  }
  const int64_t bytes = letter->span.bytes();
  letter->room = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes));
  letter->buffer = courier_.buffer(letter->room.get(), bytes);
  letter->buffer->receive(from, kLetter | letter->id, 0, static_cast<size_t>(bytes));
  landing_.push_back(letter);
  landing_some_ = true;
  if (std::this_thread::get_id() != thread_.get_id()) courier_.wake();
  return true;
}

void Letters::disagree(int from, int to, const std::string& sent, const std::string& wanted) {
  const int a = courier_.world_rank(from), b = courier_.world_rank(to);
  throw DistError({Reason::Disagree,
                   {a, b},
                   format("ranks disagree in a message; r%d sends %s, r%d expects %s", a,
                          sent.c_str(), b, wanted.c_str())});
}

void Letters::ready(const Held& letter) {
  letter->done = true;
  ++moved_;
  changed_.notify_all();
}

// The bytes of a letter only wait for the network.
void Letters::land_all() {
  for (;;) {
    Held letter;
    {
      const std::lock_guard lock(mutex_);
      landing_some_ = !landing_.empty();
      if (landing_.empty()) return;
      letter = landing_.front();
      landing_.pop_front();
    }
    Desc message;
    message.line = letter->line;
    Wait looks(courier_.job(), message);
    courier_.wait(*letter->buffer, Courier::Way::Received, letter->peer, looks, message);
    const std::lock_guard lock(mutex_);
    letter->buffer.reset();
    try {
      tell(letter->peer,
           {Kind::Taken, letter->tag, letter->span.t, letter->span.n, letter->id, 0, {}});
    } catch (const MeshError& e) {
      courier_.broken(letter->peer, e, message);
    }
    ready(letter);
  }
}

void Letters::handle(int from, const Note& note) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(from)];
  // Notes that have been read are no longer being sent.
  const uint64_t first = peer.told - peer.posted.size();
  for (uint64_t k = first; k < note.consumed && !peer.posted.empty(); ++k) peer.posted.pop_front();
  ++peer.consumed;
  if (note.kind == Kind::Offer) {
    peer.offers.push_back(note);
    const auto waits = [&](const Held& l) {
      return (l->peer < 0 || l->peer == from) && l->tag == note.tag;
    };
    const auto it = std::find_if(asked_.begin(), asked_.end(), waits);
    if (it != asked_.end()) match(Held(*it), from);
    return;
  }
  const auto it = peer.leaving.find(note.id);
  if (it == peer.leaving.end()) return;
  const Held letter = it->second;
  peer.leaving.erase(it);
  letter->buffer.reset();
  if (note.kind == Kind::Refused)
    disagree(courier_.rank(), from,
             described(letter->span.n, letter->span.t, to_string(letter->line)),
             described(note.n, note.dtype, note.line));
  ready(letter);
}

void Letters::run() {
  const HoldInterrupts hold;
  const auto fine = [&] { return !over_ && !courier_.job().failed() && !courier_.closed(); };
  bool waiting = false;
  while (fine()) {
    int from = -1;
    try {
      try {
        land_all();
        if (!waiting) notes_->receive_any(kNotes, 0, sizeof(Note));
        waiting = true;
        from = courier_.wait_any(*notes_, [&] { return fine() && !landing_some_; });
        if (from < 0) continue;
        waiting = false;
        handle(from, incoming_);
      } catch (const MeshError& e) {
        courier_.broken(from, e, {});
      }
    } catch (const DistError& e) {
      fail(std::current_exception());
      // Ranks that do not agree in a message have not lost each other.
      if (e.reason != Reason::Disagree) courier_.close(e.text);
    }
  }
  if (over_) return;
  courier_.close("a message has failed");
  if (courier_.job().failed()) fail(std::make_exception_ptr(DistError(courier_.job().failure())));
  const std::lock_guard lock(mutex_);
  for (Peer& p : peers_) p.leaving.clear();
  landing_.clear();
}

void Letters::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

}  // namespace tycho::dist
