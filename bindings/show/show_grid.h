// A vector or a matrix of a shown tensor as aligned cells.
#pragma once
#include <algorithm>
#include <cmath>

#include "bindings/show/show_numbers.h"
#include "engine/base/interrupt.h"
#include "engine/tensor/read.h"

namespace tycho::lua {

constexpr int64_t kGap = -1;
using Positions = std::vector<int64_t>;

// The positions shown of n: all, or `before` and `after` at the ends with a gap between.
inline Positions ends(int64_t n, int64_t before, int64_t after) {
  Positions out;
  const bool all = n <= before + after + 2 && before + after >= 2;
  for (int64_t i = 0; i < (all ? n : std::min(n, before)); ++i) out.push_back(i);
  if (all) return out;
  out.push_back(kGap);
  for (int64_t i = std::max(before, n - after); i < n; ++i) out.push_back(i);
  return out;
}

inline Positions every(int64_t n) {
  Positions out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  return out;
}

struct Cell {
  std::string text;
  const Mark* mark = nullptr;
};

// A piece of a tensor (a vector or a matrix) in cells of one format.
struct Grid {
  const Impl* t;
  int64_t first;  // the position of its first element in the tensor
  int64_t rows = 1, columns = 1;
  Positions row, column;
  std::vector<std::vector<Cell>> cells;
  std::vector<size_t> width;
  bool wide_gap = false;  // two spaces between columns
  Format format;
  int spare = 100;  // zeros that all cells can do without

  int64_t at(int64_t r, int64_t c) const { return first + r * columns + c; }

  template <class F>
  void each(F&& f) const {
    for (int64_t r : row) {
      check_interrupt();
      for (int64_t c : column)
        if (r != kGap && c != kGap) f(at(r, c));
    }
  }

  // The format that all cells have in common is chosen from the values shown: `see` them, then
  // `trim` what they can do without.
  void see(Chooser* chooser) const {
    if (is_floating(t->dtype)) each([&](int64_t i) { chooser->see(number_at(t, i)); });
  }
  void trim(const Format& f, int* zeros) const {
    if (!is_floating(t->dtype)) return;
    each([&](int64_t i) {
      const double x = number_at(t, i);
      if (std::isfinite(x) && !(x == 0 && f.kind == Format::Exponent))
        *zeros = std::min(*zeros, spare_zeros(float_text(x, f)));
    });
  }

  void fill(const ShowStyle& style, bool trim_each) {
    const bool floats = is_floating(t->dtype);
    cells.clear();
    width.assign(column.size(), 0);
    wide_gap = t->dtype != DType::Bool;
    bool fractions = false;
    for (int64_t r : row) {
      check_interrupt();
      auto& line = cells.emplace_back();
      for (size_t k = 0; k < column.size(); ++k) {
        const int64_t c = column[k];
        Cell cell;
        if (r == kGap || c == kGap) {
          cell.text = "..";
        } else if (t->dtype == DType::Bool) {
          cell.text = integer_at(t, at(r, c)) ? "#" : ".";
        } else if (!floats) {
          cell.text = std::to_string(integer_at(t, at(r, c)));
        } else {
          const double x = number_at(t, at(r, c));
          cell.text = float_text(x, format);
          cell.text = without_zeros(cell.text, trim_each ? spare_zeros(cell.text)
                                               : std::isfinite(x) && spare < 100
                                                   ? std::min(spare, spare_zeros(cell.text))
                                                   : 0);
          if (std::isnan(x)) cell.mark = &style.nan;
          if (std::isinf(x)) cell.mark = &style.inf;
          fractions = fractions || cell.text.find_first_of(".nie") != std::string::npos;
        }
        width[k] = std::max(width[k], cell.text.size());
        line.push_back(std::move(cell));
      }
    }
    if (trim_each) wide_gap = fractions;
  }

  int64_t columns_taken() const {
    int64_t n = 0;
    for (size_t w : width) n += static_cast<int64_t>(w) + (wide_gap ? 2 : 1);
    return n - (wide_gap ? 1 : 0);
  }

  // Line `i`, its cells one under the other, without spaces before the first and after the last.
  std::string text(size_t i, bool aligned) const {
    std::string out;
    for (size_t k = 0; k < cells[i].size(); ++k) {
      const Cell& c = cells[i][k];
      if (k > 0) out += wide_gap ? "  " : " ";
      if (aligned) out += std::string(width[k] - c.text.size(), ' ');
      out += c.mark ? c.mark->before + c.text + c.mark->after : c.text;
    }
    return out;
  }
};

inline Grid make_grid(const Impl* t, int64_t first) {
  Grid g;
  g.t = t;
  g.first = first;
  const int last = t->rank - 1;
  g.columns = t->shape[last];
  if (t->rank > 1) g.rows = t->shape[last - 1];
  return g;
}

// Calls f(grid, index) for the first `count` matrices of a tensor, index holding their place in the
// dimensions before the last two.
template <class F>
void each_matrix(const Impl* t, int64_t count, F&& f) {
  int64_t index[kMaxDims] = {}, first = 0;
  for (int64_t i = 0; i < count; ++i) {
    check_interrupt();
    Grid g = make_grid(t, first);
    f(g, index);
    first += g.rows * g.columns;
    for (int d = t->rank - 3; d >= 0; --d) {
      if (++index[d] < t->shape[d]) break;
      index[d] = 0;
    }
  }
}

// Fills the matrices of a tensor: one format, and columns of the same width in all of them. The
// columns that a line takes.
inline int64_t fill_all(std::vector<Grid>* grids, const Positions& row, const Positions& column,
                        const ShowStyle& style, bool trim_each) {
  Chooser chooser;
  for (Grid& g : *grids) {
    g.row = row;
    g.column = column;
    g.see(&chooser);
  }
  const Format format = chooser.choose(significant());
  int spare = 100;
  for (const Grid& g : *grids) g.trim(format, &spare);
  std::vector<size_t> width(column.size(), 0);
  bool gap = false;
  for (Grid& g : *grids) {
    g.format = format;
    g.spare = spare;
    g.fill(style, trim_each);
    gap = gap || g.wide_gap;
    for (size_t k = 0; k < width.size(); ++k) width[k] = std::max(width[k], g.width[k]);
  }
  for (Grid& g : *grids) {
    g.width = width;
    g.wide_gap = gap;
  }
  return grids->front().columns_taken();
}

// The same with the ends of what is too long: as many columns as fit into `room`, at least one.
inline void fill_ends(std::vector<Grid>* grids, const ShowStyle& style, int64_t room,
                      bool trim_each) {
  const int64_t edge = std::max(1, print_options.edge), columns = grids->front().columns;
  const Positions row = ends(grids->front().rows, edge, edge);
  if (columns <= 2 * edge + 2 && fill_all(grids, row, every(columns), style, trim_each) <= room)
    return;
  for (int64_t k = 2 * edge; k >= 2; --k)
    if (fill_all(grids, row, ends(columns, (k + 1) / 2, k / 2), style, trim_each) <= room) return;
  fill_all(grids, row, columns > 1 ? Positions{0, kGap} : Positions{0}, style, trim_each);
}

}  // namespace tycho::lua
