// Zip archives and pickles: what is written is read back, aligned and with 64-bit tables where they
// are needed; every cut and every changed byte is either harmless or an error of kind io.
#include "engine/io/zip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/io/pickle.h"

namespace tycho::io {
namespace {

struct Memory final : Output {
  std::string bytes;
  using Output::write;
  void write(const void* data, size_t n) override {
    bytes.append(static_cast<const char*>(data), n);
  }
};

std::string sample() {
  Memory out;
  ZipWriter zip(out);
  zip.add("a/data.pkl", {"one", "two"});
  zip.add("a/empty", {});
  zip.add("a/data/0", {std::string(1000, 'x')});
  zip.finish();
  return out.bytes;
}

Kind kind_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_NE(e.text.find("file.pt"), std::string::npos) << e.text;
    return e.kind;
  }
  ADD_FAILURE() << "no error";
  return Kind::Argument;
}

TEST(Zip, EntriesComeBackAndAreAligned) {
  const std::string file = sample();
  const auto entries = zip_entries(file, "file.pt");
  ASSERT_EQ(entries.size(), 3u);
  std::string room;
  EXPECT_EQ(zip_content(file, entries[0], &room, "file.pt"), "onetwo");
  EXPECT_EQ(zip_content(file, entries[1], &room, "file.pt"), "");
  EXPECT_EQ(zip_content(file, entries[2], &room, "file.pt"), std::string(1000, 'x'));
  for (const auto& e : entries) EXPECT_EQ(e.begin % 64, 0u);
}

TEST(Zip, SeventyThousandEntriesNeedTheLargeTable) {
  Memory out;
  ZipWriter zip(out);
  for (int i = 0; i < 70000; ++i) zip.add(std::to_string(i), {"x"});
  zip.finish();
  const auto entries = zip_entries(out.bytes, "file.pt");
  ASSERT_EQ(entries.size(), 70000u);
  EXPECT_EQ(entries.back().name, "69999");
}

TEST(Zip, DeflatedEntriesAreUnpackedAndChecked) {
  const std::string text(100000, 'y');
  std::string packed(compressBound(text.size()), '\0');
  z_stream z{};
  ASSERT_EQ(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  ZipEntry e;
  e.name = "entry";
  e.method = 8;
  e.packed = packed.size();
  e.size = text.size();
  e.crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(text.data()), 100000));
  std::string room;
  EXPECT_EQ(zip_content(packed, e, &room, "file.pt"), text);
  for (const uint64_t wrong : {text.size() - 1, text.size() + 1, size_t{0}}) {
    ZipEntry bad = e;
    bad.size = wrong;
    EXPECT_EQ(kind_of([&] { zip_content(packed, bad, &room, "file.pt"); }), Kind::Io);
  }
  e.crc ^= 1;
  EXPECT_EQ(kind_of([&] { zip_content(packed, e, &room, "file.pt"); }), Kind::Io);
}

TEST(Zip, EveryCutIsAnError) {
  const std::string file = sample();
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_EQ(kind_of([&] { zip_entries(std::string_view(file).substr(0, n), "file.pt"); }),
              Kind::Io)
        << n;
}

TEST(Zip, EveryChangedByteOfAnEntryIsNoticed) {
  const std::string whole = sample();
  const auto entries = zip_entries(whole, "file.pt");
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string file = whole;
    file[i] ^= 0x21;
    bool inside = false;
    for (const auto& e : entries) inside |= i >= e.begin && i < e.begin + e.packed;
    const auto read = [&] {
      std::string room;
      for (const auto& e : zip_entries(file, "file.pt")) zip_content(file, e, &room, "file.pt");
    };
    if (inside) {
      EXPECT_EQ(kind_of(read), Kind::Io) << i;
    } else {
      try {
        read();
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, Kind::Io) << i;
      }
    }
  }
}

TEST(Pickle, NumbersAndTextsComeBack) {
  PickleWriter w;
  w.op('(');
  const int64_t integers[] = {0,         255,      256, -1, 2147483647, -2147483648LL, 2147483648LL,
                              INT64_MIN, INT64_MAX};
  for (const int64_t x : integers) w.integer(x);
  w.real(-0.1);
  w.text("grüße");
  w.text(std::string_view("\xff\0", 2));
  w.op('t');
  w.op('.');
  const Pickle p = parse_pickle(w.bytes, "file.pt");
  EXPECT_EQ(p.end, w.bytes.size());
  const auto& items = p.list(p[p.root]);
  ASSERT_EQ(items.size(), std::size(integers) + 3);
  size_t k = 0;
  for (const int64_t x : integers) EXPECT_EQ(p[items[k++]].integer, x);
  EXPECT_EQ(p[items[k++]].real, -0.1);
  EXPECT_EQ(p[items[k++]].view(), "grüße");
  EXPECT_EQ(p[items[k++]].view(), std::string_view("\xff\0", 2));
}

TEST(Pickle, LargeIntegersBecomeTheNearestFloat) {
  const auto number = [](std::string_view bytes) {
    const std::string s =
        std::string("\x80\x02\x8a") + static_cast<char>(bytes.size()) + std::string(bytes) + ".";
    const Pickle p = parse_pickle(s, "file.pt");
    const PickleNode n = p[p.root];
    return n.kind == PickleKind::Int ? static_cast<double>(n.integer) : n.real;
  };
  EXPECT_EQ(number({"\0\0\0\0\0\0\0\0\x40", 9}), std::ldexp(1, 70));
  EXPECT_EQ(number({"\0\0\0\0\0\0\0\0\x80", 9}), -std::ldexp(1, 71));
  EXPECT_EQ(number({"\0\0\0\0\0\0\0\x80\0", 9}), std::ldexp(1, 63));
  EXPECT_EQ(number({"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9}), -1.0);
  EXPECT_EQ(number({"\xfe", 1}), -2.0);
  EXPECT_EQ(number({"", 0}), 0.0);
}

TEST(Pickle, RandomOpcodesAreErrorsOrValues) {
  std::mt19937 random(7);
  static constexpr std::string_view common(
      "()]}taeusdlNKhq0RQbX\x85\x86\x87\x88\x89\x8f\x90\x91\x94\x81\x93", 31);
  for (int i = 0; i < 20000; ++i) {
    std::string s = "\x80\x02";
    for (int n = static_cast<int>(random() % 40); n > 0; --n)
      s += random() % 4 ? common[random() % common.size()] : static_cast<char>(random() % 4);
    s += ".";
    try {
      parse_pickle(s, "file.pt");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, Kind::Io) << e.text;
    }
  }
}

}  // namespace
}  // namespace tycho::io
