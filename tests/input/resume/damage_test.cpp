// States whose checksum is right, and whose content is not: no crash, and no exception but the library's.
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "input/state/sealed_state.hpp"
#include "support/input.hpp"

using namespace lockstep;

namespace {

/// Restores the state and takes some elements.
template <class Iterator>
bool is_refused(Iterator iterator, const IteratorState& state) {
  try {
    iterator.restore_state(state);
  } catch (const Error&) {
    return true;
  }
  for (int i = 0; i < 40; ++i) try {
      if (!iterator.next_optional()) break;
    } catch (const Error&) {
    }
  return false;
}

/// Changes bytes here and there. @return how many of the changed states were refused.
template <class Open>
int try_changes(const Open& open, const IteratorState& state) {
  const std::string content(detail::unseal(state));
  int num_refused = 0;
  for (std::size_t i = 0; i < content.size(); i += i < 300 || i + 300 > content.size() ? 1 : 97)
    for (const char change : {'\1', '\x7f', '\x80'}) {
      std::string changed = content;
      changed[i] = static_cast<char>(changed[i] ^ change);
      num_refused += is_refused(open(), detail::seal(changed)) ? 1 : 0;
    }
  for (std::size_t size = 0; size < content.size(); size += 61)
    CHECK(is_refused(open(), detail::seal(content.substr(0, size))));
  CHECK(is_refused(open(), detail::seal(content + "x")));
  CHECK_FALSE(is_refused(open(), state));
  return num_refused;
}

}  // namespace

TEST_CASE("a state that was changed and sealed anew is refused, or gives other elements", "[input][host]") {
  const auto part = [](const Tensor& x) { return Dataset::range(x.item<std::int64_t>() % 4); };
  const auto numbers = Dataset::range(30)
                           .interleave(part, 3, 2)
                           .window(3, 2)
                           .unbatch()
                           .prefetch(2)
                           .bucket_by_sequence_length([](const Tensor&) { return 1; }, {{2}, {4, 4}})
                           .unbatch()
                           .shuffle(4, 1)
                           .batch(3);
  auto iterator = numbers.iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  CHECK(try_changes([&] { return numbers.iterator(); }, iterator.save_state()) > 100);

  MirroredStrategy strategy(test::host_devices(2));
  const auto steps =
      strategy.distribute_dataset(Dataset::range(30).shuffle(5, 1).batch(4), {.per_replica_buffer_size = 1});
  auto of_steps = steps.iterator();
  of_steps.next();
  CHECK(try_changes([&] { return steps.iterator(); }, of_steps.save_state()) > 100);
}
