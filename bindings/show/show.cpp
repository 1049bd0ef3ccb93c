// How a tensor is shown: first its dtype, shape, device and state, then its values, bounded: edges
// with `..` between, a summary above 1000 elements. A nonzero value is never shown as 0, nan and
// inf are never hidden, and the format is chosen from the values shown.
#include "bindings/show/show.h"

#include <algorithm>
#include <cmath>

#include "bindings/show/show_grid.h"
#include "engine/cpu/reduce/summary.h"
#include "engine/grad/record.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho::lua {

constinit thread_local PrintOptions print_options;

bool has_values(const Impl* t) { return !has_no_values(*t->storage); }

namespace {

constexpr int64_t kInWords = 10;      // "all 2" from this many elements on
constexpr int64_t kOnHeadLine = 12;   // values of a 1-d tensor where only one line is shown
constexpr int64_t kSeveralRows = 12;  // more rows than this: of many matrices only the first

// --- the parts of the text ---

// "f32 [3, 4]", device, bytes, flags: joined by two spaces and broken at the width.
std::string join_pieces(const std::vector<std::string>& pieces, int width, size_t at) {
  std::string out;
  for (const std::string& p : pieces) {
    size_t columns = 0;
    for (char c : p) columns += (c & 0xc0) != 0x80;
    if (!out.empty() && at + 2 + columns > static_cast<size_t>(width)) {
      out += "\n  ";
      at = 2;
    } else if (!out.empty()) {
      out += "  ";
      at += 2;
    }
    out += p;
    at += columns;
  }
  return out;
}

// How the elements of a tensor that is not row-major lie.
const char* order_of(const Tensor& x) {
  if (x->base || !is_dense(x.get())) return "non-contiguous";
  const int rank = x.rank();
  if (rank == 4 || rank == 5)
    if (shown_as(x, tycho::Format::ChannelsLast)) return "channels last";
  return rank >= 2 && x.strides() == columns_strides(x.shape()) ? "by columns" : "non-contiguous";
}

std::vector<std::string> head(const Tensor& x) {
  const Impl* t = x.get();
  std::vector<std::string> out;
  out.push_back(std::string(dtype_short_name(t->dtype)) + " " + to_string(x.shape()));
  if (!t->device.is_cpu()) out.push_back(device_name(t->device));
  const int64_t bytes = t->numel * dtype_size(t->dtype);
  if (bytes > 100000) out.push_back(bytes_text(bytes));
  if (t->rank > 0 && t->base) out.push_back("view");
  if (t->rank > 0 && !shown_contiguous(t)) out.push_back(order_of(x));
  if (grad::requires_grad(x.get())) {
    if (t->node)
      out.push_back(std::string("grad_fn=") + static_cast<Node*>(t->node.get())->name());
    else
      out.push_back("requires_grad");
  }
  if (t->extra && t->extra->grad) out.push_back("has grad");
  return out;
}

// What a pass over at most 1000 elements tells.
cpu::Summary look_at(const Impl* t, bool* equal) {
  if (t->numel > 1000) {
    const cpu::Summary s = cpu::summarize(t);
    const bool one = is_floating(t->dtype) ? s.min == s.max : s.least == s.most;
    *equal = (s.finite == t->numel && one) || s.nan == t->numel || s.plus == t->numel ||
             s.minus == t->numel;
    return s;
  }
  cpu::Summary s;
  bool same = true;
  const double first = number_at(t, 0);
  const int64_t first_int = is_floating(t->dtype) ? 0 : integer_at(t, 0);
  for (int64_t i = 0; i < t->numel; ++i) {
    const double x = number_at(t, i);
    same = same && (x == first || (std::isnan(x) && std::isnan(first))) &&
           (is_floating(t->dtype) || integer_at(t, i) == first_int);
    if (std::isnan(x))
      ++s.nan;
    else if (std::isinf(x))
      ++(x > 0 ? s.plus : s.minus);
  }
  *equal = same;
  return s;
}

std::string element_text(const Impl* t, int64_t at, int digits) {
  if (t->dtype == DType::Bool) return integer_at(t, at) ? "true" : "false";
  if (!is_floating(t->dtype)) return std::to_string(integer_at(t, at));
  return number_text(number_at(t, at), digits, true);
}

void add_counts(const cpu::Summary& s, const ShowStyle& style, std::vector<std::string>* out) {
  const auto add = [&](int64_t n, const char* what, const Mark& m) {
    if (n > 0) out->push_back(m.before + count_text(n) + " " + what + m.after);
  };
  add(s.nan, "nan", style.nan);
  add(s.plus, "+inf", style.inf);
  add(s.minus, "-inf", style.inf);
}

// "min -2.12  max 2.64  mean -0.39  std 1.07   |▂▅█▇▂▁▁▂▂▁|" and the counts.
std::string summary_line(const Impl* t, const cpu::Summary& s, const ShowStyle& style) {
  std::vector<std::string> out;
  const int digits = significant();
  if (t->dtype == DType::Bool) {
    out.push_back(count_text(t->numel - s.zero) + " of " + count_text(t->numel) + " true");
  } else if (s.finite > 0) {
    const bool ints = !is_floating(t->dtype);
    std::string least = std::to_string(s.least), most = std::to_string(s.most);
    for (int more = 0; !ints && more < 15; ++more) {
      least = number_text(s.min, digits + more);
      most = number_text(s.max, digits + more);
      if (least != most || s.min == s.max) break;
    }
    out.push_back("min " + least);
    out.push_back("max " + most);
    out.push_back("mean " + number_text(s.mean, digits));
    if (s.finite > 1) out.push_back("std " + number_text(s.spread, digits));
    static const char* const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const auto top = static_cast<double>(*std::max_element(s.bins, s.bins + cpu::kSummaryBins));
    std::string bars = "|";
    for (int64_t n : s.bins) {
      const double eighths = std::ceil(static_cast<double>(n) / top * 8);
      bars += blocks[n == 0 ? 0 : std::clamp(static_cast<int>(eighths), 1, 8)];
    }
    out.push_back(bars + "|");
  }
  add_counts(s, style, &out);
  if (s.zero > 0 && t->dtype != DType::Bool)
    out.push_back(count_text(s.zero) + (s.zero == 1 ? " zero" : " zeros"));
  // What a mark adds takes no columns, and counts stand at the end: a short line at worst.
  return "\n  " + join_pieces(out, style.width, 2);
}

std::string label_of(const Impl* t, const int64_t* index) {
  std::string s = "[";
  for (int d = 0; d < t->rank - 2; ++d) s += std::to_string(index[d] + 1) + ", ";
  return s + ":, :]";
}

// How to see all of what is shown in part, behind `used` columns.
std::string full_hint(const ShowStyle& style, size_t used) {
  if (style.name.empty()) return "";
  const std::string hint = "(%full " + style.name + " for everything)";
  const bool beside = used > 0 && used + 3 + hint.size() <= static_cast<size_t>(style.width);
  return (beside ? "   " : "\n  ") + style.faint.before + hint + style.faint.after;
}

// A matrix as lines, its label before the first one when there is room in all of them.
void add_matrix(const Grid& g, const std::string& label, bool beside, const ShowStyle& style,
                std::string* out) {
  const std::string marked = style.label.before + label + style.label.after;
  if (!label.empty() && !beside) *out += "\n" + marked;
  const std::string indent(beside ? label.size() + 3 : 1, ' ');
  for (size_t i = 0; i < g.cells.size(); ++i) {
    *out += "\n";
    *out += beside && i == 0 ? marked + "   " : indent;
    *out += g.text(i, true);
  }
}

// The cells of a matrix in columns of one width; long rows go on in lines that are set in further.
void add_cells(const Grid& g, const std::string& label, size_t cell, const ShowStyle& style,
               std::string* out) {
  if (!label.empty()) *out += "\n" + style.label.before + label + style.label.after;
  const size_t gap = g.wide_gap ? 2 : 1;
  const size_t per_line = std::max<size_t>(1, (std::max(style.width, 20) - 3) / (cell + gap));
  for (const auto& line : g.cells) {
    check_interrupt();
    for (size_t k = 0; k < line.size(); ++k) {
      if (k % per_line == 0) *out += k == 0 || g.t->rank == 1 ? "\n " : "\n   ";
      if (k % per_line) *out += std::string(gap, ' ');
      const Cell& c = line[k];
      *out += std::string(cell - c.text.size(), ' ');
      *out += c.mark ? c.mark->before + c.text + c.mark->after : c.text;
    }
  }
}

size_t widest(const Grid& g) { return *std::max_element(g.width.begin(), g.width.end()); }

// Every value. Matrices are filled one after another, as there may be many.
void add_whole(const Impl* t, const ShowStyle& style, std::string* out) {
  int64_t count = 1;
  for (int d = 0; d < t->rank - 2; ++d) count *= t->shape[d];
  Chooser chooser;
  Format format;
  int spare = 100;
  size_t cell = 0;
  const auto pass = [&](auto&& f) {
    each_matrix(t, count, [&](Grid& g, const int64_t* index) {
      g.row = every(g.rows);
      g.column = every(g.columns);
      g.format = format;
      g.spare = spare;
      f(g, index);
    });
  };
  pass([&](Grid& g, const int64_t*) { g.see(&chooser); });
  format = chooser.choose(significant());
  int least = 100;
  pass([&](Grid& g, const int64_t*) { g.trim(format, &least); });
  spare = least;
  pass([&](Grid& g, const int64_t*) {
    g.fill(style, false);
    cell = std::max(cell, widest(g));
  });
  pass([&](Grid& g, const int64_t* index) {
    g.fill(style, false);
    add_cells(g, t->rank > 2 ? label_of(t, index) : "", cell, style, out);
  });
}

void add_body(const Impl* t, const ShowStyle& style, bool summarised, std::string* out) {
  if (style.full) return add_whole(t, style, out);
  const int last = t->rank - 1;
  const int64_t rows = t->rank > 1 ? t->shape[last - 1] : 1, columns = t->shape[last];
  int64_t count = 1;
  for (int d = 0; d < t->rank - 2; ++d) count *= t->shape[d];
  std::vector<Grid> grids;
  std::vector<std::string> labels;
  const auto take = [&](int64_t n) {
    grids.clear();
    labels.clear();
    each_matrix(t, n, [&](Grid& g, const int64_t* index) {
      grids.push_back(std::move(g));
      labels.push_back(t->rank > 2 ? label_of(t, index) : "");
    });
  };
  int64_t label = 0;
  const auto beside = [&] {
    for (const std::string& l : labels) label = std::max(label, static_cast<int64_t>(l.size()));
    return label > 0 && label + 3 + grids[0].columns_taken() <= style.width;
  };
  // What fits into the window is shown whole.
  bool whole = !summarised && count * rows <= style.lines && 2 * columns <= style.width;
  if (whole) {
    take(count);
    whole = fill_all(&grids, every(rows), every(columns), style, false) <= style.width - 2 &&
            (t->rank <= 2 || beside() || count * (rows + 1) <= style.lines);
  }
  const int64_t edge = std::max(1, print_options.edge);
  if (!whole) {
    const int64_t lines = rows <= 2 * edge + 2 ? rows : 2 * edge + 1;
    take(count <= kSeveralRows && count * lines <= kSeveralRows ? count : 1);
    fill_ends(&grids, style, style.width - 2, false);
  }
  const bool side = beside();
  for (size_t i = 0; i < grids.size(); ++i) {
    std::string own = labels[i];
    if (side) own.resize(label, ' ');
    add_matrix(grids[i], own, side, style, out);
  }
  const int64_t left = count - static_cast<int64_t>(grids.size());
  if (left == 0) {
    const auto all = [](const Positions& p) {
      return std::find(p.begin(), p.end(), kGap) == p.end();
    };
    if (!all(grids[0].row) || !all(grids[0].column)) *out += full_hint(style, 0);
    return;
  }
  std::string rest;
  if (t->rank == 3) {
    rest = count == 2 ? "[2, :, :]" : "[2.." + std::to_string(count) + ", :, :]";
    rest = style.label.before + rest + style.label.after + " same layout";
  } else {
    rest = count_text(left) + " more of the same layout";
  }
  *out += "\n" + rest;
  *out += full_hint(style, rest.size() - style.label.before.size() - style.label.after.size());
}

// A vector behind its header `line`, below it, in several lines, or its ends.
std::string vector_text(const Impl* t, const std::string& line, const ShowStyle& style) {
  const size_t used = line.size() - (line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1);
  const int64_t n = t->numel, room = style.width - static_cast<int64_t>(used);
  std::vector<Grid> grid = {make_grid(t, 0)};
  const auto gap = [&] { return std::string(grid[0].wide_gap ? "   " : "  "); };
  // Cells of one line need no common width.
  const auto taken = [&] {
    int64_t sum = 0;
    for (const Cell& c : grid[0].cells[0])
      sum += static_cast<int64_t>(c.text.size()) + (grid[0].wide_gap ? 2 : 1);
    return sum - (grid[0].wide_gap ? 2 : 1);
  };
  const int64_t most = style.line ? kOnHeadLine : style.width / 2;
  if (n <= most) {
    fill_all(&grid, {0}, every(n), style, true);
    if (taken() + static_cast<int64_t>(gap().size()) <= room)
      return line + gap() + grid[0].text(0, false);
    if (!style.line && taken() <= style.width - 2) return line + "\n  " + grid[0].text(0, false);
  }
  if (!style.line && n <= style.lines * style.width / 2) {
    fill_all(&grid, {0}, every(n), style, false);
    const size_t cell = widest(grid[0]) + (grid[0].wide_gap ? 2 : 1);
    const auto per_line =
        static_cast<int64_t>(std::max<size_t>(1, (std::max(style.width, 20) - 3) / cell));
    if ((n + per_line - 1) / per_line <= style.lines) {
      std::string text = line;
      add_cells(grid[0], "", widest(grid[0]), style, &text);
      return text;
    }
  }
  fill_ends(&grid, style, style.line ? room - 3 : style.width - 2, true);
  const int64_t more = taken() + static_cast<int64_t>(gap().size());
  if (more <= room)
    return line + gap() + grid[0].text(0, false) +
           (style.line ? "" : full_hint(style, used + more));
  if (style.line) return line;
  return line + "\n  " + grid[0].text(0, false) + full_hint(style, 2 + taken());
}

}  // namespace

