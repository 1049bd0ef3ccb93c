// Reading and writing zip archives (see zip.h).
#include "engine/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <unordered_set>

#include "engine/base/interrupt.h"
#include "engine/io/crc32.h"

namespace tycho::io {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kFull = 0xffffffff;  // "see the 64-bit field"
constexpr size_t kAlign = 64;
constexpr size_t kZipPiece = size_t{4} << 20;

// Little-endian numbers at checked places.
class Bytes {
 public:
  Bytes(std::string_view file, const std::string& name) : file_(file), name_(name) {}
  template <class T>
  T at(uint64_t i) const {
    if (i > file_.size() || file_.size() - i < sizeof(T)) cut();
    T x = 0;
    for (size_t k = 0; k < sizeof(T); ++k)
      x = static_cast<T>(x | static_cast<T>(static_cast<uint8_t>(file_[i + k])) << 8 * k);
    return x;
  }
  std::string_view part(uint64_t i, uint64_t n) const {
    if (i > file_.size() || file_.size() - i < n) cut();
    return file_.substr(i, n);
  }
  [[noreturn]] void wrong(const std::string& why) const { damaged(name_, why); }

 private:
  [[noreturn]] void cut() const { wrong("its zip table points outside the file; is it cut off?"); }
  std::string_view file_;
  const std::string& name_;
};

template <class T>
void append(std::string* s, T x) {
  for (size_t k = 0; k < sizeof(T); ++k) *s += static_cast<char>(x >> 8 * k);
}

uint32_t checksum(std::string_view s, uint32_t before = 0) {
  for (size_t n; !s.empty(); s.remove_prefix(n)) {
    check_interrupt();
    n = std::min(s.size(), kZipPiece);
    before = crc32(s.substr(0, n), before);
  }
  return before;
}

struct Table {
  uint64_t count, begin, bytes;
};

Table find_table(std::string_view file, const Bytes& b) {
  const std::string_view mark("PK\x05\x06", 4);
  const size_t least = file.size() > 22 + 0xffff ? file.size() - 22 - 0xffff : 0;
  size_t end = std::string_view::npos;
  if (file.size() >= 22)
    for (size_t from = file.size() - 22;; from = end - 1) {
      end = file.rfind(mark, from);
      if (end == std::string_view::npos || end < least) b.wrong("its zip table is missing");
      if (end + 22 + b.at<uint16_t>(end + 20) <= file.size()) break;
      if (end == 0) b.wrong("its zip table is missing");
    }
  if (end == std::string_view::npos) b.wrong("its zip table is missing");
  Table t{b.at<uint16_t>(end + 10), b.at<uint32_t>(end + 16), b.at<uint32_t>(end + 12)};
  if (end >= 20 && b.at<uint32_t>(end - 20) == kLocator64) {
    const uint64_t at = b.at<uint64_t>(end - 12);
    if (b.at<uint32_t>(at) != kEnd64) b.wrong("its 64-bit zip table is missing");
    t = {b.at<uint64_t>(at + 32), b.at<uint64_t>(at + 48), b.at<uint64_t>(at + 40)};
  }
  b.part(t.begin, t.bytes);
  if (t.count > t.bytes / 46) b.wrong("its zip table is shorter than its number of entries");
  return t;
}

// The 64-bit numbers of an entry, where the 32-bit ones are full.
void read_extra(const Bytes& b, uint64_t at, uint64_t bytes, ZipEntry* e) {
  const uint64_t end = at + bytes;
  while (at + 4 <= end) {
    const uint16_t id = b.at<uint16_t>(at), n = b.at<uint16_t>(at + 2);
    uint64_t p = at + 4;
    at = p + n;
    if (at > end) return;
    if (id != 1) continue;
    for (uint64_t* field : {&e->size, &e->packed, &e->header})
      if (*field == kFull && p + 8 <= at) *field = b.at<uint64_t>(p), p += 8;
  }
}

// The content of a deflated entry into its e.size bytes.
void unpack(std::string_view content, const ZipEntry& e, char* to, const std::string& name) {
  struct Inflate {
    z_stream z{};
    Inflate() {
      if (inflateInit2(&z, -15) != Z_OK) throw std::bad_alloc();
    }
    ~Inflate() { inflateEnd(&z); }
  } in;
  size_t used = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    check_interrupt();
    const size_t fed = std::min(content.size(), kZipPiece);
    const size_t free = std::min(e.size - used, kZipPiece);
    in.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    in.z.avail_in = static_cast<uInt>(fed);
    in.z.next_out = reinterpret_cast<Bytef*>(to + used);
    in.z.avail_out = static_cast<uInt>(free);
    result = inflate(&in.z, Z_NO_FLUSH);
    content.remove_prefix(fed - in.z.avail_in);
    used += free - in.z.avail_out;
  }
  if (result != Z_STREAM_END || used != e.size)
    damaged(name, "entry " + e.name + " cannot be unpacked");
}

}  // namespace

