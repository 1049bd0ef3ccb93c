// Reading tables as text; see the header. A row that the buffer does not hold to its end is read
// again when more of the file is there: what its first fields stored is then written over.
#include "engine/io/csv.h"

#include <algorithm>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/io/csv_text.h"
#include "engine/io/file.h"

namespace tycho::io {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr size_t kLongestRow = size_t{256} << 20, kMostColumns = size_t{1} << 20;

// Powers of ten that doubles hold exactly.
constexpr double kTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                           1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

}  // namespace

CsvReader::CsvReader(const std::string& path, const CsvOptions& options)
    : path_(path), options_(options) {
  for (const std::string& s : options_.missing) {
    int64_t whole;
    double real;
    number_missing_ |= parse_number(s, &whole, &real) != Parsed::No && real == real;
  }
  open();
  for (size_t i = 0; i < std::min<size_t>(end_, 4096); ++i)
    if (buffer_[i] == 0)
      fail(Kind::Io, path_ + " is no text: it holds zero bytes",
           "encoding = \"utf-16\"  -- among the options reads a text in UTF-16");
  if (options_.encoding.empty()) {
    const size_t seen = std::min(end_, size_t{1} << 18);
    const std::string_view head(buffer_.get(), seen);
    check_not_gbk(seen < end_ ? head.substr(0, head.rfind('\n') + 1) : head, path_);
  }
  find_delimiter();
  read_header();
}

void CsvReader::open() {
  stream_ = std::make_unique<InputStream>(path_, options_.encoding);
  if (!buffer_) {
    buffer_ = std::make_unique_for_overwrite<char[]>(kBuffer + 2);
    size_ = kBuffer;
  }
  at_ = end_ = 0;
  line_ = 1;
  ended_ = false;
  fill();
  if (std::string_view(buffer_.get(), end_).starts_with("\xef\xbb\xbf")) at_ = 3;
  for (int64_t i = 0; i < options_.skip_rows; ++i) skip_line();
}

// More of the file behind what is not read yet; false at its end.
bool CsvReader::fill() {
  if (ended_) return false;
  check_interrupt();
  if (at_ > 0) std::memmove(buffer_.get(), buffer_.get() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  if (end_ == size_) {
    if (size_ >= kLongestRow)
      wrong(format("the row is longer than %zu MB; a quote that is never closed does that",
                   kLongestRow >> 20));
    auto larger = std::make_unique_for_overwrite<char[]>(2 * size_ + 2);
    std::memcpy(larger.get(), buffer_.get(), end_);
    buffer_ = std::move(larger);
    size_ *= 2;
  }
  const size_t got = stream_->read(buffer_.get() + end_, size_ - end_);
  ended_ = got < size_ - end_;
  end_ += got;
  if (ended_ && end_ > 0 && buffer_[end_ - 1] != '\n') buffer_[end_++] = '\n';
  buffer_[end_] = 0;
  return true;
}

void CsvReader::skip_line() {
  for (;;) {
    if (const void* found = std::memchr(buffer_.get() + at_, '\n', end_ - at_)) {
      at_ = static_cast<size_t>(static_cast<const char*>(found) - buffer_.get()) + 1;
      ++line_;
      return;
    }
    at_ = end_;
    if (!fill()) return;
  }
}

// Goes to the next line that holds something; false at the end of the file.
bool CsvReader::skip_empty_lines() {
  for (;;) {
    if (end_ - at_ < 2 && fill()) continue;
    if (at_ == end_) return false;
    const char c = buffer_[at_];
    if (c == '\n' || (c == '\r' && buffer_[at_ + 1] == '\n')) {
      at_ += c == '\n' ? 1 : 2;
      ++line_;
    } else if (options_.comment && c == options_.comment) {
      skip_line();
    } else {
      return true;
    }
  }
}

void CsvReader::find_delimiter() {
  delimiter_ = options_.delimiter ? options_.delimiter : ',';
  if (options_.delimiter == options_.decimal)
    fail(Kind::Argument, "read_csv: the delimiter and the decimal mark are the same");
  if (!options_.delimiter && skip_empty_lines()) {
    size_t count[256] = {};
    bool inside = false;
    for (size_t i = at_; i < end_ && (inside || buffer_[i] != '\n'); ++i) {
      if (options_.quote && buffer_[i] == options_.quote) inside = !inside;
      if (!inside) ++count[static_cast<uint8_t>(buffer_[i])];
    }
    if (options_.decimal == ',') delimiter_ = ';';
    for (const char c : {';', '\t', '|'})
      if (count[static_cast<uint8_t>(c)] > count[static_cast<uint8_t>(delimiter_)]) delimiter_ = c;
  }
  for (const char c : {delimiter_, '\n', '\0'}) stops_[static_cast<uint8_t>(c)] = true;
}

// The fields of the next row, and the place behind it.
std::vector<std::string> CsvReader::first_row(const char** behind, bool* numbers) {
  for (;;) {
    std::vector<std::string> out;
    *numbers = false;
    field_line_ = line_;
    const char* p = buffer_.get() + at_;
    for (field_ = 0;; ++field_, ++p) {
      Field f;
      if (next_field(p, &f) == Status::Incomplete) break;
      int64_t whole;
      double real;
      const std::string_view text = trimmed(f.text);
      if (!f.quoted && text.find('\r') != text.npos)
        wrong("the lines end with carriage returns alone",
              "tr '\\r' '\\n'  -- makes the usual text of a file with the line ends of old Macs");
      *numbers |= number(text, &whole, &real) != Parsed::No;
      out.emplace_back(text);
      if (out.size() > kMostColumns)
        fail(Kind::Io, format("%s has more than %zu columns", path_.c_str(), kMostColumns));
      if (*p == delimiter_) continue;
      *behind = p + (*p == '\r') + 1;
      return out;
    }
    if (!fill()) wrong("a quote is never closed");
  }
}

// The first line: names, or a row that is read again.
void CsvReader::read_header() {
  if (!skip_empty_lines()) fail(Kind::Io, path_ + " holds no rows");
  bool numbers = false;
  const char* behind = nullptr;
  const std::vector<std::string> names = first_row(&behind, &numbers);
  has_header_ = options_.header == 1 || (options_.header < 0 && !numbers);
  columns.resize(names.size());
  std::unordered_set<std::string> known;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = has_header_ && !names[i].empty() ? names[i] : format("column%zu", i + 1);
    const std::string stem = name;
    for (int k = 2; !known.insert(name).second; ++k) name = stem + format("_%d", k);
    columns[i].name = name;
  }
  if (has_header_) pass_header(behind);
}

