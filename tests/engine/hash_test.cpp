// Hashes spread well and depend on every byte; the pointer map agrees with std::map.
#include "engine/base/hash.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/base/pointer_map.h"

namespace tycho {
namespace {

TEST(Hash, EveryBitOfTheInputChangesAboutHalfOfTheOutput) {
  std::mt19937_64 random(1);
  for (size_t bytes : {1, 7, 8, 16, 17, 100}) {
    std::vector<unsigned char> data(bytes);
    for (unsigned char& byte : data) byte = static_cast<unsigned char>(random());
    const uint64_t before = hash_bytes(data.data(), bytes);
    int changed = 0;
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      data[bit / 8] ^= 1 << bit % 8;
      const int flips = __builtin_popcountll(before ^ hash_bytes(data.data(), bytes));
      data[bit / 8] ^= 1 << bit % 8;
      EXPECT_GT(flips, 8);
      changed += flips;
    }
    EXPECT_NEAR(changed / double(8 * bytes), 32, 5) << bytes;
  }
}

TEST(Hash, SmallNumbersFillTheLowBitsEvenly) {
  std::vector<int> bucket(256, 0);
  for (uint64_t i = 0; i < 25600; ++i) ++bucket[hash_int(i * 64) & 255];
  for (int count : bucket) {
    EXPECT_GT(count, 50);
    EXPECT_LT(count, 160);
  }
}

TEST(Hash, LengthZerosAndSeedMatter) {
  const std::string zeros(64, '\0');
  std::set<uint64_t> seen;
  for (size_t bytes = 0; bytes <= 64; ++bytes)
    for (uint64_t seed = 0; seed < 4; ++seed) seen.insert(hash_bytes(zeros.data(), bytes, seed));
  EXPECT_EQ(seen.size(), 65u * 4);
}

TEST(PointerMap, AgreesWithAMapOverManyInsertionsAndRemovals) {
  static char memory[4096];
  std::mt19937 random(2);
  PointerMap<int> map;
  std::map<const void*, int> expected;
  for (int step = 0; step < 100000; ++step) {
    const void* key = memory + random() % (step < 50000 ? 4096 : 100);
    const int value = static_cast<int>(random());
    if (random() % 2 == 0) {
      map[key] = value;
      expected[key] = value;
    } else {
      EXPECT_EQ(map.erase(key), expected.erase(key) == 1);
    }
    ASSERT_EQ(map.size(), expected.size());
  }
  size_t visited = 0;
  map.for_each([&](const void* key, int value) {
    ++visited;
    EXPECT_EQ(expected.at(key), value);
  });
  EXPECT_EQ(visited, expected.size());
  for (char& byte : memory) {
    const auto found = expected.find(&byte);
    const int* value = map.find(&byte);
    ASSERT_EQ(value != nullptr, found != expected.end());
    if (value) {
      EXPECT_EQ(*value, found->second);
    }
  }
  map.clear();
  EXPECT_EQ(map.size(), 0u);
  EXPECT_EQ(map.find(memory), nullptr);
}

TEST(PointerMap, ANewValueIsEmpty) {
  PointerMap<std::string> map;
  int key = 0;
  EXPECT_EQ(map.find(&key), nullptr);
  EXPECT_EQ(map[&key], "");
  map[&key] = "text";
  EXPECT_EQ(*map.find(&key), "text");
  EXPECT_TRUE(map.erase(&key));
  EXPECT_FALSE(map.erase(&key));
  EXPECT_EQ(map[&key], "");
}

}  // namespace
}  // namespace tycho
