// Notes: remarks on code that runs but probably does not do what was meant (a forgotten zero_grad,
// a loss that compared every pair). The engine sees them; whoever runs scripts has the texts, says
// each once for a line of the user's code, and may turn it into an error.
#pragma once
#include <initializer_list>

#include "engine/grad/node.h"

namespace tycho::watch {

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

// Are both shapes stretched over the same n, one by a 1 that it has, the other by a dimension that
// it lacks? [n, 1] with [1, n] says what is meant; [n, 1] with [n] mostly does not.
bool stretched_over_pairs(const Sizes& a, const Sizes& b);

// What stopped the last sweep on this thread, for a message with the user's own lines.
struct Blame {
  std::string saved_by, changed_by;  // operations
  Where saved_at, changed_at;
};
inline thread_local Blame last_blame;

// Losses over classes that this thread computed while it trained: how many, and the classes of the
// last. While there are offers left, each is told to who shows notes (a dataset waits for it).
struct ClassLosses {
  int64_t count = 0, classes = 0;
  int offers = 0;
};
inline constinit thread_local ClassLosses class_losses;

}  // namespace tycho::watch
