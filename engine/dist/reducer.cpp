// Buckets and passes (see reducer.h).
#include "engine/dist/reducer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::dist {
namespace {

constexpr int64_t kAlign = 16;  // elements: a view begins at a cache line

}  // namespace

Reducer::Reducer(Ref<Group> group, std::vector<Tensor> parameters, std::vector<std::string> names,
                 ReducerOptions options)
    : group_(std::move(group)), options_(std::move(options)) {
  const int world = group_->members().size();
  if (!options_.shares.empty()) {
    TYCHO_CHECK(Kind::Value, static_cast<int>(options_.shares.size()) == world,
                "DistributedDataParallel: shares has %zu numbers for %d ranks",
                options_.shares.size(), world);
    for (const double s : options_.shares)
      TYCHO_CHECK(Kind::Value, s > 0, "DistributedDataParallel: a share must be above 0, not %g",
                  s);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor& t = parameters[i];
    Parameter p{t, names[i], {}, 0, false};
    if (!t.requires_grad()) {
      frozen_.push_back(std::move(p));
    } else if (index_.emplace(t.get(), static_cast<int>(parameters_.size())).second) {
      parameters_.push_back(std::move(p));
    }
  }
  TYCHO_CHECK(Kind::Value, !parameters_.empty(),
              "DistributedDataParallel: no parameter of the module requires grad, so there is "
              "nothing to sum; use the module itself");
  std::vector<int> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  make_buckets(order);
  grad::leaf_sinks().push_back(this);
}

Reducer::~Reducer() { std::erase(grad::leaf_sinks(), static_cast<grad::LeafSink*>(this)); }

std::string Reducer::text(const Parameter& p) const {
  return p.name + " (" + describe(p.tensor) + ")";
}

// Each type on each device fills a bucket of its own; a bucket's place in the list is that of its
// last gradient. What lay in the views moves along.
void Reducer::make_buckets(const std::vector<int>& order) {
  struct Open {
    std::vector<int> members;
    int64_t bytes = 0;
    bool first = true;
  };
  std::map<std::pair<int, std::string>, Open> open;
  std::vector<std::vector<int>> lists;
  for (const int i : order) {
    const Tensor& t = parameters_[i].tensor;
    Open& o = open[{static_cast<int>(t.dtype()), device_name(t.device())}];
    o.members.push_back(i);
    o.bytes += t.numel() * dtype_size(t.dtype());
    const int64_t usual = options_.bucket_bytes ? options_.bucket_bytes
                          : t.device().is_cpu() ? int64_t{4} << 20
                                                : int64_t{25} << 20;
    if (o.bytes < (o.first ? std::min(options_.first_bytes, usual) : usual)) continue;
    lists.push_back(std::move(o.members));
    o = {{}, 0, false};
  }
  for (auto& [key, o] : open)
    if (!o.members.empty()) lists.push_back(std::move(o.members));

  const NoGrad quiet;
  std::vector<Bucket> buckets;
  for (const auto& members : lists) {
    const Tensor& like = parameters_[members[0]].tensor;
    std::vector<int64_t> at;
    int64_t n = 0;
    for (const int i : members) {
      at.push_back(n);
      n += (parameters_[i].tensor.numel() + kAlign - 1) / kAlign * kAlign;
    }
    const bool last = buckets.size() + 1 == lists.size();
    const int64_t used_at = n;
    if (last) n += static_cast<int64_t>(parameters_.size()) + 2;
    Bucket b;
    b.members = members;
    b.flat = filled(Sizes{n}, 0, like.dtype(), like.device());
    for (size_t k = 0; k < members.size(); ++k) {
      Parameter& p = parameters_[members[k]];
      const Tensor view = alias(b.flat, p.tensor.shape(), row_major(p.tensor.shape()), at[k]);
      Tensor& grad = extra_of(p.tensor.get()).grad;
      if (grad && p.view && grad->storage == p.view->storage) {
        copy_raw(view, grad);
        grad = view;
      }
      p.view = view;
      p.bucket = static_cast<int>(buckets.size());
    }
    if (last) used_ = alias(b.flat, Sizes{n - used_at}, Sizes{1}, used_at);
    buckets.push_back(std::move(b));
  }
  buckets_ = std::move(buckets);
}

