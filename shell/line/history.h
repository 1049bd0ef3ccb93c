// What was entered before: kept in memory for the keys that go back to it, and in a file that
// several shells append to at once.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tycho::line {

struct Record {
  int64_t time = 0;  // microseconds since 1970; 0 in files of older versions
  std::string directory, text;
  bool ok = true;  // false when its evaluation failed
};

// The file: one line per entry, "@TIME.PROCESS LENGTH\tDIRECTORY\tTEXT", newline, tab (in the
// directory) and backslash escaped; LENGTH counts the bytes of the escaped text, so that a torn
// record is told from a whole one. "!TIME.PROCESS" says later that this entry failed. Any other
// line is an entry of an older version, or written by hand.
class History {
 public:
  explicit History(std::string file = default_file());  // "" keeps nothing on disk
  History(const History&) = delete;
  static std::string default_file();  // in $XDG_STATE_HOME or ~/.local/state; makes directories
  // Why the last entry is not in the file; empty when it is.
  const std::string& trouble() const { return trouble_; }

  // Reads the file, the newest 10,000 entries of it. Done by itself at first use.
  void load();

  // Writes an entry, before it is evaluated so that nothing is lost; its position. One that is
  // not to be kept is there for the keys only, until `forget`.
  size_t add(const std::string& text, bool keep = true);
  // Forgets the entries from a position on that were not to be kept.
  void forget(size_t from);
  // Says that the entry just added failed.
  void failed(size_t position);

  // Entries from the oldest, 0, to the newest, size() - 1.
  size_t size();
  std::string text(size_t position);
  Record record(size_t position);

  static constexpr size_t npos = static_cast<size_t>(-1);
  // The newest entry before `before` whose text begins with / contains `part`; npos when none.
  size_t find_prefix(std::string_view part, size_t before);
  size_t find(std::string_view part, size_t before);
  // The oldest entry at or after `from`; npos when none.
  size_t find_prefix_forward(std::string_view part, size_t from);
  size_t find_forward(std::string_view part, size_t from);
  // The newest entries that contain `part` in their text, oldest of them first.
  std::vector<Record> search(std::string_view part, size_t most = 10'000);

 private:
  struct Item {
    std::string_view line;  // as in the file, without its newline
    uint32_t text;          // where the escaped text begins in it
    bool kept = true;       // in the file
  };
  bool has_prefix(const Item&, std::string_view escaped) const;
  bool contains(const Item&, std::string_view escaped, std::string_view plain) const;
  void append(const std::string& line);

  std::string file_, trouble_;
  bool loaded_ = false, torn_ = false;
  std::unique_ptr<char[]> tail_;            // the end of the file, as read
  std::vector<std::string_view> failures_;  // "TIME.PROCESS" of entries that failed
  std::vector<Item> items_;
  std::vector<std::unique_ptr<std::string>> own_;  // lines added since
};

}  // namespace tycho::line
