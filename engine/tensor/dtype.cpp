// Names and promotion of element types, as PyTorch's promotion table.
#include "engine/tensor/dtype.h"

#include <utility>

namespace tycho {
namespace {

struct Names {
  const char *name, *short_name, *alias;
};
constexpr Names kNames[kDTypes] = {
    {"bool", "bool", "boolean"},  {"uint8", "u8", "byte"},          {"int8", "i8", "char"},
    {"int16", "i16", "short"},    {"int32", "i32", "int"},          {"int64", "i64", "long"},
    {"float16", "f16", "half"},   {"bfloat16", "bf16", "bfloat16"}, {"float32", "f32", "float"},
    {"float64", "f64", "double"},
};

constinit thread_local DType current_default = DType::Float32;

}  // namespace

const char* dtype_name(DType t) { return kNames[static_cast<int>(t)].name; }
const char* dtype_short_name(DType t) { return kNames[static_cast<int>(t)].short_name; }

bool parse_dtype(std::string_view name, DType* out) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (int i = 0; i < kDTypes; ++i)
    if (name == kNames[i].name || name == kNames[i].short_name || name == kNames[i].alias) {
      *out = static_cast<DType>(i);
      return true;
    }
  return false;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
  if (a == DType::UInt8 && b == DType::Int8) return DType::Int16;
  return b;
}

Promotion::Slot Promotion::combine(Slot higher, Slot lower) {
  if (!higher.set) return lower;
  if (!lower.set || category(lower.type) <= category(higher.type)) return higher;
  return {true, promote(higher.type, lower.type)};
}

DType Promotion::result() const { return combine(dims_, combine(zero_, number_)).type; }

DType default_dtype() { return current_default; }
void set_default_dtype(DType t) { current_default = t; }

}  // namespace tycho
