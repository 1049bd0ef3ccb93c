// Forward: ranks tell each other count, mean and squared distance from it of every channel, from
// which each computes the whole batch's in the same order, so with the same bits; what follows is
// batch norm's kernel for given statistics. Backward: its kernel, too, and then what the statistics'
// own dependence on x adds, for which the sums over the batch are summed over ranks.
#include "engine/dist/sync_norm.h"

#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::dist {
namespace {

Sizes along_channels(const Tensor& x) {
  Sizes s{1, x.size(1)};
  while (s.n < x.rank()) s.push_back(1);
  return s;
}

Tensor piece(const Tensor& t, int64_t from, int64_t n) {
  return alias(t, Sizes{n}, Sizes{1}, t->offset + from);
}

struct Statistics {
  Tensor mean, var;  // [C]
  double n = 0;      // elements of a channel on all ranks
};

Statistics statistics(Group& group, const Tensor& x) {
  const int64_t channels = x.size(1);
  const DType t = x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const double mine = channels ? static_cast<double>(x.numel() / channels) : 0;
  const Tensor row = filled(Sizes{2 * channels + 1}, 0, t, x.device());
  copy_raw(piece(row, 2 * channels, 1), filled(Sizes{1}, mine, t));
  if (mine > 0) {
    Sizes dims{0};
    for (int d = 2; d < x.rank(); ++d) dims.push_back(d);
    const Tensor wide = x.dtype() == t ? x : op<"to.dtype">(x, t);
    const auto var_mean = ops<"var_mean">(wide, dims, nullptr, false, 0.0);
    copy_raw(piece(row, 0, channels), var_mean[1]);
    copy_raw(piece(row, channels, channels), var_mean[0] * mine);
  }
  const int ranks = group.members().size();
  const AsksFor statistics("SyncBatchNorm");
  const Tensor all = op<"all_gather">(row, group.handle());
  const auto rows_of = [&](int r) { return alias(all, row.shape(), Sizes{1}, r * row.numel()); };
  Statistics s;
  std::vector<double> counts;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(number_at(fetch(piece(rows_of(r), 2 * channels, 1)), 0));
    s.n += counts.back();
  }
  TYCHO_CHECK(Kind::Shape, s.n > 1,
              "SyncBatchNorm: training needs at least 2 values per channel on all ranks together, "
              "got %g",
              s.n);
  s.mean = filled(Sizes{channels}, 0, t, x.device());
  for (int r = 0; r < ranks; ++r)
    op_<"add">(s.mean, piece(rows_of(r), 0, channels) * (counts[r] / s.n));
  s.var = filled(Sizes{channels}, 0, t, x.device());
  for (int r = 0; r < ranks; ++r) {
    const Tensor apart = piece(rows_of(r), 0, channels) - s.mean;
    op_<"add">(s.var, (piece(rows_of(r), channels, channels) + apart * apart * counts[r]) / s.n);
  }
  return s;
}

struct SyncNormGrad final : CustomGrad {
  Ref<Group> group;
  Tensor mean, rstd;
  double n;
  bool weighted;

  std::vector<Tensor> backward(Node& node, const std::vector<Tensor>& grads) override {
    if (mode.grad)
      fail(Kind::Autograd,
           "SyncBatchNorm: second derivatives are not there (nor in PyTorch); nn.BatchNorm2d has "
           "them");
    const Tensor x = unpack_saved(node, node.saved[0], -1);
    const Tensor weight = weighted ? unpack_saved(node, node.saved[1], -1) : Tensor();
    auto out = ops<"batch_norm_backward">(grads[0], x, weight, mean, rstd, false);
    if (!node.edges[0]) return {Tensor(), out[1], out[2]};
    // Sums over the batch of g * unit and of g, where unit = (x - mean) * rstd.
    const int64_t channels = x.size(1);
    const Tensor sums = empty(Sizes{2 * channels}, mean.dtype(), x.device());
    copy_raw(piece(sums, 0, channels), out[1]);
    copy_raw(piece(sums, channels, channels), out[2]);
    const AsksFor gradient("SyncBatchNorm's gradient");
    op_<"all_reduce">(sums, 0, group->handle());
    // dx = (g - (sum of g + unit * sum of g * unit) / n) * weight * rstd, as x * factor + shift.
    const Tensor scale = (weight ? op<"to.dtype">(weight, mean.dtype()) * rstd : rstd) / n;
    const Tensor factor = scale * rstd * piece(sums, 0, channels);
    const Tensor shift = scale * piece(sums, channels, channels) - mean * factor;
    const Sizes along = along_channels(x);
    const Tensor part = x * op<"reshape">(factor, along) + op<"reshape">(shift, along);
    return {out[0] - part, out[1], out[2]};
  }
  void free_custom() override { delete this; }
};

void save(Node* node, const Tensor& t) {
  Saved& s = node->saved.emplace_back();
  s.tensor = t.ref();
  s.version = t->storage->version;
  if (save_hooks) [[unlikely]]
    grad::pack_saved(s, t.get());
}

}  // namespace

Tensor sync_batch_norm(const Ref<Group>& group, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       double momentum, double eps) {
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()),
              "SyncBatchNorm: takes floating point numbers, not %s", dtype_name(x.dtype()));
  const bool graph =
      mode.grad && (grad::requires_grad(x.get()) || (weight && grad::requires_grad(weight.get())) ||
                    (bias && grad::requires_grad(bias.get())));
  Tensor y;
  Ref<SyncNormGrad> custom;
  {
    const NoGrad quiet;
    const Statistics s = statistics(*group, x);
    auto out = ops<"batch_norm_forward">(x, weight, bias, s.mean, s.var, false, 0.0, eps);
    if (running_mean) {
      op_<"mul">(running_mean, 1 - momentum);
      op_<"add">(running_mean, op<"to.dtype">(s.mean * momentum, running_mean.dtype()));
    }
    if (running_var) {
      op_<"mul">(running_var, 1 - momentum);
      const Tensor unbiased = s.var * (momentum * s.n / (s.n - 1));
      op_<"add">(running_var, op<"to.dtype">(unbiased, running_var.dtype()));
    }
    if (!graph) return out[0];
    y = alias(out[0]);
    custom = Ref<SyncNormGrad>(new SyncNormGrad);
    custom->name = "SyncBatchNorm";
    custom->group = group;
    custom->mean = out[1];
    custom->rstd = out[2];
    custom->n = s.n;
    custom->weighted = weight.defined();
  }
  const Ref<GraphNode> hold(new_node(nullptr));
  Node* node = static_cast<Node*>(hold.get());
  for (const Tensor& t : {x, weight, bias}) node->edges.push_back(edge_of(t.get()));
  save(node, x);
  if (weight) save(node, weight);
  node->outputs.push_back({y.shape(), y.dtype(), y.device()});
  node->custom = Ref<CustomGrad>(custom.get());
  grad::set_history(y, node, 0);
  return y;
}

}  // namespace tycho::dist
