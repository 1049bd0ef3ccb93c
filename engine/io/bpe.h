// Byte-pair encoding at the level of bytes, as in GPT-2: text is cut into pieces (words with the
// space before them, numbers, marks, white space), and in each piece neighbouring tokens are
// merged, the pair that was learnt first first. Sennrich, Haddow and Birch 2016, "Neural Machine
// Translation of Rare Words with Subword Units"; Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners". Tokens count from 0 here.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tycho::io {

using Token = uint32_t;
using TokenPair = std::pair<Token, Token>;

// The 256 bytes in GPT-2's order, which are its first 256 tokens: visible characters first.
const uint8_t* bytes_in_order();

// Where the piece that begins at `at` ends. The rule is GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and bytes that are no UTF-8 count as marks.
size_t piece_end(std::string_view text, size_t at);

struct Vocabulary {
  std::vector<std::string> tokens;  // their bytes
  std::vector<TokenPair> merges;    // the one to try first is first
};

// Learns merges until there are `size` tokens, or no pair occurs `least` times. Of pairs that occur
// equally often the one of the older tokens comes first.
Vocabulary learn_pairs(std::string_view text, size_t size, int64_t least);

class BytePairs {
 public:
  explicit BytePairs(const Vocabulary& v);
  void encode(std::string_view text, std::vector<int64_t>* out);  // appends

 private:
  struct Merge {
    uint32_t rank;
    Token result;
  };
  const Merge* merge_of(Token left, Token right) const;
  void encode_piece(std::string_view piece, std::vector<Token>* out) const;
  void encode_long(std::vector<Token>* tokens) const;

  Token of_byte_[256];
  std::unordered_map<uint64_t, Merge> merges_;
  std::unordered_map<std::string, std::vector<Token>> seen_;  // pieces encoded before
};

}  // namespace tycho::io
