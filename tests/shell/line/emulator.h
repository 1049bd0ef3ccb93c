// A small terminal: what a person would see of the bytes that a program writes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

class Emulator {
 public:
  Emulator(int columns, int rows);
  void feed(std::string_view bytes);
  // As terminals that wrap rows anew do it.
  void resize(int columns, int rows);

  struct Cell {
    std::string text = " ";  // empty for the second half of a wide character
    std::string look;        // SGR codes joined by ";", without a reset
    bool operator==(const Cell&) const = default;
  };
  struct Row {
    std::vector<Cell> cells;
    bool goes_on = false;  // the terminal itself broke the line here
  };

  std::string text(int row) const;  // without blanks at its end
  std::string look(int row, int column) const;
  const Row& row(int r) const { return rows_[static_cast<size_t>(r)]; }
  std::string all() const;    // rows down to the last that is not blank, with newlines
  std::string lines() const;  // the same with what has scrolled away before it
  const std::string& look_now() const { return look_; }
  int cursor_row() const { return y_; }
  int cursor_column() const { return x_; }
  int columns() const { return columns_; }
  int rows() const { return height_; }
  bool pastes_bracketed() const { return bracketed_; }
  std::string trouble;  // what a real terminal might do something else with

 private:
  void put(std::string_view character, int width);
  void control(char c);
  void sequence();
  void set_look();
  void line_feed();
  Row blank() const { return {std::vector<Cell>(static_cast<size_t>(columns_)), false}; }
  void clear_cell(int column);
  int columns_, height_, x_ = 0, y_ = 0;
  bool pending_ = false, bracketed_ = false;
  std::vector<Row> rows_, gone_;
  std::string look_, partial_;
};
