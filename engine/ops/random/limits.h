// What may be drawn into which type: parameters of random numbers are checked here before anything
// is drawn or written; a wrong one raises Kind::Value, a wrong type Kind::DType.
#pragma once
#include <cstdint>

#include "engine/tensor/dtype.h"

namespace tycho {

void check_floating(const char* what, DType dtype);
void check_uniform(DType dtype, double from, double to);
void check_normal(DType dtype, double deviation);
void check_probability(double p);  // of bernoulli
void check_exponential(DType dtype, double lambda);
void check_geometric(DType dtype, double p);
void check_cauchy(DType dtype, double sigma);
void check_log_normal(DType dtype, double deviation);
// Element i, from 0, of poisson's rates or _standard_gamma's shapes.
void check_rate(const char* op, int64_t i, double rate);
// The smallest number of full precision, which gamma numbers never fall below.
double least_normal(DType dtype);
// Half the step below 1: what 1 less the next smaller number is.
double unit_roundoff(DType dtype);

// What random_() draws from: `count` integers from `low` on; a count of 0 stands for 2^64.
struct IntegerRange {
  int64_t low;
  uint64_t count;
};
IntegerRange integer_range(DType dtype);  // of random_() without bounds
// From `from` up to the largest integer that the type holds exactly.
IntegerRange integer_range_from(DType dtype, int64_t from);
// Of random_(from, to) and randint(from, to). Floating dtypes cannot hold every integer: bounds
// that they would round are moved inside, as PyTorch does.
IntegerRange integer_range(DType dtype, int64_t from, int64_t to);

}  // namespace tycho
