// The ten element types, their names, and PyTorch's rules for promoting them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tycho {

// The order is relied on: by category (bool, integers, floats), and by the conversion tables.
enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64
};
constexpr int kDTypes = 10;

constexpr int dtype_size(DType t) {
  // Four bits each, from the lowest: a table would be copied or loaded at every use.
  return static_cast<int>(0x8422842111ull >> (4 * static_cast<unsigned>(t)) & 15);
}
const char* dtype_name(DType t);        // "float32"
const char* dtype_short_name(DType t);  // "f32"
// Accepts names ("float32"), short names ("f32") and PyTorch's other names ("float", "long", ...).
bool parse_dtype(std::string_view name, DType* out);

constexpr bool is_floating(DType t) { return t >= DType::Float16; }
constexpr bool is_integral(DType t) { return t > DType::Bool && t <= DType::Int64; }

// bool < integers < floats: a number or a 0-d tensor raises the type of a tensor with dimensions
// only across categories.
constexpr int category(DType t) { return t == DType::Bool ? 0 : is_integral(t) ? 1 : 2; }

DType promote(DType a, DType b);  // as torch.promote_types

// torch.result_type, built up operand by operand.
class Promotion {
 public:
  void add(DType t, bool has_dims) { merge(has_dims ? dims_ : zero_, t); }
  void add_number(DType t) { merge(number_, t); }  // Int64, Float32 (default dtype) or Bool
  DType result() const;

 private:
  struct Slot {
    bool set = false;
    DType type = DType::Bool;
  };
  static void merge(Slot& s, DType t) {
    s.type = !s.set || s.type == t ? t : promote(s.type, t);
    s.set = true;
  }
  static Slot combine(Slot higher, Slot lower);
  Slot dims_, zero_, number_;
};

// May a result of type `from` be stored in place into `to`? (as torch.can_cast)
constexpr bool can_cast(DType from, DType to) {
  return !(is_floating(from) && !is_floating(to)) && !(from != DType::Bool && to == DType::Bool);
}

DType default_dtype();  // of new floating tensors: Float32 unless set
void set_default_dtype(DType t);

}  // namespace tycho
