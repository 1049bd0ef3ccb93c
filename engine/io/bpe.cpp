// Byte-pair encoding (see bpe.h).
#include "engine/io/bpe.h"

#include <algorithm>
#include <queue>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/io/letters.h"

namespace tycho::io {
namespace {

constexpr Token kNoToken = 0xffffffff;
constexpr size_t kShort = 64;           // longer pieces are merged with a heap, and not remembered
constexpr size_t kRemembered = 200000;  // pieces

uint64_t key(Token left, Token right) { return static_cast<uint64_t>(left) << 32 | right; }

struct Character {
  Letter letter;
  size_t bytes;
};

// The character at `at`; a byte that belongs to none stands alone.
Character character_at(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t b = byte(at);
  if (b < 0x80) return {letter(b), 1};
  const size_t n = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc2 ? 2 : 0;
  if (!n || b > 0xf4 || s.size() - at < n) return {Letter::Other, 1};
  uint32_t c = b & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {Letter::Other, 1};
    c = c << 6 | (byte(at + i) & 0x3f);
  }
  return {letter(c), n};
}

size_t run_end(std::string_view s, size_t at, Letter which) {
  while (at < s.size()) {
    const Character k = character_at(s, at);
    if (k.letter != which) break;
    at += k.bytes;
  }
  return at;
}

size_t contraction(std::string_view rest) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (rest.substr(0, end.size()) == end) return end.size();
  return 0;
}

}  // namespace

const uint8_t* bytes_in_order() {
  static const auto order = [] {
    std::vector<uint8_t> v;
    const auto visible = [](int b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    };
    for (const bool wanted : {true, false})
      for (int b = 0; b < 256; ++b)
        if (visible(b) == wanted) v.push_back(static_cast<uint8_t>(b));
    return v;
  }();
  return order.data();
}

size_t piece_end(std::string_view s, size_t at) {
  if (s[at] == '\'')
    if (const size_t n = contraction(s.substr(at))) return at + n;
  size_t start = at;
  Character k = character_at(s, at);
  if (k.letter == Letter::Space) {
    // White space up to the last character of it, which leads the next piece if it is a blank.
    size_t end = at, last = at;
    while (end < s.size()) {
      const Character next = character_at(s, end);
      if (next.letter != Letter::Space) break;
      last = end;
      end += next.bytes;
    }
    if (end == s.size()) return end;
    if (last > at) return last;
    if (s[at] != ' ') return end;
    start = at + 1;
    k = character_at(s, start);
  }
  return run_end(s, start, k.letter);
}

// --- learning ---

namespace {

struct Word {
  std::vector<Token> tokens;
  int64_t count;
};
struct Place {
  int64_t count = 0;
  std::vector<uint32_t> words;  // where the pair occurs; some no more, some twice
};
struct Candidate {
  int64_t count;
  Token left, right;
  bool operator<(const Candidate& o) const {  // the top of a heap is the largest
    if (count != o.count) return count < o.count;
    return left != o.left ? left > o.left : right > o.right;
  }
};

std::vector<Word> words_of(std::string_view text, const Token* of_byte) {
  std::unordered_map<std::string_view, int64_t> counts;
  std::vector<std::string_view> order;
  for (size_t at = 0; at < text.size();) {
    const size_t end = piece_end(text, at);
    if (++counts[text.substr(at, end - at)] == 1) order.push_back(text.substr(at, end - at));
    at = end;
  }
  std::vector<Word> words;
  words.reserve(order.size());
  for (const std::string_view piece : order) {
    Word& w = words.emplace_back();
    w.count = counts[piece];
    for (const char c : piece) w.tokens.push_back(of_byte[static_cast<uint8_t>(c)]);
  }
  return words;
}

}  // namespace

Vocabulary learn_pairs(std::string_view text, size_t size, int64_t least) {
  Vocabulary v;
  Token of_byte[256];
  std::unordered_map<std::string, Token> known;
  for (Token i = 0; i < 256; ++i) {
    of_byte[bytes_in_order()[i]] = i;
    v.tokens.emplace_back(1, static_cast<char>(bytes_in_order()[i]));
    known.emplace(v.tokens.back(), i);
  }
  std::vector<Word> words = words_of(text, of_byte);
  std::unordered_map<uint64_t, Place> places;
  for (uint32_t w = 0; w < words.size(); ++w)
    for (size_t i = 0; i + 1 < words[w].tokens.size(); ++i) {
      Place& p = places[key(words[w].tokens[i], words[w].tokens[i + 1])];
      p.count += words[w].count;
      if (p.words.empty() || p.words.back() != w) p.words.push_back(w);
    }
  std::priority_queue<Candidate> heap;
  const auto offer = [&](uint64_t pair, int64_t count) {
    heap.push({count, static_cast<Token>(pair >> 32), static_cast<Token>(pair)});
  };
  for (const auto& [pair, p] : places) offer(pair, p.count);

  std::vector<uint64_t> grown;
  while (v.tokens.size() < size && !heap.empty()) {
    check_interrupt();
    const Candidate best = heap.top();
    heap.pop();
    Place& place = places[key(best.left, best.right)];
    if (place.count != best.count) {  // it has become rarer meanwhile
      if (place.count > 0) offer(key(best.left, best.right), place.count);
      continue;
    }
    if (best.count < std::max<int64_t>(least, 1)) break;
    const std::string bytes = v.tokens[best.left] + v.tokens[best.right];
    const auto [it, fresh] = known.emplace(bytes, static_cast<Token>(v.tokens.size()));
    const Token merged = it->second;
    if (fresh) v.tokens.push_back(bytes);
    v.merges.emplace_back(best.left, best.right);
    const std::vector<uint32_t> where = std::move(place.words);
    place.words.clear();
    grown.clear();
    for (const uint32_t w : where) {
      std::vector<Token>& t = words[w].tokens;
      const int64_t n = words[w].count;
      bool here = false;
      for (size_t i = 0; i + 1 < t.size() && !here; ++i)
        here = t[i] == best.left && t[i + 1] == best.right;
      if (!here) continue;
      for (size_t i = 0; i + 1 < t.size(); ++i) places[key(t[i], t[i + 1])].count -= n;
      size_t to = 0;
      for (size_t i = 0; i < t.size(); ++i) {
        const bool pair = i + 1 < t.size() && t[i] == best.left && t[i + 1] == best.right;
        t[to++] = pair ? merged : t[i];
        i += pair;
      }
      t.resize(to);
      for (size_t i = 0; i + 1 < t.size(); ++i) {
        const uint64_t k = key(t[i], t[i + 1]);
        Place& p = places[k];
        p.count += n;
        if (t[i] == merged || t[i + 1] == merged) {
          if (p.words.empty() || p.words.back() != w) p.words.push_back(w);
          grown.push_back(k);
        }
      }
    }
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const uint64_t k : grown) offer(k, places[k].count);
  }
  return v;
}

