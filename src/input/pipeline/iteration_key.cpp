#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <lockstep/input/detail/iteration_key.hpp>
#include <lockstep/input/detail/pass_state.hpp>

#include "detail/splitmix64.hpp"

namespace lockstep::detail {

std::uint64_t IterationCounter::next(std::uint64_t shard) {
  const std::scoped_lock lock(mutex_);
  return num_passes_[shard]++;
}

void IterationCounter::make_room(std::uint64_t shard) {
  const std::scoped_lock lock(mutex_);
  num_passes_[shard];
}

void IterationCounter::reach(std::uint64_t shard, std::uint64_t number) noexcept {
  const std::scoped_lock lock(mutex_);
  num_passes_[shard] = number;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept { return splitmix64(splitmix64(a) + b); }

IterationKey::IterationKey(std::vector<std::uint64_t>&& numbers)
    : numbers_(std::make_shared<const std::vector<std::uint64_t>>(std::move(numbers))) {}

IterationKey IterationKey::next(const std::vector<IterationCount>& counts) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(counts.size());
  for (const IterationCount& count : counts) numbers.push_back(count.counter->next(count.shard));
  return IterationKey(std::move(numbers));
}

IterationKey IterationKey::of_epoch(const std::vector<IterationCount>& counts, std::uint64_t epoch) {
  // A counter that counts several transformations gives each pass as many numbers.
  std::map<std::pair<const IterationCounter*, std::uint64_t>, std::uint64_t> per_pass, next;
  for (const IterationCount& count : counts) ++per_pass[{count.counter.get(), count.shard}];
  std::vector<std::uint64_t> numbers;
  for (const IterationCount& count : counts) {
    const std::pair<const IterationCounter*, std::uint64_t> which{count.counter.get(), count.shard};
    numbers.push_back(epoch * per_pass[which] + next[which]++);
  }
  return IterationKey(std::move(numbers));
}

IterationKey IterationKey::transferred(PassState& state, const IterationKey* key,
                                       const std::vector<IterationCount>& counts) {
  std::vector<std::uint64_t> numbers = key ? *key->numbers_ : std::vector<std::uint64_t>();
  state(numbers);
  if (numbers.size() != counts.size()) state.fail("the pass has another number of random orders");
  return IterationKey(std::move(numbers));
}

SharedFunction<void()> IterationKey::reaching(std::vector<IterationCount> counts) const {
  for (const IterationCount& count : counts) count.counter->make_room(count.shard);
  return [counts = std::move(counts), numbers = numbers_] {
    for (std::size_t i = 0; i < std::min(counts.size(), numbers->size()); ++i)
      counts[i].counter->reach(counts[i].shard, (*numbers)[i] + 1);
  };
}

IterationKey IterationKey::inside(const std::vector<IterationCount>& counts) const {
  std::vector<std::uint64_t> numbers;
  std::map<std::pair<const IterationCounter*, std::uint64_t>, std::uint64_t> num_passes;
  for (const IterationCount& count : counts)
    numbers.push_back(num_passes[{count.counter.get(), count.shard}]++);
  IterationKey key(std::move(numbers));
  key.place_ = place_;
  key.is_common_ = is_common_;
  return key;
}

IterationKey IterationKey::from(std::size_t first) const {
  IterationKey key = *this;
  key.first_ += first;
  return key;
}

IterationKey IterationKey::repetition(int position, std::int64_t n) const {
  IterationKey key = *this;
  if (n > 0)
    key.place_ = mix(mix(place_, static_cast<std::uint64_t>(position)), static_cast<std::uint64_t>(n));
  return key;
}

IterationKey IterationKey::element(int position, std::size_t count, std::int64_t n) const {
  IterationKey key = *this;
  key.place_ = mix(mix(mix(place_, static_cast<std::uint64_t>(position)), number(count)),
                   static_cast<std::uint64_t>(n));
  return key;
}

IterationKey IterationKey::common() const {
  IterationKey key = *this;
  key.is_common_ = true;
  return key;
}

IterationKey IterationKey::shuffled(std::int64_t buffer_size) const {
  IterationKey key = *this;
  key.shuffle_buffer_ = buffer_size;
  return key;
}

IterationKey IterationKey::measured(std::shared_ptr<PassStatistics> statistics) const {
  IterationKey key = *this;
  key.statistics_ = std::move(statistics);
  return key;
}

std::array<std::uint32_t, 8> IterationKey::seed_words(std::uint64_t seed, int position,
                                                      std::size_t count) const {
  std::array<std::uint32_t, 8> words{};
  std::size_t next = 0;
  for (const std::uint64_t part : {seed, static_cast<std::uint64_t>(position), number(count), place_}) {
    words[next++] = static_cast<std::uint32_t>(part);
    words[next++] = static_cast<std::uint32_t>(part >> 32);
  }
  return words;
}

}  // namespace lockstep::detail
