// A call that is kept to have its kernel called again, with the same arguments and into the same
// results: how devices that have no graphs of their own replay them (tensor/graph.h).
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/random/random.h"
#include "engine/ops/table/op.h"

namespace tycho {

// The tensor as it lies now: what becomes of the user's own changes nothing, nor does the end of an
// inner layout.
Tensor as_it_lies(const Tensor& t);

// Arguments with all that they point to. Numbers of the host are copied: a graph has their values.
class RecordedArgs {
 public:
  Value keep(const Value& v);
  Tensor keep(Impl* t);  // one alias for each tensor, so that who is whom stays as it was

 private:
  std::vector<std::pair<Impl*, Tensor>> tensors_;
  std::deque<std::vector<Tensor>> lists_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::string> strings_;
  std::deque<DeviceGenerator> generators_;
};

class RecordedCall {
 public:
  RecordedCall(const Call& c, Kernel kernel);
  void run();

 private:
  RecordedArgs args_;
  Call call_;
  Kernel kernel_;
};

}  // namespace tycho