// --- encoding ---

BytePairs::BytePairs(const Vocabulary& v) {
  std::fill(of_byte_, of_byte_ + 256, kNoToken);
  std::unordered_map<std::string_view, Token> number;
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    number.emplace(v.tokens[i], static_cast<Token>(i));
    if (v.tokens[i].size() == 1)
      of_byte_[static_cast<uint8_t>(v.tokens[i][0])] = static_cast<Token>(i);
  }
  merges_.reserve(v.merges.size());
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    const auto [left, right] = v.merges[rank];
    const std::string bytes = v.tokens[left] + v.tokens[right];
    const auto it = number.find(bytes);
    TYCHO_CHECK(Kind::Value, it != number.end(),
                "BPETokenizer: merge %zu makes a token that the vocabulary lacks", rank + 1);
    merges_.emplace(key(left, right), Merge{static_cast<uint32_t>(rank), it->second});
  }
}

const BytePairs::Merge* BytePairs::merge_of(Token left, Token right) const {
  const auto it = merges_.find(key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

// Merges with a heap of pairs by rank, then place: n log n for a piece of any length.
void BytePairs::encode_long(std::vector<Token>* tokens) const {
  std::vector<Token>& t = *tokens;
  const int64_t n = static_cast<int64_t>(t.size());
  struct Item {
    uint32_t rank;
    int64_t at;
    Token left, right, result;
    bool operator<(const Item& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  std::vector<int64_t> next(t.size()), before(t.size());
  for (int64_t i = 0; i < n; ++i)
    next[static_cast<size_t>(i)] = i + 1, before[static_cast<size_t>(i)] = i - 1;
  std::priority_queue<Item> heap;
  const auto offer = [&](int64_t i) {
    if (i < 0 || next[static_cast<size_t>(i)] >= n) return;
    const Token left = t[static_cast<size_t>(i)],
                right = t[static_cast<size_t>(next[static_cast<size_t>(i)])];
    if (const Merge* m = merge_of(left, right)) heap.push({m->rank, i, left, right, m->result});
  };
  for (int64_t i = 0; i + 1 < n; ++i) offer(i);
  while (!heap.empty()) {
    const Item item = heap.top();
    heap.pop();
    const size_t i = static_cast<size_t>(item.at);
    if (t[i] != item.left || next[i] >= n || t[static_cast<size_t>(next[i])] != item.right)
      continue;
    const size_t gone = static_cast<size_t>(next[i]);
    t[i] = item.result;
    t[gone] = kNoToken;
    next[i] = next[gone];
    if (next[i] < n) before[static_cast<size_t>(next[i])] = item.at;
    offer(before[i]);
    offer(item.at);
  }
  std::erase(t, kNoToken);
}

void BytePairs::encode_piece(std::string_view piece, std::vector<Token>* out) const {
  std::vector<Token>& t = *out;
  t.clear();
  for (const char c : piece) {
    const Token token = of_byte_[static_cast<uint8_t>(c)];
    TYCHO_CHECK(Kind::Value, token != kNoToken,
                "encode: the vocabulary has no token for byte %d, which is in the text",
                static_cast<uint8_t>(c));
    t.push_back(token);
  }
  if (t.size() > kShort) return encode_long(out);
  while (t.size() > 1) {
    const Merge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < t.size(); ++i)
      if (const Merge* m = merge_of(t[i], t[i + 1]); m && (!best || m->rank < best->rank)) {
        best = m;
        place = i;
      }
    if (!best) return;
    t[place] = best->result;
    t.erase(t.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

void BytePairs::encode(std::string_view text, std::vector<int64_t>* out) {
  std::vector<Token> tokens;
  std::string piece;
  for (size_t at = 0; at < text.size();) {
    if (interrupt_pending()) check_interrupt();
    const size_t end = piece_end(text, at);
    piece.assign(text.substr(at, end - at));
    at = end;
    if (piece.size() > kShort) {
      encode_piece(piece, &tokens);
      out->insert(out->end(), tokens.begin(), tokens.end());
      continue;
    }
    auto it = seen_.find(piece);
    if (it == seen_.end()) {
      encode_piece(piece, &tokens);
      if (seen_.size() >= kRemembered) seen_.clear();
      it = seen_.emplace(piece, tokens).first;
    }
    out->insert(out->end(), it->second.begin(), it->second.end());
  }
}

}  // namespace tycho::io
