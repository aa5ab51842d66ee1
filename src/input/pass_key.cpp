#include <mutex>

#include <lockstep/detail/pass_key.hpp>

namespace lockstep::detail {

std::uint64_t PassCounter::next(std::uint64_t shard) {
  const std::scoped_lock lock(mutex_);
  return num_passes_[shard]++;
}

// The step of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const auto scramble = [](std::uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  return scramble(scramble(a) + b);
}

PassKey PassKey::next(const std::vector<PassCount>& counts) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(counts.size());
  for (const PassCount& count : counts) numbers.push_back(count.counter->next(count.shard));
  return PassKey(std::move(numbers));
}

PassKey PassKey::inside(const std::vector<PassCount>& counts) const {
  std::vector<std::uint64_t> numbers;
  std::map<std::pair<const PassCounter*, std::uint64_t>, std::uint64_t> num_passes;
  for (const PassCount& count : counts) numbers.push_back(num_passes[{count.counter.get(), count.shard}]++);
  PassKey key(std::move(numbers));
  key.place_ = place_;
  key.is_common_ = is_common_;
  return key;
}

PassKey PassKey::from(std::size_t first) const {
  PassKey key = *this;
  key.first_ += first;
  return key;
}

PassKey PassKey::repetition(int position, std::int64_t n) const {
  PassKey key = *this;
  if (n > 0)
    key.place_ = mix(mix(place_, static_cast<std::uint64_t>(position)), static_cast<std::uint64_t>(n));
  return key;
}

PassKey PassKey::element(int position, std::size_t count, std::int64_t n) const {
  PassKey key = *this;
  key.place_ = mix(mix(mix(place_, static_cast<std::uint64_t>(position)), number(count)),
                   static_cast<std::uint64_t>(n));
  return key;
}

PassKey PassKey::common() const {
  PassKey key = *this;
  key.is_common_ = true;
  return key;
}

std::mt19937_64 PassKey::random(std::uint64_t seed, int position, std::size_t count) const {
  std::vector<std::uint32_t> words;
  for (const std::uint64_t part : {seed, static_cast<std::uint64_t>(position), number(count), place_}) {
    words.push_back(static_cast<std::uint32_t>(part));
    words.push_back(static_cast<std::uint32_t>(part >> 32));
  }
  std::seed_seq sequence(words.begin(), words.end());
  return std::mt19937_64(sequence);
}

}  // namespace lockstep::detail
