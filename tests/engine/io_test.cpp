// Readers and writers of files: what they accept, what they refuse, that no broken input does more
// than raise, and that a failed save leaves the old file alone.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/idx.h"
#include "engine/io/npy.h"
#include "engine/io/safetensors.h"

namespace tycho::io {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

// The text of the Kind::Io error that f raises; empty when it raises none.
std::string io_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Io) << e.text;
    return e.text;
  }
  return "";
}

// Cuts `good` at every length, and changes every byte in several ways: parsing must return or
// raise.
void expect_survives(const std::string& good, const std::function<void(std::string_view)>& parse) {
  const auto attempt = [&](const std::string& bytes) {
    // An exact copy on the heap, so that AddressSanitizer sees a read past the end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    try {
      parse(std::string_view(exact.data(), exact.size()));
    } catch (const Error& e) {
      EXPECT_TRUE(e.kind == Kind::Io || e.kind == Kind::Oom) << e.text;
    }
  };
  for (size_t n = 0; n < good.size(); ++n) attempt(good.substr(0, n));
  for (size_t i = 0; i < good.size(); ++i) {
    for (int change : {0x01, 0x80, 0xff, 0x20}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      attempt(bad);
    }
    for (char put : {'\0', '[', '9', '"', '\\', '}'}) {
      std::string bad = good;
      bad[i] = put;
      attempt(bad);
    }
    attempt(good.substr(0, i) + good.substr(i + 1));
  }
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// A directory of its own for each test.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tycho-io-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  size_t count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }
  static void save(const std::string& to, const std::string& text) {
    atomic_write(to, [&](Output& out) { out.write(text); });
  }
  fs::path dir_;
};

