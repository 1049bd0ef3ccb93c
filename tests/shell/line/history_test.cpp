// The history file: whole records, two shells at once, torn ends, old files, and speed.
#include "shell/line/history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

using tycho::line::History;
using tycho::line::Record;

namespace {

class HistoryFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tycho-history-XXXXXX";
    directory = mkdtemp(name);
    file = directory + "/history";
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  void write(const std::string& text) const { std::ofstream(file, std::ios::binary) << text; }
  std::vector<std::string> entries() const {
    History h(file);
    std::vector<std::string> out;
    for (size_t i = 0; i < h.size(); ++i) out.push_back(h.text(i));
    return out;
  }
  using Texts = std::vector<std::string>;
  std::string directory, file;
};

TEST_F(HistoryFile, KeepsEntriesOfSeveralLinesWhole) {
  const Texts all = {"x = 1",
                     "for i = 1, 2 do\n  print(i)\nend",
                     "s = 'a\\nb\\\\'",
                     "\t\r\n\\",
                     std::string("a\0b", 3),
                     "\xe4\xbd\xa0\xff"};
  {
    History h(file);
    for (const std::string& e : all) h.add(e);
  }
  EXPECT_EQ(entries(), all);
  struct stat status = {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(HistoryFile, RecordsTimeDirectoryAndWhetherItFailed) {
  {
    History h(file);
    h.add("good");
    h.failed(h.add("bad"));
  }
  History h(file);
  ASSERT_EQ(h.size(), 2u);
  const Record good = h.record(0), bad = h.record(1);
  EXPECT_TRUE(good.ok);
  EXPECT_FALSE(bad.ok);
  EXPECT_EQ(bad.text, "bad");
  EXPECT_EQ(good.directory, std::filesystem::current_path());
  EXPECT_GT(good.time, 1'700'000'000'000'000);
}

TEST_F(HistoryFile, IsSafeForTwoShellsAtOnce) {
  constexpr int kShells = 4, kEntries = 200;
  for (int s = 0; s < kShells; ++s)
    if (fork() == 0) {
      History h(file);
      for (int i = 0; i < kEntries; ++i)
        h.add(std::string(static_cast<size_t>(i + 1), static_cast<char>('a' + s)) + "\nend");
      _exit(0);
    }
  for (int s = 0; s < kShells; ++s) wait(nullptr);
  const Texts all = entries();
  ASSERT_EQ(all.size(), static_cast<size_t>(kShells * kEntries));
  for (const std::string& e : all) {
    ASSERT_TRUE(e.ends_with("\nend")) << e;
    ASSERT_EQ(e.find_first_not_of(e[0]), e.size() - 4) << e;
  }
}

TEST_F(HistoryFile, LosesNothingToAKill) {
  const pid_t child = fork();
  if (child == 0) {
    History h(file);
    h.add("before the end");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(), Texts{"before the end"});
}

TEST_F(HistoryFile, LeavesATornRecordOutAndGoesOn) {
  {
    History h(file);
    h.add("one");
    h.add("two and more");
  }
  for (int cut : {1, 4, 13, 20, 40}) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - static_cast<size_t>(cut));
    {
      History h(file);
      h.add("three");
    }
    const Texts all = entries();
    ASSERT_GE(all.size(), 1u);
    EXPECT_EQ(all.back(), "three");
    for (const std::string& e : all)
      EXPECT_TRUE(e == "one" || e == "two and more" || e == "three") << e;
  }
}

TEST_F(HistoryFile, ReadsFilesOfOlderVersions) {
  write("x = 1\nfor i = 1, 2 do\\n  print(i)\\nend\nprint('a\\\\nb')\n\n@home\n!ls\n");
  EXPECT_EQ(entries(),
            (Texts{"x = 1", "for i = 1, 2 do\n  print(i)\nend", "print('a\\nb')", "@home", "!ls"}));
}

TEST_F(HistoryFile, OfAnyBytesIsRead) {
  std::string bytes;
  unsigned seed = 1;
  for (int i = 0; i < 100'000; ++i) {
    seed = seed * 1103515245 + 12345;
    bytes += (seed >> 16) % 5 ? static_cast<char>(seed >> 16) : "@!.\t\n"[(seed >> 20) % 5];
  }
  write(bytes);
  History h(file);
  for (size_t i = 0; i < h.size(); ++i) h.record(i);
  EXPECT_EQ(h.find("no such text anywhere", h.size()), History::npos);
}

TEST_F(HistoryFile, IsForItsOwnerOnly) {
  write("x = 1\n");
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  EXPECT_EQ(entries(), Texts{"x = 1"});
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
}

TEST_F(HistoryFile, ThatCannotBeWrittenIsNoError) {
  History h(directory + "/no/such/file");
  h.add("kept in memory");
  EXPECT_EQ(h.size(), 1u);
  EXPECT_EQ(h.text(0), "kept in memory");
}

TEST_F(HistoryFile, FindsByPrefixAndByText) {
  History h(file);
  for (const char* e : {"alpha", "beta\nalpha", "a\\nb", "alphabet"}) h.add(e);
  EXPECT_EQ(h.find_prefix("alpha", h.size()), 3u);
  EXPECT_EQ(h.find_prefix("alpha", 3), 0u);
  EXPECT_EQ(h.find_prefix("alpha", 0), History::npos);
  EXPECT_EQ(h.find_prefix_forward("alpha", 1), 3u);
  EXPECT_EQ(h.find_prefix("beta\na", h.size()), 1u);
  EXPECT_EQ(h.find("\nalpha", h.size()), 1u);
  EXPECT_EQ(h.find("\n", 3), 1u);
  EXPECT_EQ(h.find("nb", h.size()), 2u);
  EXPECT_EQ(h.find("nalpha", h.size()), History::npos);  // not the letter of an escape
  EXPECT_EQ(h.find_forward("alpha", 1), 1u);
  const std::vector<Record> found = h.search("alpha", 2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "beta\nalpha");
  EXPECT_EQ(found[1].text, "alphabet");
}

TEST_F(HistoryFile, KeepsTheNewestTenThousand) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "entry " + std::to_string(i) + "\n";
  write(text);
  History h(file);
  EXPECT_EQ(h.size(), 10'000u);
  EXPECT_EQ(h.text(0), "entry 10000");
  EXPECT_EQ(h.text(9'999), "entry 19999");
}

}  // namespace
