// The table itself: what help, usage errors and these tests need of every op is there.
#include <cctype>
#include <set>
#include <string>

#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

class Described : public EveryOp {};

TEST_P(Described, InOneSentence) {
  const std::string doc = op().doc ? op().doc : "";
  if (op().where == kHidden && doc.empty()) return;
  ASSERT_FALSE(doc.empty()) << op().name << " has no doc";
  EXPECT_TRUE(doc.back() == '.' || doc.back() == ')') << op().name << ": " << doc;
  EXPECT_LE(doc.size(), 300u) << op().name;
}

TEST_P(Described, BySamples) {
  if (op().where == kHidden || op().name[0] == '_') return;
  EXPECT_FALSE(OpSamples(op()).items.empty()) << op().name << " has no samples";
}

TEST_P(Described, ByASignatureThatCanBeRead) {
  std::set<std::string> names;
  for (const Param& p : op().params) {
    EXPECT_FALSE(p.name.empty()) << op().name << ": " << op().args;
    for (const char c : p.name)
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '_')
          << op().name << ": argument \"" << p.name << '"';
    EXPECT_TRUE(names.insert(p.name).second) << op().name << " has two arguments " << p.name;
  }
  EXPECT_LE(op().params.size(), static_cast<size_t>(kMaxArgs)) << op().name;
  size_t saved = 0;
  for (const char* p = op().saves; *p; ++p) saved += p == op().saves || *p == ',';
  EXPECT_EQ(saved, op().saved_inputs.size() + op().saved_outputs.size())
      << op().name << " saves what it does not have: " << op().saves;
}

TEST_P(Described, ByAShapeRuleOrAComposition) {
  EXPECT_TRUE(op().shape || op().compose || op().row >= 0) << op().name;
}

TYCHO_EVERY_OP(Described);

}  // namespace
}  // namespace tycho::optest
