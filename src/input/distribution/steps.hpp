#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/input/step_exchange.hpp>

#include "input/distribution/fetching.hpp"
#include "input/distribution/splitting.hpp"
#include "input/distribution/worker_step.hpp"
#include "input/iterators/outer_iterator.hpp"
#include "input/iterators/prefetch_iterator.hpp"

namespace lockstep::detail {

/// What the workers of a pass read.
enum class Sharing : std::int8_t {
  fixed,   ///< Datasets that cannot be shared out anew.
  parts,   ///< Parts of one dataset.
  each,    ///< Each the whole of one, at its own pace.
  common,  ///< The same batches, of which each keeps slices: the state of one is that of all.
};

/// The plan by which a step is made of one element for each replica.
struct StepPlan {
  std::vector<Device> devices;   ///< The replicas' devices.
  int num_ahead = 0;             ///< Number of steps that a thread keeps ready; 0: no thread.
  bool fills_with_empty = true;  ///< A replica without an element gets one without rows; false: the step is
                                 ///< dropped, and the pass ends.
  /// Starts a pass with the other workers; empty: there are no others.
  SharedFunction<std::shared_ptr<StepExchange>()> open_exchange{};
  void (*check_caller)(std::string_view what) = nullptr;  ///< As InputTarget::check_caller.
  int worker = 0, num_workers = 1;  ///< This one's index, and how many read the datasets of a pass.
  Sharing sharing = Sharing::fixed;
  /// Whether elements without rows can take the dataset's type; empty: they can.
  std::function<bool()> knows_structure{};
};

/// A step that is being transferred to the replicas, or the exception in its place.
struct FetchedStep {
  Outcome<std::vector<FetchedElement>> outcome{};
  std::vector<SeenBatches> seen{};  ///< Of each dataset, once the user has this.
};
template <>
inline constexpr bool kIsTransferred<FetchedStep> = false;

/// The iterators from which replicas take in turn: one, or one for each replica.
using PartIterators = std::vector<std::unique_ptr<PartIterator>>;

/// Distributes parts to replicas, and agrees with the other workers on each step.
///
/// If one worker cannot read its part of a step, the step fails on all workers: on that one with the
/// exception, on the others with a CollectiveError. All of them continue with the step after it.
class DealIterator final : public Iterator<FetchedStep> {
 public:
  /// @param open  called by the first `next`. @param exchange  null: there are no other workers.
  DealIterator(std::function<PartIterators()> open, std::shared_ptr<const StepPlan> plan,
               std::shared_ptr<StepExchange> exchange = nullptr)
      : open_(std::move(open)), plan_(std::move(plan)), exchange_(std::move(exchange)) {}
  ~DealIterator() override { end(); }
  std::optional<FetchedStep> next() override;
  /// What the user has not seen, as a text for each worker: writes one, or reads those whose shares this
  /// worker goes on with.
  void transfer(PassState& state) override;
  /// The user has this step. Called on the user's thread.
  void set_seen(const std::vector<SeenBatches>& seen);

 private:
  /// Elements of the replicas that have one.
  using Elements = std::vector<std::optional<FetchedElement>>;

  std::optional<std::vector<FetchedElement>> make_step();
  void open();
  std::vector<std::optional<Part>> take_parts();
  WorkerStep take(Elements& elements);
  std::vector<WorkerStep> exchange(const WorkerStep& own);
  void end() noexcept;

  std::function<PartIterators()> open_;  // empty after it has been called
  PartIterators parts_;
  std::vector<std::optional<Part>> taken_;  // parts of the step that is being made
  std::shared_ptr<const StepPlan> plan_;    // owners: the distributed dataset and its passes
  std::vector<std::unique_ptr<Fetcher>> fetchers_;
  std::shared_ptr<StepExchange> exchange_;  // owners: this, and the factory that made this
  bool ended_ = false;
};

/// Hands steps to the calling thread.
class ReceiveIterator final : public StepIterator {
 public:
  /// Starts the pass with the other workers, but reads nothing yet.
  ReceiveIterator(std::function<PartIterators()> open, std::shared_ptr<const StepPlan> plan,
                  const PassNumbers& numbers = {}, std::shared_ptr<PassStatistics> statistics = nullptr);
  /// @throws ContextError  in a replica function; in a fork of the process that made this.
  std::optional<Step> next() override;
  std::int64_t num_waits() const noexcept override { return num_waits_; }
  const PassNumbers& numbers() const noexcept override { return numbers_; }
  IteratorState save() override;
  InputStatistics statistics() const override;
  /// As DealIterator::transfer.
  void transfer(PassState& state) override;

 private:
  std::unique_ptr<Iterator<FetchedStep>> make_steps(std::function<PartIterators()> open);

  std::shared_ptr<const StepPlan> plan_;  // owners: as DealIterator's
  PassNumbers numbers_;
  std::shared_ptr<PassStatistics> statistics_;      // owners: the parts' passes too; null: nobody records
  DealIterator* deal_ = nullptr;                    // in steps_
  PrefetchIterator<FetchedStep>* ahead_ = nullptr;  // in steps_, if steps_ has a thread
  OuterIterator<FetchedStep> steps_;
  std::int64_t num_waits_ = 0;
};

}  // namespace lockstep::detail
