// How a tensor is shown: first its dtype, shape, device and state, then its values, bounded: edges
// with `..` between, a summary above 1000 elements. A nonzero value is never shown as 0, nan and
// inf are never hidden, and the format is chosen from the values shown.
#include "bindings/show/show.h"

#include <algorithm>
#include <cmath>

#include "bindings/show/show_grid.h"
#include "engine/cpu/reduce/summary.h"
#include "engine/grad/record.h"
#include "engine/tensor/read.h"

namespace tycho::lua {

constinit thread_local PrintOptions print_options;

bool has_values(const Impl* t) { return !has_no_values(*t->storage); }

namespace {

constexpr int64_t kInWords = 10;      // "all 2" from this many elements on
constexpr int64_t kOnHeadLine = 12;   // a short 1-d tensor stands on the header's line
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

std::vector<std::string> head(const Tensor& x) {
  const Impl* t = x.get();
  std::vector<std::string> out;
  out.push_back(std::string(dtype_short_name(t->dtype)) + " " + to_string(x.shape()));
  if (!t->device.is_cpu()) out.push_back(device_name(t->device));
  const int64_t bytes = t->numel * dtype_size(t->dtype);
  if (bytes > 100000) out.push_back(bytes_text(bytes));
  if (t->rank > 0 && t->base) out.push_back("view");
  if (t->rank > 0 && !shown_contiguous(t)) out.push_back("non-contiguous");
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
    const double top = *std::max_element(s.bins, s.bins + cpu::kSummaryBins);
    std::string bars = "|";
    for (double n : s.bins)
      bars += blocks[n <= 0 ? 0 : std::clamp(static_cast<int>(std::ceil(n / top * 8)), 1, 8)];
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

// A matrix as lines, its label before the first one when there is room.
void add_matrix(Grid* g, const std::string& label, const ShowStyle& style, std::string* out) {
  const std::string marked = style.label.before + label + style.label.after;
  const int64_t most = 2 * std::max(1, print_options.edge) + 2;
  fit(g, style, style.width - 2, false, most);
  const bool beside =
      !label.empty() && static_cast<int64_t>(label.size()) + 3 + g->columns_taken() <= style.width;
  if (!label.empty() && !beside) *out += "\n" + marked;
  const std::string indent(beside ? label.size() + 3 : 1, ' ');
  for (size_t i = 0; i < g->cells.size(); ++i) {
    *out += "\n";
    *out += beside && i == 0 ? marked + "   " : indent;
    *out += g->text(i, true);
  }
}

// Every value of a matrix; long rows go on in lines that are set in further.
void add_whole(Grid* g, const std::string& label, const ShowStyle& style, std::string* out) {
  if (!label.empty()) *out += "\n" + style.label.before + label + style.label.after;
  g->row = every(g->rows);
  g->column = every(g->columns);
  g->fill(style, false);
  const size_t cell = *std::max_element(g->width.begin(), g->width.end());
  const size_t gap = g->wide_gap ? 2 : 1;
  const size_t per_line = std::max<size_t>(1, (std::max(style.width, 20) - 3) / (cell + gap));
  for (const auto& line : g->cells) {
    check_interrupt();
    for (size_t k = 0; k < line.size(); ++k) {
      if (k % per_line == 0) *out += k == 0 || g->t->rank == 1 ? "\n " : "\n   ";
      if (k % per_line) *out += std::string(gap, ' ');
      const Cell& c = line[k];
      *out += std::string(cell - c.text.size(), ' ');
      *out += c.mark ? c.mark->before + c.text + c.mark->after : c.text;
    }
  }
}

void add_body(const Impl* t, const ShowStyle& style, std::string* out) {
  if (t->rank <= 2) {
    Grid g = make_grid(t, 0);
    return style.full ? add_whole(&g, "", style, out) : add_matrix(&g, "", style, out);
  }
  int64_t count = 1;
  for (int d = 0; d < t->rank - 2; ++d) count *= t->shape[d];
  const int64_t edge = std::max(1, print_options.edge), rows = t->shape[t->rank - 2];
  const int64_t lines = rows <= 2 * edge + 2 ? rows : 2 * edge + 1;
  const int64_t shown =
      style.full || (count <= kSeveralRows && count * lines <= kSeveralRows) ? count : 1;
  // One format for all matrices shown.
  Chooser chooser;
  Format format;
  int spare = 100;
  const auto pass = [&](auto&& f) {
    each_matrix(t, shown, [&](Grid& g, const int64_t* index) {
      g.row = style.full ? every(g.rows) : ends(g.rows, edge, edge);
      g.column = style.full ? every(g.columns) : ends(g.columns, edge, edge);
      f(g, index);
    });
  };
  pass([&](Grid& g, const int64_t*) { g.see(&chooser); });
  format = chooser.choose(significant());
  pass([&](Grid& g, const int64_t*) { g.trim(format, &spare); });
  pass([&](Grid& g, const int64_t* index) {
    g.format = format;
    g.spare = spare;
    g.format_given = true;
    if (style.full)
      add_whole(&g, label_of(t, index), style, out);
    else
      add_matrix(&g, label_of(t, index), style, out);
  });
  if (shown == count) return;
  std::string rest;
  if (t->rank == 3) {
    rest = count == 2 ? "[2, :, :]" : "[2.." + std::to_string(count) + ", :, :]";
    rest = style.label.before + rest + style.label.after + " same layout";
  } else {
    rest = count_text(count - 1) + " more of the same layout";
  }
  *out += "\n" + rest;
  if (!style.name.empty()) {
    const std::string hint = "(%full " + style.name + " for everything)";
    const size_t used = rest.size() - style.label.before.size() - style.label.after.size();
    *out += used + 3 + hint.size() <= static_cast<size_t>(style.width) ? "   " : "\n  ";
    *out += style.faint.before + hint + style.faint.after;
  }
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
    // On the header's line: all of a short one, else its ends.
    Grid g = make_grid(t, 0);
    std::string line = finish("");
    const size_t used = line.size() - (line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1);
    fit(&g, style, 1 << 20, true, kOnHeadLine);
    int64_t taken = g.wide_gap ? 3 : 2;
    for (const Cell& c : g.cells[0])
      taken += static_cast<int64_t>(c.text.size()) + (g.wide_gap ? 2 : 1);
    taken -= g.wide_gap ? 2 : 1;
    if (static_cast<int64_t>(used) + taken <= style.width)
      return line + (g.wide_gap ? "   " : "  ") + g.text(0, false);
    if (style.line) return line;
    fit(&g, style, style.width - 2, true, kOnHeadLine);
    return line + "\n  " + g.text(0, false);
  }
  if (style.line) return finish("");
  if (!summarised) add_counts(s, style, &pieces);
  std::string text = finish("");
  if (summarised) text += summary_line(t, t->numel > 1000 ? s : cpu::summarize(t), style);
  add_body(t, style, &text);
  return text;
}

std::string show(const Tensor& x) {
  if (print_options.pytorch) return show_as_pytorch(x);
  ShowStyle style;
  const int window = print_options.width > 0 ? print_options.width : window_columns();
  style.width = window > 0 ? std::max(window, 20) : 80;
  style.full = std::isinf(print_options.threshold);
  return show_tensor(x, style);
}

}  // namespace tycho::lua
