// `tycho run`: starts the ranks of a job, shows what they print, and ends them together.
#pragma once
#include <string>
#include <vector>

namespace tycho::shell {

struct RunOptions {
  int ranks = 1;  // on this machine
  int nodes = 1, node = 0;
  std::string master;  // host, where rank 0's machine is reached; empty: this one alone
  int port = 0;
  std::string token;  // empty: a new one, or rank 0's
  int restarts = 0;
  std::vector<std::string> command;  // what follows the program's name: a script and its arguments
  int status = -1;                   // from 0: nothing is to be run, this is the exit status
};
RunOptions read_run_options(const std::vector<std::string>& words);

int launch(const RunOptions& options);  // the exit status

// Does the command line ask for `tycho run`? Alone, the word may be a file's name.
bool is_run(int argc, char** argv);

}  // namespace tycho::shell