TEST_F(Files, WriteAndReadBack) {
  const std::string file = path("a.bin"), large(300000, 'x');
  save(file, "first");
  EXPECT_EQ(read_file(file), "first");
  atomic_write(file, [&](Output& out) {
    out.write("head ");
    out.write(large);
    for (int i = 0; i < 30000; ++i) out.write("tail");
  });
  const std::string got = read_file(file);
  EXPECT_EQ(got.size(), 5 + large.size() + 120000);
  EXPECT_EQ(got.substr(0, 6), "head x");
  EXPECT_EQ(got.substr(got.size() - 5), "ltail");
  save(file, "");
  EXPECT_EQ(read_file(file), "");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, KeepTheOldContentWhenTheWriterFails) {
  const std::string file = path("model.pt");
  save(file, "precious");
  EXPECT_THROW(atomic_write(file,
                            [&](Output& out) {
                              out.write(std::string(200000, 'n'));
                              fail(Kind::Value, "no");
                            }),
               Error);
  EXPECT_EQ(read_file(file), "precious");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, KeepTheOldContentWhenInterrupted) {
  const std::string file = path("model.pt");
  save(file, "precious");
  request_interrupt();
  try {
    save(file, std::string(200000, 'n'));
    ADD_FAILURE() << "not interrupted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Interrupt);
  }
  clear_interrupt();
  EXPECT_EQ(read_file(file), "precious");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, KeepTheOldContentWhenTheDiskIsFull) {
  const std::string file = path("model.pt");
  save(file, "precious");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tiny = before;
  tiny.rlim_cur = 100000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const std::string error = io_error([&] { save(file, std::string(200000, 'n')); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, "cannot write " + file + ": File too large");
  EXPECT_EQ(read_file(file), "precious");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, DevicesAreWrittenAndNeverReplaced) {
  EXPECT_EQ(io_error([] { save("/dev/full", "text"); }),
            "cannot write /dev/full: No space left on device");
  struct stat s;
  ASSERT_EQ(stat("/dev/full", &s), 0);
  EXPECT_TRUE(S_ISCHR(s.st_mode));
  EXPECT_EQ(io_error([] { save("/dev/null", "text"); }), "");
  ASSERT_EQ(stat("/dev/null", &s), 0);
  EXPECT_TRUE(S_ISCHR(s.st_mode));
}

TEST_F(Files, FollowLinksAndKeepPermissions) {
  const std::string file = path("real"), link = path("link");
  save(file, "old");
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  ASSERT_EQ(symlink("real", link.c_str()), 0);
  save(link, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_TRUE(fs::is_symlink(link));
  struct stat s;
  ASSERT_EQ(stat(file.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0640u);
}

TEST_F(Files, ErrorsNameThePathAndTheCause) {
  EXPECT_EQ(io_error([&] { read_file(path("none")); }),
            "cannot read " + path("none") + ": No such file or directory");
  EXPECT_EQ(io_error([&] { read_file(dir_.string()); }),
            "cannot read " + dir_.string() + ": Is a directory");
  EXPECT_EQ(io_error([&] { save(path("none/x"), ""); }),
            "cannot write " + path("none/x") + ": No such file or directory");
  EXPECT_EQ(io_error([&] { save(dir_.string(), ""); }),
            "cannot write " + dir_.string() + ": Is a directory");
}

TEST(Gzip, UnpacksSeveralMembersAndPrefixes) {
  const std::string text(3000000, 'a'), packed = gzip(text);
  EXPECT_TRUE(is_gzip(packed));
  EXPECT_EQ(gunzip(packed, "f"), text);
  EXPECT_EQ(gunzip(gzip("one ") + gzip("two") + "\0\0"s, "f"), "one two");
  EXPECT_EQ(gunzip(packed, "f", 10), "aaaaaaaaaa");
  EXPECT_EQ(gunzip(gzip(""), "f"), "");
}

TEST(Gzip, RefusesWhatIsDamaged) {
  const std::string packed = gzip("some text that is long enough");
  EXPECT_EQ(io_error([&] { gunzip(packed.substr(0, 20), "f.gz"); }),
            "f.gz is damaged: its gzip data ends too early");
  EXPECT_NE(io_error([&] { gunzip(packed + "more", "f.gz"); }), "");
  std::string bad = packed;
  bad[bad.size() - 6] ^= 1;  // in the checksum
  EXPECT_NE(io_error([&] { gunzip(bad, "f.gz"); }), "");
  expect_survives(packed, [](std::string_view bytes) { gunzip(bytes, "f.gz"); });
}

const std::string kIdx =
    "\0\0\x0b\x02\0\0\0\x02\0\0\0\x03"s + "\0\x01\0\x02\x01\0\xff\xff\0\x05\0\x06"s;

TEST(Idx, ReadsBigEndianElements) {
  for (const std::string& bytes : {kIdx, gzip(kIdx)}) {
    const IdxArray a = parse_idx(bytes, "f");
    EXPECT_EQ(a.dtype, DType::Int16);
    EXPECT_EQ(a.shape, (Sizes{2, 3}));
    int16_t v[6];
    ASSERT_EQ(a.data.size(), sizeof v);
    std::memcpy(v, a.data.data(), sizeof v);
    EXPECT_EQ((std::vector<int>(v, v + 6)), (std::vector<int>{1, 2, 256, -1, 5, 6}));
  }
  EXPECT_EQ(parse_idx("\0\0\x08\x01\0\0\0\0"s, "f").data, "");
}

TEST(Idx, RefusesWhatDoesNotFit) {
  for (const bool packed : {false, true}) {
    const auto error = [&](const std::string& bytes) {
      return io_error([&] { parse_idx(packed ? gzip(bytes) : bytes, "f"); });
    };
    EXPECT_EQ(error(kIdx.substr(0, 20)),
              "f is damaged: its header says [2, 3] of int16, which is 12 bytes, but it holds 8");
    EXPECT_NE(error(kIdx + "x"), "");
    EXPECT_NE(error(kIdx.substr(0, 6)), "");
    EXPECT_NE(error("\0\0\x07\x01\0\0\0\x01z"s), "");
    EXPECT_NE(error("\0\0\x08\x09"s + std::string(40, '\0')), "");
    EXPECT_NE(error("\0\0\x0e\x04"s + std::string(16, '\xff')), "");
    EXPECT_EQ(error("label,pixel"),
              "f is no IDX file: it does not begin with two zero bytes and a type");
  }
}

TEST(Idx, SurvivesAnyDamage) {
  const auto parse = [](std::string_view bytes) { parse_idx(bytes, "f"); };
  expect_survives(kIdx, parse);
  expect_survives(gzip(kIdx), parse);
}

// A .npy file with this header text, in the given version of the format.
std::string npy(const std::string& text, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY"s + static_cast<char>(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file += static_cast<char>(text.size() >> 8 * i & 0xff);
  return file + text + data;
}
std::string bytes_of(const NpyHeader& h, const std::string& file) {
  std::string out(static_cast<size_t>(h.bytes), '\0');
  copy_npy(h, file, out.data());
  return out;
}

TEST(Npy, RoundTripsEveryDtypeNumPyHas) {
  for (int t = 0; t < kDTypes; ++t) {
    const DType dtype = static_cast<DType>(t);
    if (dtype == DType::BFloat16) continue;
    for (const Sizes& shape : {Sizes{}, Sizes{3}, Sizes{2, 3}, Sizes{0, 4}}) {
      const std::string header = npy_header(dtype, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      const std::string data(static_cast<size_t>(product(shape) * dtype_size(dtype)), '\x01');
      const NpyHeader h = parse_npy(header + data, "f");
      EXPECT_EQ(h.dtype, dtype);
      EXPECT_EQ(h.shape, shape);
      EXPECT_EQ(h.data_offset, header.size());
      EXPECT_EQ(bytes_of(h, header + data), data);
    }
  }
  EXPECT_EQ(npy_header(DType::Float32, {2, 3}).substr(0, 69),
            "\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s);
  EXPECT_NE(io_error([] { npy_header(DType::BFloat16, {2}); }).find("bfloat16"), std::string::npos);
}

TEST(Npy, ReadsBigEndianAndFortranOrder) {
  const std::string file = npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n",
                               "\0\x01\0\x04\0\x02\0\x05\0\x03\0\x06"s, 2);
  const NpyHeader h = parse_npy(file, "f");
  int16_t v[6];
  std::memcpy(v, bytes_of(h, file).data(), sizeof v);
  EXPECT_EQ((std::vector<int>(v, v + 6)), (std::vector<int>{1, 2, 3, 4, 5, 6}));

  // [i][j][k] = 12 i + 4 j + k, the first index fastest.
  std::string data;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) data += static_cast<char>(12 * i + 4 * j + k);
  const std::string cube =
      npy("{\"shape\":(2,3,4),\"fortran_order\":True,\"descr\":\"u1\"}", data, 3);
  const std::string got = bytes_of(parse_npy(cube, "f"), cube);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(got[i], i);
}

TEST(Npy, BooleansBecomeZeroAndOne) {
  const std::string file =
      npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3L,), }", "\0\x02\xff"s);
  EXPECT_EQ(bytes_of(parse_npy(file, "f"), file), "\0\x01\x01"s);
}

TEST(Npy, RefusesTypesByName) {
  const auto error = [](const std::string& descr) {
    return io_error([&] {
      parse_npy(npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (), }",
                    std::string(99, '\0')),
                "f");
    });
  };
  EXPECT_NE(error("'<u2'").find("holds uint16 (<u2)"), std::string::npos);
  EXPECT_NE(error("'<c8'").find("holds complex64"), std::string::npos);
  EXPECT_NE(error("'|O'").find("holds Python objects"), std::string::npos);
  EXPECT_NE(error("'<U2'").find("holds text"), std::string::npos);
  EXPECT_NE(error("[('a', '<i4'), ('b', '<f4')]").find("records ([('a', '<i4'), ('b', '<f4')])"),
            std::string::npos);
  EXPECT_NE(error("''"), "");
}

