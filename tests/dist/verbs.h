// Every verb against a serial reference: what a transport must do, whichever it is.
#pragma once
#include "engine/dist/group.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {

constexpr DType kTypes[] = {DType::Bool,    DType::UInt8,  DType::Int8,    DType::Int16,
                            DType::Int32,   DType::Int64,  DType::Float16, DType::BFloat16,
                            DType::Float32, DType::Float64};

// The group of all ranks.
Ref<Group> world(const std::shared_ptr<Job>& job, uint32_t id = 0,
                 Group::MakeTransport* transport = nullptr);

// What a rank holds: small numbers that every type has, different for every rank and place.
Tensor data(int rank, int64_t n, DType t, int salt = 0);
std::string bytes(const Tensor& t);
Desc desc(Verb verb, const Tensor& share, int root = -1, RedOp red = RedOp::Sum);

// All verbs, reductions and roots with `n` elements of a type.
void every_verb(Group& g, int64_t n, DType t);

}  // namespace tycho::dist
