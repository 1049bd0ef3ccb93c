// What a pickle may make besides plain values: PyTorch's tensors, storages and dtypes, and a few of
// Python's containers (used by pickle.cpp).
#pragma once
#include <string>
#include <string_view>

#include "engine/io/pickle.h"

namespace tycho::io {

class PickleMaker {
 protected:
  // Copies of items and texts may have this many elements in all: each is in the pickle once.
  PickleMaker(const std::string& name, size_t most_copied)
      : name_(name), copies_(most_copied), elements_(most_copied) {}

  uint32_t node(PickleKind kind, int64_t integer = 0);
  uint32_t list(PickleKind kind, std::vector<uint32_t> items);
  uint32_t text(std::string_view s);
  uint32_t global(std::string_view module, std::string_view name);  // a class or a dtype
  uint32_t make(uint32_t callee, uint32_t arguments);
  uint32_t storage(uint32_t id);               // of a persistent id
  void build(uint32_t value, uint32_t state);  // sets what Python keeps beside a value's parts
  bool is_class(uint32_t i) const { return p_[i].kind == PickleKind::Class; }
  void check_key(uint32_t i) const;
  [[noreturn]] void wrong_class(uint32_t i) const;
  [[noreturn]] void bad(const std::string& why) const;

  Pickle p_;

 private:
  uint32_t make_tensor(const std::vector<uint32_t>& a);
  // NumPy's values (pickle_numpy.cpp).
  uint32_t numpy_type(std::string_view descr);
  std::string numpy_elements(uint32_t type, std::string_view bytes) const;
  uint32_t numpy_number(const std::vector<uint32_t>& a);
  void fill_array(uint32_t array, const std::vector<uint32_t>& state);
  int64_t integer(uint32_t i) const;
  Sizes sizes(uint32_t i) const;
  std::string_view word(uint32_t i) const;
  const std::vector<uint32_t>& items(uint32_t i) const;

  void copies(size_t n);

  const std::string& name_;
  size_t copies_;    // left
  size_t elements_;  // bytes left for NumPy's arrays, each of which is in the pickle once
};

}  // namespace tycho::io
