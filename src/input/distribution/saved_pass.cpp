#include "input/distribution/saved_pass.hpp"

#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/distribution/steps.hpp"
#include "input/state/pipeline_state.hpp"
#include "input/state/sealed_state.hpp"

namespace lockstep::detail {
namespace {

constexpr std::string_view kKind = "a distributed dataset";
constexpr std::string_view kSaveState = "DistributedIterator::save_state";

// What begins a worker's message: its state, or the reason for which it has none.
constexpr char kState = 's';
constexpr char kError = 'e';

/// The longest state of a worker that is sent to the others, in bytes: what their connection takes as one
/// message is of this order.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

std::string own_state(StepIterator& pass) {
  PassState state;
  pass.transfer(state);
  return state.take();
}

/// Every worker's state.
std::vector<std::string> all_states(StepIterator& pass, const StepPlan& plan) {
  const bool is_of_all = plan.sharing == Sharing::common || !plan.open_exchange;
  const auto exchange = is_of_all ? nullptr : plan.open_exchange();
  if (!exchange) return {own_state(pass)};
  std::string message;
  std::exception_ptr error;
  try {
    message = kState + own_state(pass);
    LOCKSTEP_EXPECTS(message.size() <= kMostBytes, Unsupported, kSaveState, ": this worker's state has ",
                     message.size(), " bytes, and at most ", kMostBytes,
                     " are sent to the other workers. Shuffle row numbers or file names, and not elements.");
  } catch (const std::exception& exception) {
    error = std::current_exception();
    message = kError + std::string(exception.what());
  }
  std::vector<std::string> all = exchange->all_gather(std::move(message));
  if (error) std::rethrow_exception(error);
  for (std::size_t worker = 0; worker < all.size(); ++worker) {
    LOCKSTEP_EXPECTS(!all[worker].empty() && all[worker].front() == kState, CollectiveError, kSaveState,
                     ": worker ", worker,
                     " could not save: ", all[worker].substr(all[worker].empty() ? 0 : 1));
    all[worker].erase(0, 1);
  }
  return all;
}

}  // namespace

IteratorState save_of_workers(StepIterator& pass, const StepPlan& plan) {
  std::vector<std::string> workers = all_states(pass, plan);
  PassState state;
  std::string kind(kKind);
  PassNumbers numbers = pass.numbers();
  state(kind, numbers.epoch, numbers.num_taken, numbers.orders, workers);
  return seal(state.take());
}

SavedPass saved_pass(const IteratorState& bytes, const StepPlan& plan) {
  PassState state(unseal(bytes));
  check_kind(state, kKind);
  SavedPass saved;
  std::vector<std::string> all;
  state(saved.numbers.epoch, saved.numbers.num_taken, saved.numbers.orders, all);
  state.expect_end();
  if (saved.numbers.epoch < 0 || all.empty()) state.fail("a pass has an epoch and workers");
  const auto num_workers = static_cast<std::size_t>(plan.num_workers);
  const auto own = static_cast<std::size_t>(plan.worker);
  LOCKSTEP_EXPECTS(
      all.size() == num_workers || plan.sharing != Sharing::fixed, InvalidArgument, kRestoreState,
      ": the state is of ", all.size(), " workers, and there are ", num_workers,
      " now, but a function makes the datasets, which cannot be shared out anew. Restore it on as "
      "many, or use distribute_dataset.");
  // Each worker's content is a list of one text.
  std::vector<std::string> own_shares;
  const auto take = [&](std::size_t worker) {
    PassState of_worker(all[worker]);
    std::vector<std::string> texts;
    of_worker(texts);
    of_worker.expect_end();
    own_shares.insert(own_shares.end(), texts.begin(), texts.end());
  };
  if (plan.sharing == Sharing::common)
    take(0);
  else if (all.size() == num_workers)
    take(own);
  else if (plan.sharing == Sharing::each)
    take(own % all.size());
  else
    for (std::size_t worker = own; worker < all.size(); worker += num_workers) take(worker);
  PassState content;
  content(own_shares);
  saved.content = content.take();
  return saved;
}

}  // namespace lockstep::detail
