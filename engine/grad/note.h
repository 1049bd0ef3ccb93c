// Notes: remarks on code that runs but probably does not do what was meant (a forgotten zero_grad,
// a loss that compared every pair). The engine sees them; whoever runs scripts has the texts, says
// each once for a line of the user's code, and may turn it into an error.
#pragma once
#include <initializer_list>

#include "engine/grad/node.h"

namespace tycho::grad {

struct NoteValue {
  const char* name;  // as in the catalogue of texts: {op}, {shape}, ...
  std::string value;
};

// Null: notes are not shown. May raise.
extern void (*show_note)(const char* code, const char* form, Where where,
                         std::initializer_list<NoteValue> values);
// Was this note said (or switched off) for this line? Then its values need not be made.
extern bool (*note_is_done)(const char* code, Where where);

inline bool wants_note(const char* code, Where where) {
  return show_note && !note_is_done(code, where);
}
Where here();                          // the user's line that is running
std::string bare_name(const Node& n);  // "max" of the op "max.dim"

// Are both shapes stretched over the same n, one by a 1 that it has, the other by a dimension that
// it lacks? [n, 1] with [1, n] says what is meant; [n, 1] with [n] mostly does not.
bool stretched_over_pairs(const Sizes& a, const Sizes& b);

// --- The losses' part ---
// Did every element of a prediction [n, 1] meet every element of a target [n]?
void note_pairs(const char* op, const Tensor& prediction, const Tensor& target);
void note_softmax(const Tensor& scores);  // does cross_entropy's input come from softmax?

// --- Gradients that were not zeroed ---
// The storage of a gradient carries, in place of who changed it last, how many passes it sums and
// whether an optimiser has used it.
struct Passes {
  const char* mark;
  int32_t count;
};
Passes passes_of(const Storage& s);
void gradient_added(Storage& s, Passes before);       // one more pass, after what there was before
bool keeps_passes(const Storage& s, const char* op);  // a change by `op` leaves the count as it is
// An optimiser is about to use the gradient: the number of passes it sums when an earlier step has
// used some of them and nothing zeroed it in between, else 0.
int use_gradient(Storage& s);

// --- Running totals that keep every graph ---
// On while records are looked at for total = total + loss; the sweep turns it on now and then.
inline constinit thread_local bool watch_totals = false;
void look_for_total(const Node& node);
void count_sweep();

// What stopped the last sweep on this thread, for a message with the user's own lines.
struct Blame {
  std::string saved_by, changed_by;  // operations
  Where saved_at, changed_at;
};
inline thread_local Blame last_blame;

// --- A float64 constant that made a float64 result of a float32 chain ---
// Noted when a sweep comes by: where only values are compared, the wider type is welcome.
inline constinit thread_local bool promotions_seen = false;
void promotion_recorded(const Call& c, const Node& node);
void promotion_swept(const Node& node);

}  // namespace tycho::grad
