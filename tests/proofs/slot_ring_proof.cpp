// Ranks of several processes give each other chunks through a ring of slots, which may be aborted at any
// moment.
#include <array>
#include <memory>
#include <numeric>
#include <vector>

#include "host/processes/slot_ring.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::host {

namespace {

struct Call {
  int rank;
};
struct Aborted {};

enum class Trouble { none, is_aborted, ends };

/// Two collectives, of two chunks and of one. Ranks that are through have seen all that the others gave, and
/// used memory of their process's others. kLocal ranks are of process 0, with a thread each or one for all,
/// and one is of process 1. An aborter ends them at any moment; before, the thread of process 1 may end.
template <int kLocal, bool kOneThread, Trouble kTrouble>
struct Steps : rl::test_suite<Steps<kLocal, kOneThread, kTrouble>,
                              (kOneThread ? 1 : kLocal) + 1 + (kTrouble == Trouble::none ? 0 : 1)> {
  static constexpr int kThreads = (kOneThread ? 1 : kLocal) + 1;  // that drive ranks
  static constexpr int kRanks = kLocal + 1;

  model::Memory memory;
  const std::array<int, 2> num_ranks{kLocal, 1};
  std::shared_ptr<detail::SharedSegment> segment =
      std::make_shared<detail::SharedSegment>(SlotRing::part_bytes(num_ranks));
  std::unique_ptr<SlotRing> rings[2];
  rl::var<int> own[kRanks]
                  [2];  // what a rank brings to a collective, which others of its process read and write
  int made[kRanks] = {};

  void before() {
    for (auto& ring : rings) ring = std::make_unique<SlotRing>(segment, num_ranks);
    for (auto& of_rank : own)
      for (auto& var : of_rank) var($) = 0;
  }

  // Reads and writes of a slot's chunk and of its result.
  static void touch(const std::byte* place) { model::Memory::read(place); }
  static void fill(std::byte* place, int value) {
    model::Memory::write(place);
    *place = static_cast<std::byte>(value);
  }
  static int value(int rank, std::uint64_t step) { return 16 * rank + static_cast<int>(step); }

  bool collective(SlotRing& ring, const std::vector<Call>& calls, int number, std::int64_t num_chunks) {
    const bool is_local = calls.front().rank < kLocal;
    for (const Call& call : calls) own[call.rank][number]($) = 10 + number;
    const auto make_steps = [&] {
      return ring.make_steps(
          calls, 2, num_chunks + 1,
          [&](const Call& call, std::int64_t k, std::uint64_t step) {
            if (k < num_chunks) fill(ring.chunk(call.rank, step, 1000), value(call.rank, step));
            if (k == 0) return;
            const auto use = [&] {
              for (int other = 0; other < kRanks; ++other)
                if (other < kLocal == is_local)
                  RL_ASSERT(static_cast<int>(own[other][number]($)) == 10 + number);
              for (int other = 0; other < kRanks; ++other) touch(ring.chunk(other, step - 1, 1000));
              fill(ring.result(call.rank, step), value(call.rank, step));
            };
            if (!ring.use_memory(call.rank, use)) throw Aborted{};
          },
          [&](const Call&, std::int64_t k, std::uint64_t step) {
            for (int other = 0; other < kRanks; ++other) {
              if (k <= num_chunks) {
                const std::byte* const chunk = ring.chunk(other, step, 1000);
                touch(chunk);
                RL_ASSERT(*chunk == static_cast<std::byte>(value(other, step)));
              }
              if (k >= 2) {
                touch(ring.result(other, step));
                RL_ASSERT(*ring.result(other, step) == static_cast<std::byte>(value(other, step)));
              }
            }
          });
    };
    bool is_made = false;
    try {
      is_made = make_steps();
    } catch (const Aborted&) {
    }
    if (!is_made) ring.await_users();
    for (const Call& call : calls) own[call.rank][number]($) = 0;  // the caller's again
    return is_made;
  }

  void thread(unsigned index) {
    const int thread = static_cast<int>(index);
    if (thread == kThreads) {
      model::pause();
      for (auto& ring : rings) ring->abort();
      return;
    }
    std::vector<Call> calls;
    const bool is_last = thread == kThreads - 1;
    if (is_last) {
      calls = {{kLocal}};
    } else if (kOneThread) {
      for (int rank = 0; rank < kLocal; ++rank) calls.push_back({rank});
    } else {
      calls = {{thread}};
    }
    for (int number = 0; number < 2; ++number) {
      if (kTrouble == Trouble::ends && is_last && number == 1) return;
      if (!collective(*rings[is_last ? 1 : 0], calls, number, 2 - number)) {
        RL_ASSERT(kTrouble != Trouble::none);
        return;
      }
      for (const Call& call : calls) made[call.rank] = number + 1;
    }
  }
  void after() {
    for (const int number : made) {
      if (kTrouble == Trouble::none) RL_ASSERT(number == 2);
      if (kTrouble == Trouble::ends) RL_ASSERT(number <= 1);
    }
  }
};

/// Short chunks lie in the stamp's line.
struct Short : rl::test_suite<Short, 2> {
  model::Memory memory;
  const std::array<int, 2> num_ranks{1, 1};
  std::shared_ptr<detail::SharedSegment> segment =
      std::make_shared<detail::SharedSegment>(SlotRing::part_bytes(num_ranks));

  void thread(unsigned index) {
    SlotRing ring(segment, num_ranks);
    const std::vector<Call> calls{{static_cast<int>(index)}};
    for (int number = 0; number < 5; ++number) {
      const bool is_made = ring.make_steps(
          calls, 2, 1,
          [&](const Call& call, std::int64_t, std::uint64_t step) {
            std::byte* const chunk = ring.chunk(call.rank, step, 8);
            model::Memory::write(chunk);
            *chunk = static_cast<std::byte>(number);
          },
          [&](const Call&, std::int64_t, std::uint64_t step) {
            for (int other = 0; other < 2; ++other) {
              model::Memory::read(ring.chunk(other, step, 8));
              RL_ASSERT(*ring.chunk(other, step, 8) == static_cast<std::byte>(number));
            }
          });
      RL_ASSERT(is_made);
    }
  }
};

}  // namespace

}  // namespace lockstep::host

int main(int argc, char** argv) {
  using namespace lockstep::host;
  using lockstep::model::holds;
  using enum Trouble;
  return lockstep::model::prove({{"2 processes, short chunks", holds<Short>},
                                 {"2 processes of a rank", holds<Steps<1, true, none>>},
                                 {"2 processes, one thread of 2 ranks", holds<Steps<2, true, none>>},
                                 {"2 processes, 2 threads of a rank", holds<Steps<2, false, none>>},
                                 {"2 processes of a rank are aborted", holds<Steps<1, true, is_aborted>>},
                                 {"2 threads of a process are aborted", holds<Steps<2, false, is_aborted>>},
                                 {"a process ends", holds<Steps<1, true, ends>>},
                                 {"a process ends, the other has 2 threads", holds<Steps<2, false, ends>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