bool is_zip(std::string_view file) {
  return file.starts_with("PK\x03\x04") || file.starts_with("PK\x05\x06");
}

std::vector<ZipEntry> zip_entries(std::string_view file, const std::string& name) {
  const Bytes b(file, name);
  const Table table = find_table(file, b);
  std::vector<ZipEntry> entries;
  std::unordered_set<std::string_view> names;
  entries.reserve(table.count);
  uint64_t at = table.begin, unpacked = 0;
  const uint64_t limit = std::max<uint64_t>(uint64_t{1} << 30, 100 * uint64_t{file.size()});
  for (uint64_t i = 0; i < table.count; ++i) {
    if (b.at<uint32_t>(at) != kCentral) b.wrong("its zip table has a wrong entry");
    ZipEntry e;
    const uint16_t flags = b.at<uint16_t>(at + 8);
    const uint16_t name_bytes = b.at<uint16_t>(at + 28), extra = b.at<uint16_t>(at + 30);
    e.method = b.at<uint16_t>(at + 10);
    e.crc = b.at<uint32_t>(at + 16);
    e.packed = b.at<uint32_t>(at + 20);
    e.size = b.at<uint32_t>(at + 24);
    e.header = b.at<uint32_t>(at + 42);
    e.name = b.part(at + 46, name_bytes);
    read_extra(b, at + 46 + name_bytes, extra, &e);
    at += 46 + uint64_t{name_bytes} + extra + b.at<uint16_t>(at + 32);
    if (at > table.begin + table.bytes) b.wrong("its zip table runs over its end");

    if (flags & 1) fail(Kind::Io, name + " is encrypted: entry " + e.name);
    if (e.method != 0 && e.method != 8)
      fail(Kind::Io, name + format(": entry %s is packed by method %d; only stored and deflated "
                                   "entries can be read",
                                   e.name.substr(0, 80).c_str(), e.method));
    if (b.at<uint32_t>(e.header) != kLocal)
      b.wrong("entry " + e.name + " is not where it should be");
    e.begin = e.header + 30 + b.at<uint16_t>(e.header + 26) + b.at<uint16_t>(e.header + 28);
    b.part(e.begin, e.packed);
    if (e.method == 0 && e.packed != e.size) b.wrong("entry " + e.name + " has two sizes");
    // No data grows more than this when it is unpacked.
    if (e.method == 8 && e.size / 1100 > e.packed)
      b.wrong("entry " + e.name + " gives a wrong size");
    if (e.method == 8 && (unpacked += e.size) > limit)
      fail(Kind::Io, name + format(" unpacks to more than %llu bytes, which looks like a zip bomb",
                                   static_cast<unsigned long long>(limit)));
    entries.push_back(std::move(e));
  }
  std::vector<const ZipEntry*> in_order;
  for (const auto& e : entries) {
    in_order.push_back(&e);
    if (!names.insert(e.name).second) b.wrong("two entries have the name " + e.name);
  }
  std::ranges::sort(in_order, {}, [](const ZipEntry* e) { return e->header; });
  for (size_t i = 1; i < in_order.size(); ++i)
    if (in_order[i - 1]->begin + in_order[i - 1]->packed > in_order[i]->header)
      b.wrong("entries " + in_order[i - 1]->name + " and " + in_order[i]->name + " overlap");
  return entries;
}

std::string_view zip_content(std::string_view file, const ZipEntry& e, std::string* room,
                             const std::string& name) {
  std::string_view content = file.substr(e.begin, e.packed);
  if (e.method == 8) {
    try {
      room->resize(e.size);
    } catch (const std::bad_alloc&) {
      fail(Kind::Oom, "out of memory unpacking " + name);
    }
    unpack(content, e, room->data(), name);
    content = *room;
  }
  zip_check(e, checksum(content), name);
  return content;
}

// Writers that leave the sum out put 0 there.
void zip_check(const ZipEntry& e, uint32_t sum, const std::string& name) {
  if (e.crc != 0 && e.crc != sum) damaged(name, "entry " + e.name + " does not have its checksum");
}

void zip_read(const Input& file, const ZipEntry& e, void* to) {
  const std::string_view content = file.bytes().substr(e.begin, e.packed);
  if (e.method == 8) {
    unpack(content, e, static_cast<char*>(to), file.path());
    zip_check(e, checksum({static_cast<char*>(to), e.size}), file.path());
  } else {
    zip_check(e, file.copy_summed(content, to), file.path());
  }
}

