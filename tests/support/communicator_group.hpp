#pragma once

#include <deque>
#include <vector>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/stream.hpp>

#include "support/guarded_buffer.hpp"
#include "support/replicas.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

/// Which threads make the calls: one for all replicas, or one for each.
enum class Drive { one_thread, thread_per_replica };

/// One rank's buffers for a collective.
struct RankViews {
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
};

/// How a collective is called, and where its buffers are.
struct CollectiveCase {
  Drive drive;
  bool in_place;
  std::size_t offset_bytes;
};
/// All combinations of callers and places, and odd addresses once for each place.
inline const std::vector<CollectiveCase> kCollectiveCases = {{Drive::one_thread, false, 0},
                                                             {Drive::one_thread, true, 4},
                                                             {Drive::thread_per_replica, true, 0},
                                                             {Drive::thread_per_replica, false, 4}};

/// A communicator over the first n devices under test, with a stream for each.
class CommunicatorGroup {
 public:
  explicit CommunicatorGroup(int n) : CommunicatorGroup(TestBackend::devices(n)) {}
  explicit CommunicatorGroup(const std::vector<Device>& devices)
      : communicator_(Communicator::create(devices)) {
    for (const Device& device : devices) owned_.emplace_back(device);
    for (const Stream& stream : owned_) streams_.push_back(stream);
  }

  int size() const { return communicator_.num_ranks(); }
  Communicator& communicator() { return communicator_; }
  const std::vector<StreamRef>& streams() const { return streams_; }
  StreamRef stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]; }

  RankBatch batch(int rank, const RankViews& views) const {
    return {rank, stream(rank), views.inputs, views.outputs};
  }
  /// All ranks' batches; `views` must outlive them.
  std::vector<RankBatch> batches(const std::vector<RankViews>& views) const {
    std::vector<RankBatch> result;
    for (int rank = 0; rank < size(); ++rank)
      result.push_back(batch(rank, views[static_cast<std::size_t>(rank)]));
    return result;
  }

  /// Calls `collective(batches)` once for all ranks, or on one thread for each, and waits for the devices.
  template <class Collective>
  void run(Drive drive, const std::vector<RankViews>& views, const Collective& collective) {
    const std::vector<RankBatch> all = batches(views);
    if (drive == Drive::one_thread)
      collective(std::span<const RankBatch>(all));
    else
      on_replicas(size(),
                  [&](int rank) { collective(std::span(all).subspan(static_cast<std::size_t>(rank), 1)); });
    for (const StreamRef& stream : streams_) stream.synchronize();
  }

 private:
  Communicator communicator_;
  std::vector<Stream> owned_;
  std::vector<StreamRef> streams_;
};

/// One buffer for each rank.
template <Element T>
class RankBuffers {
 public:
  using Values = typename GuardedBuffer<T>::Values;

  /// @param values  of each rank.
  RankBuffers(const CommunicatorGroup& group, const std::vector<Values>& values,
              std::size_t offset_bytes = 0) {
    for (int rank = 0; rank < group.size(); ++rank) {
      buffers_.emplace_back(group.stream(rank), values[static_cast<std::size_t>(rank)], offset_bytes);
    }
  }
  const GuardedBuffer<T>& operator[](int rank) const { return buffers_[static_cast<std::size_t>(rank)]; }
  std::vector<TensorView> views() const {
    std::vector<TensorView> views;
    for (const auto& buffer : buffers_) views.push_back(buffer.view());
    return views;
  }
  bool all_are(const Values& expected) const {
    for (const auto& buffer : buffers_) {
      if (buffer.values() != expected) return false;
    }
    return true;
  }
  bool guards_intact() const {
    for (const auto& buffer : buffers_) {
      if (!buffer.guards_intact()) return false;
    }
    return true;
  }

 private:
  std::deque<GuardedBuffer<T>> buffers_;
};

}  // namespace lockstep::test