void CsvReader::pass_header(const char* behind) {
  at_ = static_cast<size_t>(behind - buffer_.get());
  line_ = field_line_ + 1;
}

// The field at p; afterwards p is at the delimiter or line end behind it.
CsvReader::Status CsvReader::next_field(const char*& p, Field* f) {
  const char *start = p, *const end = buffer_.get() + end_;
  if (options_.quote) {
    while (*start == ' ' && delimiter_ != ' ') ++start;
    f->quoted = *start == options_.quote;
  } else {
    f->quoted = false;
  }
  if (!f->quoted) {
    const char* q = p;
    for (;; ++q)
      if (stops_[static_cast<uint8_t>(*q)] && (*q || q == end)) break;
    if (q == end) return Status::Incomplete;
    const char* last = *q == '\n' && q > p && q[-1] == '\r' ? q - 1 : q;
    f->text = {p, static_cast<size_t>(last - p)};
    p = last;
    return Status::Done;
  }
  const char *q = start + 1, *from = q;
  bool doubled = false;
  scratch_.clear();
  for (;; ++q) {
    q = static_cast<const char*>(std::memchr(q, options_.quote, static_cast<size_t>(end - q)));
    if (!q || (q + 1 == end && !ended_)) {
      if (ended_) wrong("a quote is never closed");
      return Status::Incomplete;
    }
    if (q[1] != options_.quote) break;
    doubled = true;
    scratch_.append(from, ++q);
    from = q + 1;
  }
  if (doubled) {
    scratch_.append(from, q);
    f->text = scratch_;
  } else {
    f->text = {from, static_cast<size_t>(q - from)};
  }
  field_line_ += std::count(start, q, '\n');
  for (p = q + 1; *p == ' ' && delimiter_ != ' ';) ++p;
  if (p == end) return Status::Incomplete;
  if (!ends_field(*p))
    wrong(format("'%c' follows a closing quote", *p),
          "quote = \"\" among the options  -- when quotes have no meaning in this file");
  return Status::Done;
}

// A number without quotes, spaces or exponent, which almost all are. False: look more closely.
[[gnu::always_inline]] inline bool CsvReader::fast_number(CsvColumn& c, const char*& p) {
  const char* q = p;
  const bool negative = *q == '-';
  q += negative;
  uint64_t m = 0;
  const char* const start = q;
  for (uint8_t d; (d = static_cast<uint8_t>(*q - '0')) <= 9; ++q) m = m * 10 + d;
  int64_t digits = q - start, fraction = 0;
  if (*q == '.') {
    const char* const dot = ++q;
    for (uint8_t d; (d = static_cast<uint8_t>(*q - '0')) <= 9; ++q) m = m * 10 + d;
    fraction = q - dot;
    digits += fraction;
    if (c.kind != CsvColumn::Float) return false;
  }
  if (digits == 0 || digits > 18 || !ends_field(*q)) return false;
  if (c.kind == CsvColumn::Int) {
    c.cells[rows_] = negative ? -m : m;
  } else {
    // Both numbers are exact, so their quotient is the nearest double. More digits are rounded
    // twice, which float32 does not see.
    if (m >> 53 && !c.short_float) return false;
    const double x = static_cast<double>(m) / kTen[fraction];
    c.cells[rows_] = bits_of(negative ? -x : x);
  }
  p = q;
  return true;
}

