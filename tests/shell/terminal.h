// A tycho that runs in a real pseudo-terminal: the test types keys and reads the screen's bytes.
#pragma once
#include <sys/types.h>
#include <termios.h>

#include <map>
#include <string>
#include <vector>

struct Launch {
  std::vector<std::string> arguments = {};
  std::map<std::string, std::string> environment = {};  // beside TERM, HOME and PATH
  int columns = 80;
};

class Terminal {
 public:
  explicit Terminal(const Launch& launch = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;

  void type(const std::string& keys);
  // Reads until `text` comes after what was found before; false when it does not in time.
  bool see(const std::string& text);
  // Types an entry and waits for `text` in what it prints, then for the next prompt.
  bool enter(const std::string& entry, const std::string& text);
  bool prompt() { return see("\x1b[?2004h"); }  // pastes are welcome when it reads
  void interrupt() { type("\x03"); }
  void signal(int number);  // to the process, not by a key
  void resize(int columns, int rows);
  // Reads for this long; what came in this time.
  std::string watch(int milliseconds);
  // Waits for the end; 128 + signal when killed by one, -1 when it does not come.
  int exit_status();
  termios settings() const;

  std::string all;  // every byte so far

 private:
  bool read_some(int milliseconds);
  int fd_ = -1;
  pid_t pid_ = -1;
  size_t seen_ = 0;
};

std::string program();                                      // the tycho under test
Launch at_home(const std::string& name, int columns = 80);  // with a home directory of its own
std::string temporary_directory();         // one for the whole run, removed at its end
std::string without_escapes(std::string);  // the text without control sequences
