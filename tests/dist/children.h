// Ranks as child processes, for what threads cannot show: death, being stopped, the end of a process.
// They are forked before this process has threads of its own, and told where to meet afterwards.
#pragma once
#include <sys/types.h>

#include "tests/dist/ranks.h"

namespace tycho::dist {

class Children {
 public:
  using Function = std::function<void(const Env&)>;
  // Every child waits for its Env, then runs `f`, tells what it has raised, and ends.
  Children(int n, Function f);
  ~Children();  // ends those that still run
  void begin(int rank, const Env& env);
  void begin(const Server& server, const RanksOptions& options = {});  // all
  void signal(int rank, int number);
  // What the child has raised; "signal 9" as the text when it told nothing.
  Outcome outcome(int rank);
  // A line from a child (Children::say), to know how far it is.
  char heard(int rank);
  static void say(char c);

 private:
  struct Child {
    pid_t pid = -1;
    int in = -1, out = -1, said = -1;
    bool ended = false;
  };
  std::vector<Child> children_;
};

}  // namespace tycho::dist
