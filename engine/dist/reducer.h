// Reducer: gradients summed over ranks while backward goes on (DistributedDataParallel). Gradients
// are views of flat buckets, one list of buckets for all types and devices; when the last gradient
// of a bucket is final, and all buckets before it have gone, it is handed to the group's thread. The
// first pass notes in which order gradients come, and the buckets are made again in rank 0's order.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/dist/group.h"
#include "engine/grad/passes.h"
#include "engine/grad/sink.h"

namespace tycho::dist {

struct ReducerOptions {
  int64_t first_bytes = 1 << 20;  // of the first bucket, which is to leave early
  int64_t bucket_bytes = 0;       // 0: 4 MiB on the CPU, 25 MiB on CUDA
  std::vector<double> shares;     // how much each rank's gradient counts; empty: all the same
};

class Reducer final : public Shared, public grad::LeafSink {
 public:
  // Parameters in the order of the module; those that do not require grad are watched, no more.
  // Collective, as are all methods below but the getters.
  Reducer(Ref<Group> group, std::vector<Tensor> parameters, std::vector<std::string> names,
          ReducerOptions options);
  ~Reducer();
  static void destroy(Reducer* r) { delete r; }

  const Group& group() const { return *group_; }
  // Whether passes sum over ranks, or add to this rank's gradients alone (no_sync).
  bool sync = true;

  // A yes or no that travels with the gradients at no cost: what this rank says in the next pass,
  // and whether any rank said yes in the last one.
  bool says_yes = false;
  bool any_said_yes() const;

  // Training forwards so far. It travels, too: a rank whose loss led to no parameter has had no pass,
  // and would else add its next gradients to those of an earlier step of the others.
  uint32_t forwards = 0;

  // --- Ranks with uneven numbers of batches (join) ---
  // Before every forward and every pass, ranks tell each other what comes: how many batches are
  // left is known to nobody beforehand. A rank that has none left says Done and does its part.
  enum Event : int64_t { kDone, kForward, kBackward, kFinite, kInfinite };  // the last two: a step
  struct Join {
    bool on = false;
    bool divide_by_all = true;  // else by the ranks that still have batches
    bool raise_early = false;   // when the first rank has none left, all raise
  } join;
  // What each rank said, in the order of ranks. Raises where two are at different events.
  std::vector<int64_t> tell(Event event, double scale = 0);
  // Before a GradScaler's step, inside join and outside: whether any rank has found inf or nan.
  // Raises where ranks have multiplied their losses by different scales.
  bool any_infinite(bool mine, double scale);
  int last_active() const { return last_active_; }  // a rank that told of the last step
  void pass_without_gradients();                    // this rank's part of a pass of the others

  // How the buckets lie, for tests and for people: bytes and names of each.
  struct Layout {
    int64_t bytes;
    std::vector<std::string> names;
  };
  std::vector<Layout> layout() const;

  bool owns(Impl* leaf) const override { return index_.count(leaf) > 0; }
  bool begin(const std::vector<Impl*>& leaves, bool create_graph) override;
  Tensor place(Impl* leaf) override;
  void final(Impl* leaf) override;
  void finish() override;
  void abandon() override;
  void added_inside(Impl* leaf) override;

 private:
  struct Parameter {
    Tensor tensor;
    std::string name;
    Tensor view;  // of its bucket
    int bucket = 0;
    bool reached = false;  // by this pass
  };
  struct Bucket {
    Tensor flat;
    std::vector<int> members;
    int waiting = 0;     // gradients of this pass that are not final
    bool added = false;  // a gradient of an earlier pass was in it when this one began
    grad::Passes passes;
    Ref<Work> work;
  };

  void make_buckets(const std::vector<int>& order);
  void begin_pass();
  void launch(Bucket& bucket, bool async);
  bool take_in(Parameter& p);  // its gradient lies in the bucket now; false: it has none
  void read_used();
  void check_step() const;
  double told(int64_t from_end) const;  // a number at the end of used_
  void rebuild();
  std::string text(const Parameter& p) const;

  Ref<Group> group_;
  ReducerOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> frozen_;
  std::unordered_map<Impl*, int> index_;
  std::vector<Bucket> buckets_;
  // The end of the last bucket: which parameters have a gradient anywhere, forwards, says_yes.
  Tensor used_;
  std::vector<int> seen_;  // order of the first pass
  std::vector<char> has_gradient_;
  double weight_ = 0;  // of this rank in this pass; 0: the mean of all
  int last_active_ = 0;
  size_t next_ = 0;  // the first bucket that has not been launched
  bool in_pass_ = false, rebuilt_ = false;
};

// What a rank has, one text for each thing: raises Reason::Disagree on every rank, with the first
// difference, unless all have the same. `what` begins the sentence.
void check_same(Group& group, const char* what, const std::vector<std::string>& texts);

// The tensors become those of rank `root` (of the group): packed by type and device, in pieces.
// With `compare` what is equal already is not written to, so graphs that hold it stay good.
void broadcast_all(Group& group, const std::vector<Tensor>& tensors, int root, bool compare);

}  // namespace tycho::dist