std::string show_tensor(const Tensor& x, const ShowStyle& style) {
  const Tensor host = style.values && has_values(x.get()) ? fetch(x) : x;
  const Impl* t = host.get();
  std::vector<std::string> pieces = head(x);
  const auto finish = [&](const std::string& more) {
    std::vector<std::string> all = pieces;
    if (!more.empty()) all.push_back(more);
    return join_pieces(all, style.line ? 1 << 20 : style.width, 0);
  };
  if (t->numel == 0) return finish("empty");
  if (!has_values(x.get())) return finish("shape only");
  if (!style.values) return finish("");
  if (t->rank == 0) {
    std::string value = element_text(t, 0, significant() + 2);
    if (is_floating(t->dtype)) {
      const double v = number_at(t, 0);
      const Mark* m = std::isnan(v) ? &style.nan : std::isinf(v) ? &style.inf : nullptr;
      if (m) value = m->before + value + m->after;
    }
    return finish(value);
  }
  if (style.line && t->numel > 1000) return finish("");
  bool equal = false;
  const cpu::Summary s = look_at(t, &equal);
  if (t->numel >= kInWords && equal && !style.full) {
    const std::string value = element_text(t, 0, significant() + 2);
    return finish("all " + (value == "0" ? "zero" : value));
  }
  const bool summarised = static_cast<double>(t->numel) > print_options.threshold;
  if (t->rank == 1 && !summarised && !style.full) {
    return vector_text(t, finish(""), style);
  }
  if (style.line) return finish("");
  if (!summarised) add_counts(s, style, &pieces);
  std::string text = finish("");
  if (summarised) text += summary_line(t, t->numel > 1000 ? s : cpu::summarize(t), style);
  add_body(t, style, summarised, &text);
  return text;
}

std::string show(const Tensor& x) {
  if (print_options.pytorch) return show_as_pytorch(x);
  ShowStyle style;
  const int window = print_options.width > 0 ? print_options.width : window_columns();
  style.width = window > 0 ? std::max(window, 20) : 80;
  style.lines = window_lines();
  style.full = std::isinf(print_options.threshold);
  return show_tensor(x, style);
}

}  // namespace tycho::lua
