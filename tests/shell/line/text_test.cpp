// UTF-8, widths, keys from bytes, and the buffer, each alone.
#include "shell/line/text.h"

#include <gtest/gtest.h>

#include "shell/line/buffer.h"
#include "shell/line/keys.h"

using namespace tycho::line;

namespace {

TEST(Text, DecodesOnlyWhatIsValid) {
  EXPECT_EQ(decode("A", 0).code, U'A');
  EXPECT_EQ(decode("\xc3\xa4", 0).code, 0xe4u);
  EXPECT_EQ(decode("\xe4\xbd\xa0", 0).code, 0x4f60u);
  EXPECT_EQ(decode("\xf0\x9f\x91\x8d", 0).code, 0x1f44du);
  // Overlong, surrogate, too large, cut off, and a byte that begins nothing.
  for (const char* s : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xbd",
                        "\xe4g", "\x80", "\xff", "\xf5\x80\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_FALSE(decode(s, 0).valid) << testing::PrintToString(s);
    EXPECT_EQ(decode(s, 0).bytes, 1u);
  }
  for (char32_t c : {U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\xffff', U'\x10000', U'\x10ffff'}) {
    std::string s;
    append_utf8(&s, c);
    EXPECT_EQ(decode(s, 0).code, c);
    EXPECT_EQ(decode(s, 0).bytes, s.size());
    EXPECT_EQ(bytes_missing(s.substr(0, 1)), s.size() - 1);
  }
}

TEST(Text, KnowsColumns) {
  EXPECT_EQ(columns_of("abc"), 3);
  EXPECT_EQ(columns_of("\xe4\xbd\xa0\xe5\xa5\xbd"), 4);  // two ideographs
  EXPECT_EQ(columns_of("e\xcc\x81"), 1);                 // e with an accent
  EXPECT_EQ(columns_of("\xf0\x9f\x91\x8d"), 2);          // thumbs up
  EXPECT_EQ(columns_of("\xef\xbd\x81"), 2);              // full-width a
  EXPECT_EQ(columns_of("\xed\x95\x9c"), 2);              // Hangul
  EXPECT_EQ(columns_of("\xd0\x96"), 1);                  // Cyrillic
  EXPECT_EQ(columns_of("\x01"), 2);                      // ^A
  EXPECT_EQ(columns_of("\xff"), 4);                      // <ff>
  EXPECT_EQ(code_width(0x200d), 0);
  EXPECT_EQ(code_width(0x9b), -1);  // a control of eight bits
}

TEST(Text, KeepsTogetherWhatIsOneCharacter) {
  for (const char* s :
       {"a", "e\xcc\x81", "\xe4\xbd\xa0", "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd",
        "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
        "\xe2\x9d\xa4\xef\xb8\x8f"}) {
    const std::string text = std::string(s) + "x";
    EXPECT_EQ(next_character(text, 0), text.size() - 1) << s;
    EXPECT_EQ(previous_character(text, text.size() - 1), 0u) << s;
  }
}

std::vector<Key> keys_of(const std::string& bytes, size_t piece) {
  Keys keys;
  std::vector<Key> out;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    keys.feed(bytes.substr(i, piece));
    for (Key k; keys.next(&k);) out.push_back(k);
  }
  return out;
}

TEST(Keys, AreTheSameHoweverTheBytesComeApart) {
  const std::string bytes =
      "a\x01\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b"
      "f\x1b\x1b[D\xe4\xbd\xa0\xff\xe4g\x1b[200~p\x1b[20\x1b[201~\x1b[Z"
      "\x1b[13;2u\x1b[27;5;97~\x1b[99;1;2;3;4Xz\x1b]0;title\x07y\x1b[[Aw";
  const std::vector<Key> wanted = {'a',     1,         kUp,           kDown,    kRight | kCtrl,
                                   kDelete, meta('f'), kLeft | kMeta, 0x4f60,   kByte,
                                   kByte,   'g',       kPaste,        kBackTab, meta('\r'),
                                   1,       'z',       'y',           'w'};
  for (size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, bytes.size()})
    EXPECT_EQ(keys_of(bytes, piece), wanted) << piece;
}

TEST(Keys, AloneEscCountsOnlyWhereItIsWanted) {
  Keys keys;
  Key k;
  keys.feed("\x1b");
  EXPECT_FALSE(keys.next(&k));
  EXPECT_TRUE(keys.waiting());
  EXPECT_FALSE(keys.quiet(false, &k));
  keys.feed("f");  // however late: still Meta
  ASSERT_TRUE(keys.next(&k));
  EXPECT_EQ(k, meta('f'));
  keys.feed("\x1b");
  EXPECT_FALSE(keys.next(&k));
  ASSERT_TRUE(keys.quiet(true, &k));
  EXPECT_EQ(k, kEscape);
  EXPECT_FALSE(keys.waiting());
  keys.feed("f");
  ASSERT_TRUE(keys.next(&k));
  EXPECT_EQ(k, Key{'f'});
  // After it has acted, the rest of an arrow is still an arrow, and a bracket a bracket.
  keys.feed("\x1b");
  EXPECT_FALSE(keys.next(&k));
  ASSERT_TRUE(keys.quiet(true, &k));
  keys.feed("[A");
  ASSERT_TRUE(keys.next(&k));
  EXPECT_EQ(k, Key{kUp});
  keys.feed("\x1b");
  EXPECT_FALSE(keys.next(&k));
  ASSERT_TRUE(keys.quiet(true, &k));
  keys.feed("[");
  EXPECT_FALSE(keys.next(&k));
  ASSERT_TRUE(keys.quiet(true, &k));
  EXPECT_EQ(k, Key{'['});
}

TEST(Keys, PastedTextIsKeptAsItIs) {
  Keys keys;
  Key k;
  std::string pasted = "a\r\nb\x1b[A\x03\xff" + std::string(100'000, 'x');
  keys.feed("\x1b[200~" + pasted + "\x1b[201~q");
  ASSERT_TRUE(keys.next(&k));
  EXPECT_EQ(k, Key{kPaste});
  EXPECT_EQ(keys.pasted(), pasted);
  EXPECT_EQ(keys.rest(), "q");
}

TEST(Buffer, UndoesRunsOfTypingAsOne) {
  Buffer b;
  for (char c : std::string("hello")) b.type(std::string(1, c));
  b.end_run();
  for (char c : std::string(" you")) b.type(std::string(1, c));
  EXPECT_TRUE(b.undo());
  EXPECT_EQ(b.text(), "hello");
  EXPECT_TRUE(b.undo());
  EXPECT_EQ(b.text(), "");
  EXPECT_FALSE(b.undo());
}

TEST(Buffer, UndoesAStepWhole) {
  Buffer b;
  b.insert("abc");
  {
    const Buffer::Step step(&b);
    b.erase(0, 1);
    b.insert("xyz");
    b.erase(1, 2);
  }
  EXPECT_TRUE(b.undo());
  EXPECT_EQ(b.text(), "abc");
  EXPECT_EQ(b.cursor(), 3u);
}

TEST(Buffer, PutsTheCursorBetweenCharacters) {
  Buffer b;
  b.reset("\xe4\xbd\xa0\xe5\xa5\xbd", 4);
  EXPECT_EQ(b.cursor(), 3u);
  b.move(100);
  EXPECT_EQ(b.cursor(), 6u);
  b.insert("e");
  b.type("\xcc\x81");
  EXPECT_EQ(b.cursor(), 9u);
}

}  // namespace