TEST(Npy, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& text, const std::string& data) {
    return io_error([&] { parse_npy(npy(text, data), "f"); });
  };
  const std::string start = "{'descr': '<f8', 'fortran_order': False, 'shape': ";
  EXPECT_EQ(error(start + "(100,), }", "12345678"),
            "f is damaged: its header says [100] of float64, which is 800 bytes, but it holds 8");
  EXPECT_NE(error(start + "(-1,), }", ""), "");
  EXPECT_NE(error(start + "(4611686018427387904, 4), }", ""), "");
  EXPECT_NE(error(start + "(99999999999999999999,), }", ""), "");
  EXPECT_NE(error(start + "(1,1,1,1,1,1,1,1,1), }", "12345678"), "");
  EXPECT_NE(error("{'descr': '<f8', 'shape': (), }", "12345678"), "");
  EXPECT_NE(error("{}", ""), "");
  EXPECT_NE(error("", ""), "");
  EXPECT_NE(io_error([] { parse_npy("PK\x03\x04 a zip file", "f"); }), "");
  EXPECT_NE(io_error([] { parse_npy(npy("{}", "", 4), "f"); }), "");
  // Nothing has elements where a dimension is 0, however large the others are.
  EXPECT_EQ(error(start + "(0, 4611686018427387904, 4), }", ""), "");
}

TEST(Npy, SurvivesAnyDamage) {
  const auto parse = [](std::string_view bytes) {
    const NpyHeader h = parse_npy(bytes, "f");
    std::string out(static_cast<size_t>(h.bytes), '\0');
    copy_npy(h, bytes, out.data());
  };
  expect_survives(npy_header(DType::Float32, {2, 3}) + std::string(24, 'x'), parse);
  expect_survives(
      npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", std::string(12, 'x'), 2),
      parse);
}

SafetensorsHeader sample() {
  SafetensorsHeader h;
  h.tensors = {{"mask", DType::Bool, {3}},
               {"fc.weight", DType::Float32, {2, 3}},
               {"steps \"n\"\n\xc3\xbc", DType::Int64, {}},
               {"empty", DType::BFloat16, {0, 5}}};
  h.metadata = {{"format", "tycho"}, {"tree", "{\"a\": [1, 2]}"}};
  return h;
}