std::vector<Reducer::Layout> Reducer::layout() const {
  std::vector<Layout> out;
  for (const Bucket& b : buckets_) {
    Layout l{0, {}};
    for (const int i : b.members) {
      l.bytes += parameters_[i].tensor.numel() * dtype_size(b.flat.dtype());
      l.names.push_back(parameters_[i].name);
    }
    out.push_back(std::move(l));
  }
  return out;
}

bool Reducer::begin(const std::vector<Impl*>& leaves, bool create_graph) {
  if (!sync || group_->closed()) return false;
  if (create_graph)
    fail(Kind::Autograd,
         "backward: create_graph=true goes not with DistributedDataParallel: the graph of a "
         "gradient would not lead through the sum over ranks",
         "torch.autograd.grad(y, x, {create_graph = true})  -- for the inner derivative; then "
         "loss:backward()");
  for (const Parameter& p : frozen_)
    if (p.tensor.requires_grad())
      fail(Kind::Value,
           format("backward: %s did not require grad when DistributedDataParallel was made, so "
                  "ranks do not sum its gradient",
                  text(p).c_str()),
           "net = torch.nn.parallel.DistributedDataParallel(net.module)  -- after unfreezing");
  for (const Parameter& p : parameters_)
    if (!(p.tensor.shape() == p.view.shape()) || p.tensor.dtype() != p.view.dtype() ||
        !(p.tensor.device() == p.view.device()))
      fail(Kind::Value,
           format("backward: %s was %s when DistributedDataParallel was made; convert and move "
                  "the module before",
                  text(p).c_str(), describe(p.view).c_str()));
  if (join.on) {
    const auto events = tell(kBackward);
    if (!join.divide_by_all) {
      weight_ = 0;
      double all = 0;
      for (size_t r = 0; r < events.size(); ++r)
        if (events[r] != kDone) all += options_.shares.empty() ? 1 : options_.shares[r];
      weight_ = (options_.shares.empty() ? 1 : options_.shares[group_->members().rank]) / all;
    }
  }
  begin_pass();
  for (Impl* leaf : leaves) {
    Parameter& p = parameters_[index_.at(leaf)];
    p.reached = true;
    ++buckets_[p.bucket].waiting;
    if (!rebuilt_) seen_.push_back(index_.at(leaf));
  }
  return true;
}

void Reducer::begin_pass() {
  for (Bucket& b : buckets_) {
    if (b.work) std::exchange(b.work, nullptr)->wait();  // of a pass that raised
    b.waiting = 0;
    b.passes = grad::passes_of(*b.flat->storage);
    b.added = false;
  }
  if (!join.on || join.divide_by_all) {
    const auto& s = options_.shares;
    const double all = std::accumulate(s.begin(), s.end(), 0.0);
    weight_ = s.empty() ? 0 : s[group_->members().rank] / all;
  }
  for (Parameter& p : parameters_) {
    p.reached = false;
    const Extra* extra = p.tensor->extra;
    if (extra && extra->grad) buckets_[p.bucket].added = true;
  }
  has_gradient_.assign(parameters_.size(), 0);
  seen_.clear();
  next_ = 0;
  in_pass_ = true;
}

Tensor Reducer::place(Impl* leaf) { return parameters_[index_.at(leaf)].view; }

void Reducer::final(Impl* leaf) {
  --buckets_[parameters_[index_.at(leaf)].bucket].waiting;
  // The last one goes when the pass is done, on this thread: mostly that is now, and a change of
  // threads costs more than small sums.
  while (next_ + 1 < buckets_.size() && buckets_[next_].waiting == 0)
    launch(buckets_[next_++], true);
}

