// Elementwise ops: the rows of elementwise.def as data. A row has up to four operands, a, b, c and
// d, each a tensor or a number (d, and every `number` of a signature, has no gradient); its value
// is compiled for the CPU's lanes (cpu/elementwise/level/rows_*.cpp) and its gradients, written
// with ops, are differentiable themselves.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// The type of a row's result, and in which lanes its value makes sense.
enum class RowType : uint8_t {
  Same,    // the promoted type; bool, integers and floats
  Num,     // the promoted type; not for bool
  Counts,  // the promoted type; bool counts as int64
  Float,   // integers and bool become the default floating type
  Real,    // floats only
  Test,    // bool, computed in the promoted type
  Bits,    // the promoted type; bool and integers only
  Ints,    // the promoted type; integers only
};

enum class Row : int16_t {
#define ROW(name, ...) name,
#include "engine/ops/elementwise/elementwise.def"
  Count
};
constexpr int kRows = static_cast<int>(Row::Count);
constexpr int kOperands = 4;

// The last column: what most rows leave out.
struct RowMore {
  const char* name = nullptr;  // the op's name where it is no identifier ("add.alpha")
  const char* aliases = "";
  uint8_t where = kFunction | kMethod;
  uint8_t apart = 0;    // bits of operands that take no part in promotion (numbers never do)
  bool inplace = true;  // has an in-place form
  // Raises on values the row cannot take; may round a number as the type does.
  void (*check)(Call&, DType compute) = nullptr;
  // A row that gives the same result sooner for this call's arguments, or Row::Count.
  Row (*stand_in)(const Call&, DType compute) = nullptr;
  struct Range {
    double from = -2, to = 2;
  };
  Range in = {}, in_b = {}, in_c = {};  // of the samples of a, b and c
  void (*samples)(Samples&) = nullptr;
};

struct RowInfo {
  RowType type;
  uint8_t operands;  // how many of a, b, c, d it has
  uint8_t apart;
  bool inplace;
  // Per operand: the gradient, and which of a, b, c, d, y (bits 0..4) it reads.
  uint8_t reads[kOperands];
  Tensor (*grad[kOperands])(const Backward&);
  void (*check)(Call&, DType compute);
  Row (*stand_in)(const Call&, DType compute);
};
extern const RowInfo row_info[kRows];
constexpr uint8_t kReadsResult = 1 << kOperands;

// Shape, kernel and everything between for a row; called by apply.
void apply_row(Call& c);
const Op& row_op(Row row);

// C++ functions of all rows, and operators: differentiable like everything else.
struct Operand {
  Value v;
  Operand(const Tensor& t) : v(t) {}
  Operand(double x) : v(x) {}
  Operand(int x) : v(x) {}
  Operand(int64_t x) : v(x) {}
  Operand(const Value& x) : v(x) {}
};
Tensor call_row(Row row, const Operand* operands, int n);

#define TYCHO_ROW_1(name) \
  inline Tensor name(const Operand& a) { return call_row(Row::name, &a, 1); }
#define TYCHO_ROW_2(name)                                  \
  inline Tensor name(const Operand& a, const Operand& b) { \
    const Operand o[] = {a, b};                            \
    return call_row(Row::name, o, 2);                      \
  }
#define TYCHO_ROW_3(name)                                                    \
  inline Tensor name(const Operand& a, const Operand& b, const Operand& c) { \
    const Operand o[] = {a, b, c};                                           \
    return call_row(Row::name, o, 3);                                        \
  }
#define TYCHO_ROW_4(name)                                                                      \
  inline Tensor name(const Operand& a, const Operand& b, const Operand& c, const Operand& d) { \
    const Operand o[] = {a, b, c, d};                                                          \
    return call_row(Row::name, o, 4);                                                          \
  }
// The functions stand in a namespace of their own: many share their names with <cmath>.
namespace fn {
#define ROW(name, operands, ...) TYCHO_ROW_##operands(name)
#include "engine/ops/elementwise/elementwise.def"
}  // namespace fn

inline Tensor operator+(const Operand& a, const Operand& b) { return fn::add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return fn::sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return fn::mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return fn::div(a, b); }
inline Tensor operator-(const Tensor& a) { return fn::neg(a); }

}  // namespace tycho
