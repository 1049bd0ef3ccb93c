// How tensors become text: the options of torch.set_printoptions, and the two styles.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "bindings/core/lua.h"

namespace tycho::lua {

struct PrintOptions {
  int precision = -1;       // digits; -1: 3 significant ones here, 4 behind the point in PyTorch's
  double threshold = 1000;  // more elements than this are summarised
  int edge = 3;             // shown at each end of what is too long
  int width = 0;            // columns; 0: of the window, 80 where there is none
  int scientific = -1;      // -1: where it is needed
  bool pytorch = false;     // PyTorch's own text
};
extern constinit thread_local PrintOptions print_options;

// What a terminal may get around a part of the text: "\x1b[31m" and "\x1b[0m".
struct Mark {
  std::string before, after;
};
struct ShowStyle {
  int width = 80;
  int64_t lines = 20;  // that the values may take before their middle is left out
  bool full = false;   // every value
  bool line = false;   // one line only
  bool values = true;  // with values
  std::string name;    // of the variable, for the hint how to see all of it
  Mark nan, inf, label, faint;
};

std::string show_tensor(const Tensor& x, const ShowStyle& style);
std::string show_as_pytorch(const Tensor& x);
int window_columns();                            // of the terminal on standard output, else 0
int64_t window_lines();                          // for values: of the terminal, else of one with 24
void open_pictures(lua_State* L, int torch);     // _write_png, _write_text, _base64
void open_images(lua_State* L, int torch);       // _read_image and its kin
void open_csv(lua_State* L, int torch);          // _csv_open
void open_text(lua_State* L, int torch);         // _bpe_learn and its kin
void open_directories(lua_State* L, int torch);  // _read_bytes, _directory, _places
void open_show(lua_State* L, int torch);         // _show, _print_options, _terminal, _summary

// Is `t` a tensor whose memory may be read?
bool has_values(const Impl* t);

}  // namespace tycho::lua
