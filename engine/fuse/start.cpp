// A product and the row that follows it, in one pass (see start.h).
#include "engine/fuse/start.h"

namespace tycho::fuse {

bool start_with_step(const RowProgram& p, RowStart& start, int at, bool values, Storage& result,
                     RowProgram& rest) {
  using From = RowProgram::From;
  const RowProgram::Step& first = p.step[0];
  const auto reads = [&](const RowProgram::Operand& o) {
    return o.from == From::Input && o.index == at;
  };
  if (!reads(first.operand[0]) || first.type != p.input[at].dtype || first.n > 2) return false;
  const void* other = nullptr;
  if (first.n == 2) {
    const RowProgram::Operand& o = first.operand[1];
    if (o.from != From::Input || reads(o) || p.input[o.index].count != p.numel ||
        p.input[o.index].dtype != first.type)
      return false;
    other = p.input[o.index].data;
  }
  for (int k = 1; k < p.steps; ++k)
    for (int j = 0; j < p.step[k].n; ++j) values = values || reads(p.step[k].operand[j]);
  if (values && p.inputs == p.kMostInputs) return false;
  give_memory(result);
  if (!start.run_with(first.row, other, values, result.data)) return false;
  rest = p;
  const int slot = values ? rest.inputs++ : at;
  rest.input[slot] = {static_cast<char*>(result.data), &result, first.type, p.numel, 1};
  rest.steps = p.steps - 1;
  for (int k = 0; k < rest.steps; ++k) {
    rest.step[k] = p.step[k + 1];
    for (RowProgram::Operand& o : rest.step[k].operand) {
      if (o.from != From::Step) continue;
      if (o.index)
        --o.index;
      else
        o = {From::Input, static_cast<uint8_t>(slot), 0};
    }
  }
  return true;
}

}  // namespace tycho::fuse