void ZipWriter::put(std::string_view bytes) {
  out_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::initializer_list<std::string_view> pieces) {
  ZipEntry e;
  uint64_t bytes = 0;
  for (const std::string_view s : pieces) {
    e.crc = checksum(s, e.crc);
    bytes += s.size();
  }
  e.name = name;
  e.size = e.packed = bytes;
  e.header = at_;
  const bool big = bytes >= kFull;
  std::string extra;
  if (big) {
    append<uint16_t>(&extra, 1);
    append<uint16_t>(&extra, 16);
    append<uint64_t>(&extra, bytes);
    append<uint64_t>(&extra, bytes);
  }
  // A field that means nothing fills up to the content's place.
  const uint64_t start = at_ + 30 + name.size() + extra.size() + 4;
  const size_t fill = (kAlign - start % kAlign) % kAlign;
  append<uint16_t>(&extra, 0x4246);
  append<uint16_t>(&extra, static_cast<uint16_t>(fill));
  extra.append(fill, 'Z');

  std::string head;
  append<uint32_t>(&head, kLocal);
  append<uint16_t>(&head, big ? 45 : 20);
  append<uint16_t>(&head, 0x800);  // names are UTF-8
  append<uint16_t>(&head, 0);
  append<uint16_t>(&head, 0);
  append<uint16_t>(&head, 0x21);  // the first day of zip's time
  append<uint32_t>(&head, e.crc);
  append<uint32_t>(&head, big ? kFull : static_cast<uint32_t>(bytes));
  append<uint32_t>(&head, big ? kFull : static_cast<uint32_t>(bytes));
  append<uint16_t>(&head, static_cast<uint16_t>(name.size()));
  append<uint16_t>(&head, static_cast<uint16_t>(extra.size()));
  put(head + name + extra);
  for (const std::string_view s : pieces) put(s);
  entries_.push_back(std::move(e));
}

void ZipWriter::finish() {
  const uint64_t begin = at_;
  for (const ZipEntry& e : entries_) {
    std::string extra;
    for (const uint64_t field : {e.size, e.packed, e.header})
      if (field >= kFull) append<uint64_t>(&extra, field);
    const bool big = !extra.empty();
    std::string head;
    append<uint32_t>(&head, kCentral);
    append<uint16_t>(&head, big ? 45 : 20);
    append<uint16_t>(&head, big ? 45 : 20);
    append<uint16_t>(&head, 0x800);
    append<uint16_t>(&head, 0);
    append<uint16_t>(&head, 0);
    append<uint16_t>(&head, 0x21);
    append<uint32_t>(&head, e.crc);
    for (const uint64_t field : {e.packed, e.size})
      append<uint32_t>(&head, static_cast<uint32_t>(std::min<uint64_t>(field, kFull)));
    append<uint16_t>(&head, static_cast<uint16_t>(e.name.size()));
    append<uint16_t>(&head, static_cast<uint16_t>(big ? extra.size() + 4 : 0));
    head.append(10, '\0');  // comment, disk, attributes
    append<uint32_t>(&head, static_cast<uint32_t>(std::min<uint64_t>(e.header, kFull)));
    head += e.name;
    if (big) {
      append<uint16_t>(&head, 1);
      append<uint16_t>(&head, static_cast<uint16_t>(extra.size()));
      head += extra;
    }
    put(head);
  }
  const uint64_t bytes = at_ - begin, count = entries_.size(), end64 = at_;
  std::string end;
  if (count >= 0xffff || begin >= kFull || bytes >= kFull) {
    append<uint32_t>(&end, kEnd64);
    append<uint64_t>(&end, 44);
    append<uint16_t>(&end, 45);
    append<uint16_t>(&end, 45);
    append<uint64_t>(&end, 0);  // disks
    append<uint64_t>(&end, count);
    append<uint64_t>(&end, count);
    append<uint64_t>(&end, bytes);
    append<uint64_t>(&end, begin);
    append<uint32_t>(&end, kLocator64);
    append<uint32_t>(&end, 0);
    append<uint64_t>(&end, end64);
    append<uint32_t>(&end, 1);
  }
  append<uint32_t>(&end, kEnd);
  append<uint32_t>(&end, 0);
  for (int twice = 0; twice < 2; ++twice)
    append<uint16_t>(&end, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  append<uint32_t>(&end, static_cast<uint32_t>(std::min<uint64_t>(bytes, kFull)));
  append<uint32_t>(&end, static_cast<uint32_t>(std::min<uint64_t>(begin, kFull)));
  append<uint16_t>(&end, 0);
  put(end);
}

}  // namespace tycho::io
