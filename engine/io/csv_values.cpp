// Values of a table's fields: numbers, classes, texts, and what a column's kind is guessed from;
// see csv.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/io/csv.h"
#include "engine/io/csv_text.h"
#include "engine/io/file.h"

namespace tycho::io {
namespace {

// A field in a message: the beginning of a long one.
std::string shown(std::string_view s) {
  std::string out = "\"";
  for (char c : s.substr(0, 40)) out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  return out + (s.size() > 40 ? "..\"" : "\"");
}

bool bool_word(std::string_view s, bool* value) {
  *value = s == "true" || s == "True" || s == "TRUE";
  return *value || s == "false" || s == "False" || s == "FALSE";
}

}  // namespace

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

Parsed parse_number(std::string_view s, int64_t* whole, double* real) {
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  const char *first = s.data(), *last = first + s.size();
  if (const auto r = std::from_chars(first, last, *whole); r.ec == std::errc() && r.ptr == last)
    return Parsed::Int;
  const auto r = std::from_chars(first, last, *real);
  if (s.empty() || r.ptr != last || r.ec == std::errc::invalid_argument) return Parsed::No;
  if (r.ec == std::errc::result_out_of_range) {
    const size_t e = s.find_first_of("eE"), digit = s[0] == '-';
    const bool small = e != s.npos ? s[e + 1] == '-' : s[digit] == '0' || s[digit] == '.';
    *real =
        std::copysign(small ? 0 : std::numeric_limits<double>::infinity(), s[0] == '-' ? -1 : 1);
  }
  return Parsed::Float;
}

void CsvReader::put_text(CsvColumn& c, std::string_view text) {
  c.texts.resize(rows_ > 0 ? c.cells[rows_ - 1] : 0);
  c.texts.append(text);
  c.cells[rows_] = c.texts.size();
}

void CsvReader::store(CsvColumn& c, const Field& f) {
  const std::string_view text = trimmed(f.text);
  switch (c.kind) {
    case CsvColumn::Skip:
      return;
    case CsvColumn::Text:
      put_text(c, f.text);
      return;
    case CsvColumn::Class: {
      auto found = c.codes.find(std::string(text));
      if (found == c.codes.end()) {
        if (c.listed) misfit(c, text, "one of the classes that were given");
        c.classes.emplace_back(text);
        found = c.codes.emplace(text, static_cast<int64_t>(c.classes.size())).first;
      }
      c.cells[rows_] = static_cast<uint64_t>(found->second);
      return;
    }
    case CsvColumn::Guess:
      decide(c, text, f);
      return;
    case CsvColumn::Bool: {
      bool value;
      if (bool_word(text, &value))
        c.cells[rows_] = value;
      else if (c.fixed)
        misfit(c, text, "true or false");
      else
        widen(c, CsvColumn::Text, f);
      return;
    }
    default:
      store_number(c, text, f);
  }
}

Parsed CsvReader::number(std::string_view text, int64_t* whole, double* real) const {
  if (options_.decimal == '.') return parse_number(text, whole, real);
  char plain[64];
  if (text.size() > sizeof plain || text.find('.') != text.npos) return Parsed::No;
  std::ranges::replace_copy(text, plain, options_.decimal, '.');
  return parse_number({plain, text.size()}, whole, real);
}

void CsvReader::store_number(CsvColumn& c, std::string_view text, const Field& f) {
  int64_t whole = 0;
  double real = 0;
  Parsed parsed = number(text, &whole, &real);
  if ((parsed == Parsed::No || number_missing_) && options_.missing.count(std::string(text))) {
    parsed = Parsed::Float;
    real = kNaN;
  }
  if (c.kind == CsvColumn::Int) {
    if (parsed == Parsed::Int) {
      c.cells[rows_] = static_cast<uint64_t>(whole);
      return;
    }
    if (c.fixed) misfit(c, text, "a whole number");
    if (parsed == Parsed::No) return widen(c, CsvColumn::Text, f);
    widen(c, CsvColumn::Float, f);
  } else if (parsed == Parsed::No) {
    if (c.fixed) misfit(c, text, "a number");
    return widen(c, CsvColumn::Text, f);
  }
  c.cells[rows_] = bits_of(parsed == Parsed::Int ? static_cast<double>(whole) : real);
}

// The first value of a column whose kind is not known; the rows before it have none.
void CsvReader::decide(CsvColumn& c, std::string_view text, const Field& f) {
  int64_t whole;
  double real;
  bool truth;
  if (options_.missing.count(std::string(text))) return put_text(c, f.text);
  const Parsed parsed = number(text, &whole, &real);
  if (parsed != Parsed::No) {
    c.kind = rows_ > 0 || parsed == Parsed::Float ? CsvColumn::Float : CsvColumn::Int;
    for (int64_t i = 0; i < rows_; ++i) c.cells[i] = bits_of(kNaN);
    return store_number(c, text, f);
  }
  c.kind = rows_ == 0 && bool_word(text, &truth) ? CsvColumn::Bool : CsvColumn::Text;
  store(c, f);
}

void CsvReader::widen(CsvColumn& c, CsvColumn::Kind kind, const Field& f) {
  if (kind == CsvColumn::Float) {
    for (int64_t i = 0; i < rows_; ++i)
      c.cells[i] = bits_of(static_cast<double>(static_cast<int64_t>(c.cells[i])));
    c.kind = kind;
  } else if (rows_ == 0) {
    c.kind = kind;
    put_text(c, f.text);
  } else {
    c.again = true;
    c.kind = CsvColumn::Skip;
  }
}

Tensor CsvReader::tensor(const CsvColumn& c) const {
  const DType dtype = c.kind == CsvColumn::Bool    ? DType::Bool
                      : c.kind != CsvColumn::Float ? DType::Int64
                      : c.short_float              ? DType::Float32
                                                   : DType::Float64;
  Tensor t = empty({rows_}, dtype);
  if (dtype == DType::Bool)
    for (int64_t i = 0; i < rows_; ++i) t.host<uint8_t>()[i] = c.cells[i] != 0;
  else if (dtype == DType::Float32)
    for (int64_t i = 0; i < rows_; ++i)
      t.host<float>()[i] = static_cast<float>(as_double(c.cells[i]));
  else if (rows_ > 0)
    std::memcpy(t.host(), c.cells.get(), static_cast<size_t>(rows_) * 8);
  return t;
}

std::string_view CsvReader::text(const CsvColumn& c, int64_t row) const {
  const uint64_t first = row > 0 ? c.cells[row - 1] : 0;
  return std::string_view(c.texts).substr(first, c.cells[row] - first);
}

void CsvReader::misfit(const CsvColumn& c, std::string_view text, const char* wanted) const {
  wrong(shown(text) + " is not " + wanted,
        format("dtype = {[\"%s\"] = \"text\"} among the options  -- or \"float32\", \"class\": "
               "what the column holds",
               c.name.c_str()));
}

}  // namespace tycho::io
