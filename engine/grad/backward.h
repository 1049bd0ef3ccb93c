// The sweep: gradients flow from roots to leaves, youngest node first, without recursion.
#pragma once
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/table/observer.h"

namespace tycho::grad {

struct SweepOptions {
  bool retain_graph = false;  // keep saved tensors for another sweep
  bool create_graph = false;  // record the gradients' own graph (implies retain_graph)
  bool allow_unused = false;  // `gradients` only: undefined results instead of an error
  Observer* observer = nullptr;
  bool discard = false;  // no leaf gets a gradient: the observer alone is served
};

// While set, a sweep raises at the first operation whose gradient holds a nan.
extern constinit thread_local bool detect_anomaly;

// d(roots)/d(leaves), accumulated into leaf.grad. `grads` may hold undefined tensors for scalar
// roots.
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& grads,
              SweepOptions options, const std::vector<Tensor>& inputs = {});
// torch.autograd.grad: the gradients of `inputs`, nothing accumulated.
std::vector<Tensor> gradients(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& grads, SweepOptions options);

// A second sweep, from which nothing is accumulated: only the observer sees it. The graph is kept.
void observe_gradients(const Tensor& root, Observer& observer);

// Hooks on a tensor's gradient; returns the id for remove_hook.
int64_t add_hook(const Tensor& t, Ref<Hook> hook);
// A hook that is called after a leaf's .grad has taken up the gradient; its id is negative.
int64_t add_hook_after(const Tensor& t, Ref<Hook> hook);
void remove_hook(const Tensor& t, int64_t id);
void retain_grad(const Tensor& t);  // keep the gradient of a computed tensor

}  // namespace tycho::grad