void Reducer::added_inside(Impl* leaf) {
  const Parameter& p = parameters_[index_.at(leaf)];
  if (in_pass_ && static_cast<size_t>(p.bucket) < next_)
    fail(Kind::Autograd, format("backward: a backward inside of another one added to the gradient "
                                "of %s after that had been sent to the other ranks; compute it "
                                "with torch.autograd.grad and add the results to the loss",
                                text(p).c_str()));
}

bool Reducer::take_in(Parameter& p) {
  const NoGrad quiet;
  Extra* extra = p.tensor->extra;
  if (!extra || !extra->grad) {
    fill_raw(p.view, Value(0.0));
    return false;
  }
  Tensor& grad = extra->grad;
  if (grad.get() == p.view.get()) return true;
  TYCHO_CHECK(Kind::Shape, grad.shape() == p.view.shape(),
              "backward: the gradient of %s has shape %s", text(p).c_str(),
              to_string(grad.shape()).c_str());
  const bool same_place = grad->storage == p.view->storage && grad->offset == p.view->offset;
  if (!same_place) copy_raw(p.view, grad);
  grad = p.view;
  return true;
}

void Reducer::launch(Bucket& b, bool async) {
  const NoGrad quiet;
  for (const int i : b.members) has_gradient_[i] = take_in(parameters_[i]);
  if (&b == &buckets_.back()) {
    std::vector<double> used(has_gradient_.begin(), has_gradient_.end());
    used.push_back(forwards % 4);
    used.push_back(says_yes);
    copy_raw(used_, tensor_of(used_.shape(), used));
  }
  if (weight_) op_<"mul">(b.flat, number_tensor(weight_));
  const AsksFor gradients("DistributedDataParallel's gradients");
  op_<"all_reduce">(b.flat, static_cast<int64_t>(weight_ ? RedOp::Sum : RedOp::Avg),
                    group_->handle(), async);
  b.work = group_->last();
}

void Reducer::finish() {
  for (; next_ < buckets_.size(); ++next_) launch(buckets_[next_], next_ + 1 < buckets_.size());
  for (Bucket& b : buckets_) std::exchange(b.work, nullptr)->wait();
  in_pass_ = false;
  check_step();
  read_used();
  for (Bucket& b : buckets_) {
    Storage& s = *b.flat->storage;
    if (b.added)
      grad::pass_added(s, b.passes);
    else
      s.passes = 0, s.stepped = Storage::Stepped::None, s.changed_by = grad::kPass;
  }
  if (!rebuilt_) rebuild();
}

// A parameter that has a gradient on any rank has one on all.
void Reducer::read_used() {
  if (std::find(has_gradient_.begin(), has_gradient_.end(), 0) == has_gradient_.end()) return;
  const std::vector<double> used = items<double>(fetch(used_));
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (!has_gradient_[i] && used[i] != 0)
      extra_of(parameters_[i].tensor.get()).grad = parameters_[i].view;
}

double Reducer::told(int64_t from_end) const {
  const int64_t at = used_->offset + used_.numel() - from_end;
  return item<double>(fetch(alias(used_, Sizes{1}, Sizes{1}, at)));
}

bool Reducer::any_said_yes() const { return told(1) != 0; }

// Devices are not waited for: there a look costs more than the error is worth.
void Reducer::check_step() const {
  if (join.on || !used_.device().is_cpu()) return;
  if (std::fabs(told(2) - forwards % 4) < 0.1) return;
  throw DistError({Reason::Disagree,
                   {},
                   format("backward: ranks are at different steps (this one has begun %u training "
                          "forwards): on every rank each loss must lead to a parameter of the "
                          "network",
                          forwards)},
                  "loss = loss + 0 * net(x):sum()  -- where a rank has nothing to learn from");
}

