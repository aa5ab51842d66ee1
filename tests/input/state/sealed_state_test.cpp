#include "input/state/sealed_state.hpp"

#include <string>

#include <catch2/catch_test_macros.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using detail::FileFault;
using test::says;

namespace {

std::string fault_of(const IteratorState& state) {
  try {
    detail::unseal(state);
  } catch (const FileFault& fault) {
    return std::to_string(fault.position) + ": " + fault.reason;
  }
  return {};
}

}  // namespace

TEST_CASE("a state is sealed with its version and a checksum", "[input][host]") {
  IteratorState state = detail::seal("content");
  CHECK(detail::unseal(state) == "content");
  CHECK(detail::unseal(detail::seal("")).empty());
  for (std::size_t i = 0; i < state.size(); ++i) {
    CHECK_FALSE(
        fault_of(IteratorState(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(i))).empty());
    IteratorState changed = state;
    changed[i] ^= std::byte{4};
    CHECK_FALSE(fault_of(changed).empty());
  }
  CHECK(fault_of({}) == "0: it has 0 bytes, too few for a state");
  CHECK(fault_of(IteratorState(40)) == "0: it does not begin as states of iterators do");
  state[15] = std::byte{'2'};
  CHECK(fault_of(state) == "15: it is of version 2, not of 1");
  CHECK_THROWS_MATCHES(detail::with_state_faults([&] { detail::unseal(state); }), InvalidArgument,
                       says("restore_state: byte 15 of the state: it is of version 2"));
}
