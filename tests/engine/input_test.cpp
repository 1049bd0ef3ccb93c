// Files as they are read: checksums against zlib's, parts copied by all threads, and mapped files,
// which outlive the object that opened them and are never changed.
#include "engine/io/input.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <random>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/io/crc32.h"

namespace tycho::io {
namespace {

std::string random_bytes(size_t n) {
  std::mt19937 random(7);
  std::string s(n, '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

// A file that is removed at the end.
struct File {
  explicit File(const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  ~File() { unlink(path.c_str()); }
  std::string path = testing::TempDir() + "tycho_input_" + std::to_string(getpid());
};

uint32_t of_zlib(std::string_view s, uint32_t before) {
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(s.data()), s.size()));
}

TEST(Crc32, IsZlibsForEveryLengthAndPlace) {
  const std::string bytes = random_bytes(2000);
  const std::string_view all = bytes;
  for (size_t n = 0; n < 1200; ++n) {
    const std::string_view s = all.substr(n % 67, n);
    const auto before = static_cast<uint32_t>(n * 2654435761u);
    ASSERT_EQ(crc32(s, before), of_zlib(s, before)) << n;
  }
  EXPECT_EQ(crc32_joined(crc32(all.substr(0, 700)), crc32(all.substr(700)), 1300), crc32(all));
}

TEST(Input, CopiesAnyPartWithItsSum) {
  const std::string bytes = random_bytes((5 << 20) + 123);
  const File file(bytes);
  for (const bool map : {true, false}) {
    const Input in(file.path, map);
    EXPECT_EQ(in.mapped(), map);
    EXPECT_TRUE(in.bytes() == bytes);
    for (const auto& [begin, n] : std::vector<std::pair<size_t, size_t>>{
             {0, bytes.size()}, {1, 0}, {3, 77}, {(1 << 20) - 1, (2 << 20) + 5}}) {
      std::string out(n, '\0');
      const auto part = in.bytes().substr(begin, n);
      EXPECT_EQ(in.copy_summed(part, out.data()), of_zlib(part, 0));
      EXPECT_TRUE(out == bytes.substr(begin, n));
    }
  }
}

TEST(Input, ASmallFileIsNotMapped) {
  const File file("abc");
  const Input in(file.path);
  EXPECT_FALSE(in.mapped());
  EXPECT_EQ(in.bytes(), "abc");
  EXPECT_THROW(Input("/nowhere/at/all"), Error);
}

TEST(Input, AViewKeepsTheMappingAndNeverChangesTheFile) {
  const std::string bytes = random_bytes(3 << 20);
  const File file(bytes);
  Tensor t, odd;
  {
    const Input in(file.path);
    t = in.read(in.bytes().substr(64, 2 << 20), 8);
    odd = in.read(in.bytes().substr(3, 100), 8);
    EXPECT_EQ(static_cast<const void*>(t.data()), in.bytes().data() + 64);
    EXPECT_NE(static_cast<const void*>(odd.data()), in.bytes().data() + 3);
  }
  EXPECT_EQ(std::string_view(t.data(), 2 << 20), std::string_view(bytes).substr(64, 2 << 20));
  EXPECT_EQ(std::string_view(odd.data(), 100), std::string_view(bytes).substr(3, 100));
  t.data()[0] ^= 1;
  EXPECT_TRUE(read_file(file.path) == bytes);
}

TEST(Input, WhatAnotherProgramCutsAwayReadsAsZeroAndIsAnError) {
  const std::string bytes(3 << 20, 'x');
  const File file(bytes);
  const Input in(file.path);
  const Tensor t = in.read(in.bytes(), 8);
  ASSERT_EQ(truncate(file.path.c_str(), 4096), 0);
  EXPECT_EQ(t.data()[100], 'x');
  EXPECT_FALSE(interrupt_pending());
  EXPECT_EQ(*static_cast<volatile char*>(t.data() + (2 << 20)), '\0');
  clear_interrupt();  // forgets Ctrl-C only
  try {
    check_interrupt();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Io);
    EXPECT_NE(e.text.find(file.path), std::string::npos) << e.text;
  }
  EXPECT_FALSE(interrupt_pending());
  std::string out(bytes.size(), '\0');
  EXPECT_THROW(in.copy(in.bytes(), out.data()), Error);
}

}  // namespace
}  // namespace tycho::io