TEST(Safetensors, RoundTripsNamesShapesAndMetadata) {
  SafetensorsHeader h = sample();
  const std::string start = safetensors_header(&h);
  EXPECT_EQ(start.size() % 8, 0u);
  EXPECT_EQ(start.size(), h.data_offset);
  EXPECT_EQ(h.tensors[2].begin, 0u);  // the widest elements come first
  EXPECT_EQ(h.tensors[1].begin, 8u);
  EXPECT_EQ(h.tensors[0].end, 35u);
  const SafetensorsHeader got = parse_safetensors(start + std::string(35, 'd'), "f");
  ASSERT_EQ(got.tensors.size(), h.tensors.size());
  for (size_t i = 0; i < h.tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].name, h.tensors[i].name);
    EXPECT_EQ(got.tensors[i].dtype, h.tensors[i].dtype);
    EXPECT_EQ(got.tensors[i].shape, h.tensors[i].shape);
    EXPECT_EQ(got.tensors[i].begin, h.tensors[i].begin);
    EXPECT_EQ(got.tensors[i].end, h.tensors[i].end);
  }
  EXPECT_EQ(got.metadata, h.metadata);
  EXPECT_EQ(got.data_offset, h.data_offset);
  SafetensorsHeader none;
  EXPECT_TRUE(parse_safetensors(safetensors_header(&none), "f").tensors.empty());
}

std::string safetensors(const std::string& json, size_t data) {
  const uint64_t n = json.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + json + std::string(data, 'd');
}

TEST(Safetensors, ReadsEscapesAndRefusesBrokenOnes) {
  const auto name = [](const std::string& text) {
    return parse_safetensors(
               safetensors(
                   "{\"" + text + "\": {\"dtype\":\"U8\", \"shape\":[], \"data_offsets\":[0,1]}}",
                   1),
               "f")
        .tensors.at(0)
        .name;
  };
  EXPECT_EQ(name("a\\u00fc\\n\\/\\\"\\ud83d\\ude00"), "a\xc3\xbc\n/\"\xf0\x9f\x98\x80");
  for (const std::string bad : {"\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\uzzzz", "\\x", "\x01",
                                "\xff", "\xc0\x80", "\xed\xa0\x80", "\xc3"})
    EXPECT_NE(io_error([&] { name(bad); }), "") << bad;
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& json, size_t data) {
    return io_error([&] { parse_safetensors(safetensors(json, data), "f"); });
  };
  const std::string x = "\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":";
  EXPECT_EQ(error("{" + x + "[8,16]}}", 16),
            "f is damaged: tensor 'x' begins at byte 8, where byte 0 was expected");
  EXPECT_NE(error("{" + x + "[0,8]}}", 16), "");                   // bytes that belong to none
  EXPECT_NE(error("{" + x + "[0,32]}}", 16), "");                  // past the end
  EXPECT_NE(error("{" + x + "[8,0]}}", 8), "");                    // reversed
  EXPECT_NE(error("{" + x + "[0,8]}," + x + "[8,16]}}", 16), "");  // twice the same name
  EXPECT_NE(error("{\"x\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "");
  EXPECT_NE(error("{\"x\":{\"dtype\":\"F64\",\"shape\":[-1],\"data_offsets\":[0,8]}}", 8), "");
  EXPECT_NE(error("{\"x\":{\"dtype\":\"F64\",\"data_offsets\":[0,8]}}", 8), "");
  EXPECT_NE(error("{\"x\":{\"dtype\":\"F8_E5M2\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8)
                .find("F8_E5M2"),
            std::string::npos);
  EXPECT_NE(error("{\"x\"", 0), "");
  EXPECT_NE(error("{} x", 0), "");
  EXPECT_NE(error("[]", 0), "");
  EXPECT_NE(io_error([] { parse_safetensors("abc", "f"); }), "");
  EXPECT_NE(io_error([] { parse_safetensors(std::string(8, '\xff') + "{}", "f"); }), "");
}

TEST(Safetensors, RefusesToSaveNamesThatNoReaderTakes) {
  const auto error = [](const std::string& a, const std::string& b) {
    SafetensorsHeader h;
    h.tensors = {{a, DType::Bool, {1}}, {b, DType::Bool, {1}}};
    return io_error([&] { safetensors_header(&h); });
  };
  EXPECT_EQ(error("a", "b"), "");
  EXPECT_EQ(error("a", "a"), "the name 'a' cannot be saved twice");
  EXPECT_NE(error("a", "__metadata__"), "");
  EXPECT_NE(error("a", "\xff"), "");
}

TEST(Safetensors, SurvivesAnyDamage) {
  SafetensorsHeader h = sample();
  const std::string start = safetensors_header(&h);
  expect_survives(start + std::string(35, 'd'),
                  [](std::string_view bytes) { parse_safetensors(bytes, "f"); });
}

}  // namespace
}  // namespace tycho::io
