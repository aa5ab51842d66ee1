// The flight recorder: a thread records its calls, and others, or a signal's handler, read them meanwhile.
#include <array>
#include <string_view>

#include "model/holds.hpp"
#include "model/weakening.hpp"
#include "trace/call_ring.hpp"

namespace lockstep::detail {

namespace {

constexpr std::array<std::string_view, 3> kOperations{"send", "all_gather", "reduce"};
constexpr std::uint64_t kCalls = 7;

std::string_view operation(std::uint64_t number) { return kOperations[number % kOperations.size()]; }

/// What is read is one call, with what was recorded before; none is invented, and those that are kept are
/// found.
template <int kReaders, std::size_t kCapacity>
struct Recording : rl::test_suite<Recording<kReaders, kCapacity>, kReaders + 1> {
  CallRing ring{kCapacity};
  rl::var<int> started[kCalls];  // written before the call's record, which publishes it

  void before() {
    for (auto& var : started) var($) = 0;
  }

  void check(std::uint64_t index, const CallRecord& record) {
    RL_ASSERT(record.number == 10 + index && record.call == 7 * index);
    RL_ASSERT(record.operation == operation(index));
    RL_ASSERT(record.state == CallState::waiting || record.state == CallState::started ||
              record.state == CallState::completed || record.state == CallState::failed);
    RL_ASSERT(record.label() == (index % 2 == 0 ? "gradient" : ""));
    RL_ASSERT(static_cast<int>(started[index]($)) == 1);
  }

  void thread(unsigned thread) {
    if (thread == 0) {
      for (std::uint64_t index = 0; index < kCalls; ++index) {
        started[index]($) = 1;
        ring.begin(10 + index, 7 * index, operation(index), {}, index % 2 == 0 ? "gradient" : "", false);
        if (index % 3 == 0) ring.set_state(CallState::started);
        ring.end(index == 2);
      }
      return;
    }
    model::pause();
    CallRecord record;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t first = ring.first(), end = ring.num_begun();
      for (std::uint64_t index = first; index < end; ++index)
        if (ring.read(index, record)) check(index, record);
      if (ring.read_newest(record)) check(record.number - 10, record);
      if (end > 0 && ring.find(10 + end - 1, record)) check(end - 1, record);
    }
  }
  void after() {
    CallRecord record;
    RL_ASSERT(ring.num_begun() == kCalls && ring.read_newest(record) && record.number == 10 + kCalls - 1);
    std::uint64_t num_kept = 0;
    for (std::uint64_t index = ring.first(); index < kCalls; ++index) num_kept += ring.read(index, record);
    RL_ASSERT(num_kept == kCapacity - 1);  // a place is for the call that is being written
  }
};

/// No call is kept where the ring has no room.
struct Empty : rl::test_suite<Empty, 2> {
  CallRing ring{0};
  void thread(unsigned thread) {
    CallRecord record;
    if (thread == 0)
      ring.begin(1, 1, operation(0), {}, {}, false);
    else
      RL_ASSERT(!ring.read_newest(record));
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"a reader, 2 records", holds<Recording<1, 2>>},
                                 {"a reader, 4 records", holds<Recording<1, 4>>},
                                 {"2 readers, 2 records", holds<Recording<2, 2>>},
                                 {"no records", holds<Empty>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