CsvReader::Status CsvReader::next_row() {
  const char* p = buffer_.get() + at_;
  field_line_ = line_;
  const size_t n = columns.size();
  for (field_ = 0; field_ < n; ++field_) {
    CsvColumn& c = columns[field_];
    const bool number = c.kind == CsvColumn::Int || c.kind == CsvColumn::Float;
    if (!number || number_missing_ || !fast_number(c, p)) {
      Field f;
      if (next_field(p, &f) == Status::Incomplete) return Status::Incomplete;
      if (c.kind != CsvColumn::Skip) store(c, f);
    }
    if (*p == delimiter_) {
      if (field_ + 1 == n) uneven(n + 1);
      ++p;
    } else {
      if (*p == '\r' && p[1] == 0 && p + 1 == buffer_.get() + end_) return Status::Incomplete;
      if (*p == '\r' && p[1] != '\n') wrong("a carriage return stands within the row");
      if (field_ + 1 < n) uneven(field_ + 1);
    }
  }
  at_ = static_cast<size_t>(p - buffer_.get()) + (*p == '\r') + 1;
  line_ = field_line_ + 1;
  ++rows_;
  return Status::Done;
}

int64_t CsvReader::read(int64_t most) {
  const int64_t first = std::max<int64_t>(16, 65536 / static_cast<int64_t>(columns.size()));
  for (;;) {
    rows_ = 0;
    for (CsvColumn& c : columns) c.texts.clear();
    while (rows_ < most && skip_empty_lines()) {
      if (rows_ == capacity_) make_room(std::min(most, std::max<int64_t>(first, capacity_ * 2)));
      if ((rows_ & 1023) == 0) check_interrupt();
      while (next_row() == Status::Incomplete)
        if (!fill()) wrong("a quote is never closed");
    }
    if (started_) return rows_;
    started_ = true;
    bool again = false;
    for (CsvColumn& c : columns) {
      if (c.kind == CsvColumn::Guess) {  // no row has a value
        c.kind = CsvColumn::Float;
        std::fill_n(c.cells.get(), rows_, bits_of(kNaN));
      }
      c.fixed = true;
      again |= c.again;
    }
    if (!again) return rows_;
    for (CsvColumn& c : columns) {
      if (c.again) c.kind = CsvColumn::Text;
      if (c.kind == CsvColumn::Class && !c.listed) c.codes.clear(), c.classes.clear();
    }
    if (!stream_->is_regular())
      fail(Kind::Io, path_ + " can be read only once, and the type of a column was guessed wrong",
           "dtype = \"text\" among the options  -- or a table with the type of each column");
    open();
    if (skip_empty_lines() && has_header_) {
      bool numbers;
      const char* behind;
      first_row(&behind, &numbers);
      pass_header(behind);
    }
    make_room(std::max<int64_t>(capacity_, 1));
  }
}

void CsvReader::make_room(int64_t rows) {
  for (CsvColumn& c : columns) {
    if (c.kind == CsvColumn::Skip && !c.again) continue;
    // Large blocks move to another place without being copied.
    void* const larger = std::realloc(c.cells.get(), static_cast<size_t>(rows) * 8);
    if (!larger) throw std::bad_alloc();
    (void)c.cells.release();
    c.cells.reset(static_cast<uint64_t*>(larger));
  }
  capacity_ = rows;
}

// ---- errors ----

void CsvReader::wrong(const std::string& why, const std::string& hint) const {
  std::string where = format("%s, line %lld, column %zu", path_.c_str(),
                             static_cast<long long>(field_line_), field_ + 1);
  if (has_header_ && field_ < columns.size()) where += " (" + columns[field_].name + ")";
  fail(Kind::Io, where + ": " + why, hint);
}

void CsvReader::uneven(size_t found) const {
  const size_t n = columns.size(), shown = std::min(found, n);
  fail(Kind::Io, format("%s, line %lld has %s%zu column%s, the first line %zu", path_.c_str(),
                        static_cast<long long>(line_), found > n ? "more than " : "", shown,
                        shown == 1 ? "" : "s", n));
}

}  // namespace tycho::io
