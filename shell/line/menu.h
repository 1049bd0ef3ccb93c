// The candidates of a completion, shown in columns below the entry.
#pragma once
#include <string>
#include <vector>

#include "shell/line/editor.h"
#include "shell/line/layout.h"

namespace tycho::line {

class Menu {
 public:
  void open(Completion completion, std::string typed);
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  int selected() const { return selected_; }  // -1: none yet
  size_t begin() const { return completion_.begin; }
  size_t count() const { return completion_.items.size(); }
  const std::string& typed() const { return typed_; }  // what stood there before
  const Candidate& item(int i) const { return completion_.items[static_cast<size_t>(i)]; }
  std::string common_part() const;
  void step(int by);                 // the next or previous one, around the ends
  void move(int columns, int rows);  // in the grid that was last shown
  std::vector<Row> rows(int width, int most);

 private:
  bool has_notes() const;
  std::vector<int> columns_when(int high, int first, int width) const;
  std::vector<Row> list_rows(int width);
  Completion completion_;
  std::string typed_;
  bool open_ = false;
  int selected_ = -1;
  std::vector<int> widths_;  // of the candidates
  int grid_rows_ = 1;        // of a page, as last shown
};

}  // namespace tycho::line
