// What ranks print, as whole lines with the rank in front, and rank 0's progress bar below them.
#pragma once
#include <string>
#include <string_view>

namespace tycho::shell {

class Lines {
 public:
  // `to`: 1 or 2. With `bar`, an unfinished line that begins with a carriage return is shown as it
  // changes, below all other lines.
  Lines(int rank, int to, bool bar)
      : prefix_("[r" + std::to_string(rank) + "] "), to_(to), bar_(bar) {}
  void add(std::string_view data);
  void end();  // what is there is a line
  static void clear_bar();

 private:
  void print(std::string_view line);
  const std::string prefix_;
  const int to_;
  const bool bar_;
  std::string rest_;
};

}  // namespace tycho::shell
