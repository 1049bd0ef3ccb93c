// What tensors held before they were changed in place, copied when the first change comes: for
// taking the changes back.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "engine/tensor/tensor.h"

namespace tycho::watch {

class Changes {
 public:
  // Listens to this thread's changes of what these tensors hold, until `stop` or until another one
  // begins; keeps at most so many bytes. What is made meanwhile is of no interest.
  Changes(size_t most_bytes, std::unordered_set<const Storage*> of);
  ~Changes() { stop(); }
  Changes(const Changes&) = delete;
  void stop();

  size_t bytes() const { return bytes_; }              // kept
  size_t storages() const { return kept_.size(); }     // that were changed
  size_t lost_bytes() const { return lost_; }          // of what was too large to keep
  const std::string& other() const { return other_; }  // an operation that cannot be taken back

  // Writes back what was kept. Graphs that saved a tensor in between see that it has changed.
  void restore();

 private:
  struct Kept {
    Ref<Storage> storage;
    std::unique_ptr<char[]> bytes;  // null: lost
    size_t size;
    const void* data;
    uint32_t passes;
    Storage::Stepped stepped;
  };
  static void listen(Impl* t, const char* op, bool shape);
  void keep(Impl* t, const char* op, bool shape);

  size_t most_, bytes_ = 0, lost_ = 0;
  std::string other_;
  std::unordered_set<const Storage*> of_;
  std::unordered_map<Storage*, Kept> kept_;
  // Storages with which nothing is to be done any more: kept, or of no interest. One that has the
  // place of another is looked up anew.
  static constexpr size_t kSettled = 64;
  const Storage* settled_[kSettled] = {};
};

}  // namespace tycho::watch
