// Tables as text: CSV and its relatives, plain or packed by gzip, read whole or some rows at a
// time. Types of columns are given or guessed; fields may be quoted and then hold delimiters and
// line ends. What does not fit raises Kind::Io with file, line and column.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/io/csv_text.h"
#include "engine/io/stream.h"
#include "engine/tensor/tensor.h"

namespace tycho::io {

struct CsvOptions {
  char delimiter = 0;                       // 0: guessed from the first line
  char quote = '"';                         // 0: none
  char comment = 0;                         // lines that begin with it are left out; 0: none
  char decimal = '.';                       // what stands before the fraction of a number
  int header = -1;                          // is the first line names? 1, 0, or -1: guessed
  int64_t skip_rows = 0;                    // lines at the top that are no part of the table
  std::string encoding;                     // of the file; empty: UTF-8
  std::unordered_set<std::string> missing;  // fields that stand for no value
};

struct CsvColumn {
  enum Kind : uint8_t { Guess, Skip, Bool, Int, Float, Text, Class };

  std::string name;
  Kind kind = Guess;
  bool fixed = false;       // what does not fit the kind is an error; else the kind is widened
  bool again = false;       // widened to text too late: the file must be read once more
  bool short_float = true;  // float32 is wanted in the end
  bool listed = false;      // the classes were given
  std::vector<std::string> classes;  // of Class, in the order of their codes (from 1)

  // What was read: a bit pattern per row, a number or where the row's text ends.
  struct Free {
    void operator()(uint64_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint64_t[], Free> cells;
  std::string texts;
  std::unordered_map<std::string, int64_t> codes;
};

class CsvReader {
 public:
  // Opens the file and reads the names of the columns ("column1", ... where it has none).
  CsvReader(const std::string& path, const CsvOptions& options);

  std::vector<CsvColumn> columns;  // kinds may be set before the first read
  bool has_header() const { return has_header_; }

  // Reads up to `most` rows in place of those before; returns how many. Kinds that were guessed
  // are fixed by the first call.
  int64_t read(int64_t most);
  // What was read: bool, int64, float32 or float64 [rows]; codes of classes from 1.
  Tensor tensor(const CsvColumn& c) const;
  std::string_view text(const CsvColumn& c, int64_t row) const;
  int64_t rows() const { return rows_; }

 private:
  enum class Status { Done, Incomplete };
  struct Field {
    std::string_view text;
    bool quoted;
  };

  void open();
  bool fill();
  void skip_line();
  bool skip_empty_lines();
  void find_delimiter();
  std::vector<std::string> first_row(const char** behind, bool* numbers);
  void read_header();
  void pass_header(const char* behind);
  Status next_field(const char*& p, Field* f);
  Status next_row();
  bool fast_number(CsvColumn& c, const char*& p);
  void store(CsvColumn& c, const Field& f);
  void store_number(CsvColumn& c, std::string_view text, const Field& f);
  void decide(CsvColumn& c, std::string_view text, const Field& f);
  void widen(CsvColumn& c, CsvColumn::Kind kind, const Field& f);
  void put_text(CsvColumn& c, std::string_view text);
  void make_room(int64_t rows);
  Parsed number(std::string_view text, int64_t* whole, double* real) const;
  bool ends_field(char c) const { return c == delimiter_ || c == '\n' || c == '\r'; }
  [[noreturn]] void wrong(const std::string& why, const std::string& hint = {}) const;
  [[noreturn]] void misfit(const CsvColumn& c, std::string_view text, const char* wanted) const;
  [[noreturn]] void uneven(size_t found) const;

  std::string path_;
  CsvOptions options_;
  char delimiter_ = ',';
  std::unique_ptr<InputStream> stream_;
  // Bytes at_ to end_ are not read yet; a zero byte follows them. At the end of the file the last
  // of them is a line end.
  std::unique_ptr<char[]> buffer_;
  size_t at_ = 0, end_ = 0, size_ = 0;
  bool ended_ = false, has_header_ = false, started_ = false;
  bool number_missing_ = false;  // a number stands for no value
  int64_t line_ = 1;             // of the row that is read
  int64_t field_line_ = 1;       // of the field, which differs after line ends in quotes
  size_t field_ = 0;
  int64_t rows_ = 0, capacity_ = 0;
  bool stops_[256] = {};  // bytes that a plain field cannot run over
  std::string scratch_;   // a quoted field without its doubled quotes
};

}  // namespace tycho::io
