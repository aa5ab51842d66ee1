#include "input/distribution/pending_batches.hpp"

#include "input/pipeline/stopping.hpp"
#include "input/state/pipeline_state.hpp"

namespace lockstep::detail {

namespace {

constexpr std::int64_t kMostShards = std::int64_t{1} << 20;

}  // namespace

PendingBatches::PendingBatches(std::unique_ptr<Iterator<BatchHandle>> batches) {
  shares_.emplace_back().batches = std::move(batches);
}

PendingBatches::PendingBatches(std::shared_ptr<const ShareSource> source, const IterationKey* key,
                               std::shared_ptr<PassStatistics> statistics)
    : source_(std::move(source)), statistics_(std::move(statistics)) {
  if (key == nullptr) return;
  Share& own = shares_.emplace_back();
  own.num_shards = source_->num_shards;
  own.index = source_->index;
  own.pipeline = source_->pipeline(own.num_shards, own.index);
  own.key = *key;
  open(own);
}

void PendingBatches::open(Share& share) const {
  const IterationKey key = source_->is_common ? share.key->common() : *share.key;
  share.batches = share.pipeline->open_batches(key.measured(statistics_));
}

std::optional<BatchHandle> PendingBatches::next() {
  std::optional<Given> given;
  while (!given && !shares_.empty()) {
    Share& share = shares_.front();
    if (!share.ready.empty()) {
      given = std::move(share.ready.front());
      share.ready.pop_front();
      break;
    }
    try {
      if (std::optional<BatchHandle> batch = share.batches->next())
        given = Given{std::move(*batch), nullptr};
      else if (shares_.size() == 1)
        return std::nullopt;
      else
        shares_.pop_front();
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      given = Given{nullptr, std::current_exception()};
    }
  }
  if (!given) return std::nullopt;
  ++num_given_;
  {
    const std::scoped_lock lock(log_->mutex);
    log_->given.push_back(*given);
  }
  return take_outcome(std::move(*given));
}

void PendingBatches::set_seen(const SeenBatches& seen) {
  std::deque<Given> forgotten;  // destroyed without the mutex
  const std::scoped_lock lock(log_->mutex);
  for (std::int64_t n = log_->seen.next.batch; n < seen.next.batch; ++n) {
    forgotten.push_back(std::move(log_->given.front()));
    log_->given.pop_front();
  }
  log_->seen = seen;
}

std::deque<PendingBatches::Given> PendingBatches::unseen() {
  std::unique_lock lock(log_->mutex);
  const SeenBatches seen = log_->seen;
  const std::deque<Given> all = log_->given;
  lock.unlock();
  std::deque<Given> unseen;
  std::int64_t number = seen.next.batch;
  for (const Given& given : all) {
    const bool is_first = number == seen.next.batch;
    if (given.error) {
      if (number >= seen.num_given) unseen.push_back(given);
    } else if (is_first && seen.next.row > 0) {
      const std::int64_t end = given.element->leaf(0).shape[0];
      const std::vector<RowRange> rows(given.element->num_leaves(), {seen.next.row, end});
      unseen.push_back({rows_of(given.element, rows), nullptr});
    } else {
      unseen.push_back(given);
    }
    ++number;
  }
  return unseen;
}

void PendingBatches::transfer(PassState& state, Share& share) {
  state(share.num_shards, share.index);
  if (!state.is_saving()) {
    if (share.num_shards < 1 || share.num_shards > kMostShards || share.index < 0 ||
        share.index >= share.num_shards)
      state.fail("there is no such share of the dataset");
    share.pipeline = source_->pipeline(share.num_shards, share.index);
  }
  transfer_stages(state, *share.pipeline);
  share.key = IterationKey::transferred(state, share.key ? &*share.key : nullptr, share.pipeline->counts);
  if (!share.batches) open(share);
  state(*share.batches);
}

void PendingBatches::edit_first(const std::function<BatchHandle(const BatchHandle&)>& edit) {
  if (first_read_ == shares_.size()) return;
  std::deque<Given>& ready = shares_[first_read_].ready;
  if (!ready.empty() && !ready.front().error) ready.front().element = edit(ready.front().element);
}

void PendingBatches::transfer(PassState& state) {
  const std::size_t num_shares = state.length(shares_.size());
  const std::size_t first = state.is_saving() ? 0 : shares_.size();
  first_read_ = first;
  for (std::size_t i = 0; i < num_shares; ++i) {
    if (!state.is_saving()) shares_.emplace_back();
    transfer(state, shares_[first + i]);
  }
  // The batches come last, as they name tables of the passes.
  for (std::size_t i = 0; i < num_shares; ++i) {
    std::deque<Given>& ready = shares_[first + i].ready;
    if (!state.is_saving() || i > 0) {
      state(ready);
      continue;
    }
    std::deque<Given> all = unseen();
    all.insert(all.end(), ready.begin(), ready.end());
    state(all);
  }
}

}  // namespace lockstep::detail
