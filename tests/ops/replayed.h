// A call and its gradients, captured as a graph and replayed, against the same call by itself; for
// devices of every kind.
#pragma once
#include "engine/base/check.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/graph.h"
#include "tests/ops/table.h"

namespace tycho::optest {

// Why a graph cannot hold the call, which looks at values or runs on the CPU; "" where it can.
inline std::string same_when_replayed(const Op& op, const Samples::Item& item, Device device) {
  const auto there = [&](const Tensor& t) {
    Tensor y = on_device(t, device);
    y->is_number = t->is_number;
    return y;
  };
  const auto fetched = [](std::vector<Tensor> all) {
    for (Tensor& t : all)
      if (t) t = copied(on_device(t, Device{}));
    return all;
  };
  const Args once = mapped(item.args, there);
  std::vector<Tensor> want;
  try {
    want = fetched(with_gradients(op, once));
  } catch (const Error&) {
    return "";
  }
  const Args args = mapped(item.args, there);
  backend_of(device).synchronize(device);
  struct OnStream {
    Device d;
    StreamId stream = backend_of(d).new_stream(d);
    explicit OnStream(Device d) : d(d) { set_current_stream(d, stream); }
    ~OnStream() {
      set_current_stream(d, 0);
      backend_of(d).release_stream(d, stream);
    }
  };
  Graph graph;
  std::vector<Tensor> got;
  {
    const OnStream scope(device);
    graph.begin(device, 0);
    try {
      got = with_gradients(op, args);
    } catch (const Error& e) {
      EXPECT_NE(e.text.find("while a CUDA graph is captured"), std::string::npos) << e.text;
      graph.reset();
      return e.text;
    }
    graph.end();
    graph.replay();
    backend_of(device).synchronize(device);
  }
  EXPECT_EQ(difference(fetched(got), want, 1e-6), "") << "replayed once";
  EXPECT_EQ(difference(fetched(args.tensors), fetched(once.tensors), 1e-6), "") << "what it wrote";
  // A second time, with what the arguments hold then.
  const Args again = mapped(item.args, copied);
  for (size_t i = 0; i < args.tensors.size(); ++i) copy_raw(args.tensors[i], again.tensors[i]);
  backend_of(device).synchronize(device);
  graph.replay();
  EXPECT_EQ(difference(fetched(got), want, 1e-6), "") << "replayed twice";
  return "";
}

}  // namespace tycho::optest
