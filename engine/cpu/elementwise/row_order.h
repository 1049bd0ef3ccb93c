// A program's steps in the order in which the processor takes them: parts that have nothing to do with each other
// one after the other, and in each what reads a result behind it.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/ops/elementwise/row_program.h"

namespace tycho::cpu {

// Steps that share no operand with the others are programs of their own: run tile by tile in turns, they would
// only lead memory from one place to another. None where all share some.
inline std::vector<RowProgram> apart(const RowProgram& p) {
  using From = RowProgram::From;
  int8_t step_in[RowProgram::kMostSteps], input_in[RowProgram::kMostInputs];
  std::fill_n(input_in, p.inputs, int8_t{-1});
  int8_t parts = 0;
  for (int k = 0; k < p.steps; ++k) {
    int8_t& own = step_in[k] = -1;
    const auto join = [&](int8_t& other) {
      const int8_t from = other;
      if (own < 0) own = from;
      if (own < 0 || from < 0 || own == from) return;
      std::replace(step_in, step_in + k, from, own);
      std::replace(input_in, input_in + p.inputs, from, own);
    };
    const auto each = [&](auto f) {
      for (int j = 0; j < p.step[k].n; ++j)
        if (const RowProgram::Operand& o = p.step[k].operand[j]; o.from != From::Number)
          f(o.from == From::Step ? step_in[o.index] : input_in[o.index]);
    };
    each(join);
    if (own < 0) own = parts++;
    each([&](int8_t& other) { other = own; });
  }
  std::vector<RowProgram> all;
  if (std::count(step_in, step_in + p.steps, step_in[0]) == p.steps || p.ends) return all;
  for (int8_t part = 0; part < parts; ++part) {
    if (std::find(step_in, step_in + p.steps, part) == step_in + p.steps) continue;
    RowProgram& q = all.emplace_back(p);
    uint8_t step_at[RowProgram::kMostSteps], input_at[RowProgram::kMostInputs];
    q.steps = q.inputs = 0;
    for (int i = 0; i < p.inputs; ++i) {
      if (input_in[i] != part) continue;
      input_at[i] = static_cast<uint8_t>(q.inputs);
      q.input[q.inputs++] = p.input[i];
    }
    for (int k = 0; k < p.steps; ++k) {
      if (step_in[k] != part) continue;
      step_at[k] = static_cast<uint8_t>(q.steps);
      RowProgram::Step& step = q.step[q.steps++] = p.step[k];
      for (int j = 0; j < step.n; ++j)
        if (RowProgram::Operand& o = step.operand[j]; o.from != From::Number)
          o.index = (o.from == From::Step ? step_at : input_at)[o.index];
    }
  }
  return all;
}

// The program with its steps in another order, in which what reads a step's result follows it where it
// can: such steps become links. `end_step` is where each end's step has gone.
inline RowProgram in_chains(const RowProgram& p, int* end_step) {
  static_assert(RowProgram::kMostSteps <= 64);
  uint64_t needs[RowProgram::kMostSteps] = {}, readers[RowProgram::kMostSteps] = {}, done = 0;
  for (int k = 0; k < p.steps; ++k)
    for (int j = 0; j < p.step[k].n; ++j)
      if (const RowProgram::Operand& o = p.step[k].operand[j]; o.from == RowProgram::From::Step)
        needs[k] |= uint64_t{1} << o.index, readers[o.index] |= uint64_t{1} << k;
  const auto ready = [&](int k) { return !(done >> k & 1) && !(needs[k] & ~done); };
  RowProgram q = p;
  uint8_t now[RowProgram::kMostSteps];
  int next = 0;  // the first step that is not done
  for (int n = 0, k = 0; n < p.steps; ++n) {
    int pick = -1;
    for (uint64_t left = n ? readers[k] : 0; left && pick < 0; left &= left - 1)
      if (const int reader = std::countr_zero(left); ready(reader)) pick = reader;
    for (; done >> next & 1; ++next) continue;
    k = pick < 0 ? next : pick;  // the first one is always ready
    done |= uint64_t{1} << k;
    now[k] = static_cast<uint8_t>(n);
    q.step[n] = p.step[k];
    for (int j = 0; j < p.step[k].n; ++j)
      if (RowProgram::Operand& o = q.step[n].operand[j]; o.from == RowProgram::From::Step)
        o.index = now[o.index];
  }
  for (int i = 0; i < p.ends; ++i) end_step[i] = now[p.end[i]->step];
  return q;
}

}  // namespace tycho::cpu