// The order in which gradients came to rank 0 is that of the buckets from now on.
void Reducer::rebuild() {
  rebuilt_ = true;
  std::vector<double> order;
  std::vector<char> there(parameters_.size());
  for (const int i : seen_) {
    order.push_back(i);
    there[i] = 1;
  }
  for (int i = static_cast<int>(parameters_.size()); i--;)
    if (!there[i]) order.push_back(i);
  const Tensor t = empty(Sizes{static_cast<int64_t>(order.size())}, DType::Int64);
  copy_raw(t, tensor_of(t.shape(), order));
  broadcast_all(*group_, {t}, 0, false);
  const std::vector<int64_t> agreed = items<int64_t>(t);
  const bool yes = any_said_yes();
  make_buckets(std::vector<int>(agreed.begin(), agreed.end()));
  fill_raw(alias(used_, Sizes{1}, Sizes{1}, used_->offset + used_.numel() - 1),
           Value(yes ? 1.0 : 0.0));
}

// What was launched goes on; the next pass waits for it first.
void Reducer::abandon() { in_pass_ = false; }

std::vector<int64_t> Reducer::tell(Event event, double scale) {
  static constexpr const char* names[] = {"", "a forward", "a backward", "a GradScaler's step",
                                          "a GradScaler's step"};
  const AsksFor part(event < kFinite ? "join" : "GradScaler");
  const Members& m = group_->members();
  const Tensor t = filled(Sizes{2 * m.size()}, 0, DType::Int64);
  t.host<int64_t>()[m.rank] = event;
  t.host<int64_t>()[m.size() + m.rank] = std::bit_cast<int64_t>(scale);
  const std::vector<int64_t> told = items<int64_t>(op<"all_reduce">(t, 0, group_->handle()));
  const std::vector<int64_t> events(told.begin(), told.begin() + m.size());
  int first = -1;  // of those that still have batches
  Failure f{Reason::Disagree, {}, {}};
  std::vector<int> ended, scaled;
  for (int r = 0; r < m.size(); ++r) {
    if (events[r] == kDone) {
      ended.push_back(m.ranks[r]);
      continue;
    }
    if (first < 0) first = last_active_ = r;
    if (std::string_view(names[events[r]]) != names[events[first]]) f.ranks.push_back(m.ranks[r]);
    if (told[m.size() + r] != told[m.size() + first]) scaled.push_back(r);
  }
  if (!f.ranks.empty()) {
    const auto one = std::find(m.ranks.begin(), m.ranks.end(), f.ranks[0]) - m.ranks.begin();
    f.text = format(
        "join: rank %d began %s while others began %s: inside join every rank runs the same steps",
        f.ranks[0], names[events[one]], names[events[first]]);
    throw DistError(std::move(f));
  }
  if (!scaled.empty()) {
    const auto of = [&](int r) { return std::bit_cast<double>(told[m.size() + r]); };
    for (const int r : scaled) f.ranks.push_back(m.ranks[r]);
    f.text = format(
        "GradScaler: rank %d has multiplied its loss by %g, rank %d by %g, so that the mean of "
        "their gradients is that of no loss",
        m.ranks[first], of(first), f.ranks[0], of(scaled[0]));
    throw DistError(std::move(f), format("scaler:update(%.17g)  -- on every rank, before the next "
                                         "scaler:scale(loss)",
                                         of(first)));
  }
  if (join.raise_early && !ended.empty() && first >= 0) {
    f = {Reason::Left, ended, format("join: rank %d has no batch left", ended[0])};
    throw DistError(std::move(f));
  }
  return events;
}

bool Reducer::any_infinite(bool mine, double scale) {
  if (group_->closed()) return mine;
  const auto events = tell(mine ? kInfinite : kFinite, scale);
  return std::find(events.begin(), events.end(), kInfinite) != events.end();
}

void Reducer::pass_without_gradients() {
  const NoGrad quiet;
  std::vector<Tensor> kept;
  for (Parameter& p : parameters_) {
    kept.push_back(extra_of(p.tensor.get()).grad);
    extra_of(p.tensor.get()).grad = Tensor();
  }
  weight_ = 1;  // where the others weigh theirs: a sum, as they ask for
  begin_pass();
  finish();
  for (size_t i = 0; i < parameters_.size(); ++i)
    extra_of(parameters_[i].tensor.get()).grad = kept[i];
}

}  // namespace tycho::dist
