// The editor in a real pseudo-terminal, and an emulator that shows what a person would see there.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "tests/shell/line/emulator.h"

using Evaluate = std::function<void(const std::string&)>;

// Reads entries until the end and says what it got.
void read_entries(const Evaluate& evaluate);

// A child that reads entries in a terminal of its own.
class Pty {
 public:
  struct Options {
    std::map<std::string, std::string> environment = {};
    Evaluate evaluate = nullptr;  // runs in the child, for every entry
    int columns = 80, rows = 24;
    bool under_shell = false;  // with job control
  };
  explicit Pty(const Options& options);
  ~Pty();
  Pty(const Pty&) = delete;

  void type(const std::string& keys);
  void signal(int number);
  void hang_up();  // the terminal goes, as a window that is closed
  void resize(int columns, int rows);
  bool raw() const;
  void drain();  // reads what is there
  // Reads until it is so; false, with a failure, when it does not come.
  bool see(const std::function<bool()>& there, const std::string& what);
  bool see_end(const std::string& text);  // the last rows of everything shown so far
  bool see_somewhere(const std::string& text);
  bool see_raw(bool wanted);
  // 128 + signal when killed by one. Keys that end it are pressed until they do.
  int exit_status(const std::string& keys = "");

  Emulator screen;
  std::string bytes;  // every one so far

 private:
  bool read_some(int milliseconds);
  int fd_ = -1;
  pid_t pid_ = -1;
};
