// Workers exchange messages in shared memory, in parts where they are long; one may stop, and time may be
// over.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "model/holds.hpp"
#include "model/weakening.hpp"
#include "workers/shared_memory/shared_message_exchange.hpp"

namespace lockstep::detail {

namespace {

constexpr int kRounds = 3;
constexpr std::size_t kPartBytes = 64 - 8;

enum class Trouble { none, stops, is_late };
enum class Sizes { short_ones, long_ones };

/// Every worker that takes part in a round gets what all have brought to it, whole. A worker stops after the
/// first: the others are told, and do not wait for it. A late worker waits again.
template <int N, Trouble kTrouble, Sizes kSizes>
struct Meeting : rl::test_suite<Meeting<N, kTrouble, kSizes>, N + (kTrouble == Trouble::stops ? 1 : 0)> {
  model::Memory memory;
  const std::vector<std::size_t> part_bytes =
      std::vector<std::size_t>(N, SharedMessageExchange::bytes_per_worker());
  std::shared_ptr<SharedSegment> segment = std::make_shared<SharedSegment>(part_bytes);
  std::unique_ptr<SharedMessageExchange> exchanges[N];
  model::atomic<int> has_stopped{0};
  int met[N] = {};

  void before() {
    for (int w = 0; w < N; ++w) exchanges[w] = std::make_unique<SharedMessageExchange>(segment, w);
  }

  static std::size_t size(int worker, int round) {
    if (kSizes == Sizes::short_ones) return static_cast<std::size_t>(worker + round);
    return worker == 0 ? 0 : kPartBytes * 2 + static_cast<std::size_t>(round);
  }
  static std::byte content(int worker, int round) { return static_cast<std::byte>(worker * 16 + round); }

  void thread(unsigned index) {
    const int worker = static_cast<int>(index);
    if (worker == N) {  // the connection reports that the last worker is gone
      model::pause();
      has_stopped.store(1, rl::mo_release);
      for (auto& exchange : exchanges) exchange->interrupt();
      return;
    }
    SharedMessageExchange& exchange = *exchanges[worker];
    const auto stop = [&] { return has_stopped.load(rl::mo_acquire) != 0; };
    for (int round = 1; round <= kRounds; ++round) {
      if (kTrouble == Trouble::stops && worker == N - 1 && round == 2) return;
      exchange.post(std::vector<std::byte>(size(worker, round), content(worker, round)));
      if (kTrouble == Trouble::is_late) {
        while (!exchange.wait(stop, std::chrono::steady_clock::now()))
          for (int other = 0; other < N; ++other) static_cast<void>(exchange.has_arrived(other));
      } else if (!exchange.wait(stop, {})) {
        RL_ASSERT(kTrouble == Trouble::stops);
        return;
      }
      met[worker] = round;
      for (int other = 0; other < N; ++other) {
        const auto message = exchange.message(other);
        if (kSizes == Sizes::short_ones && !message.empty()) model::Memory::read(message.data());
        RL_ASSERT(message.size() == size(other, round));
        RL_ASSERT(std::ranges::all_of(message, [&](std::byte b) { return b == content(other, round); }));
      }
    }
  }
  void after() {
    for (const int rounds : met) RL_ASSERT(kTrouble == Trouble::stops ? rounds <= 1 : rounds == kRounds);
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  using enum Trouble;
  using enum Sizes;
  return lockstep::model::prove(
      {{"2 workers", holds<Meeting<2, none, short_ones>>},
       {"3 workers", holds<Meeting<3, none, short_ones>>},
       {"2 workers, messages of several parts", holds<Meeting<2, none, long_ones>>},
       {"3 workers, messages of several parts", holds<Meeting<3, none, long_ones>>},
       {"one of 2 stops", holds<Meeting<2, stops, short_ones>>},
       {"one of 3 stops", holds<Meeting<3, stops, short_ones>>},
       {"one of 2 stops, messages of several parts", holds<Meeting<2, stops, long_ones>>},
       {"2 wait in parts of the time", holds<Meeting<2, is_late, short_ones>>},
       {"3 wait in parts of the time", holds<Meeting<3, is_late, long_ones>>}},
      LOCKSTEP_UNNOTICED, argc, argv);
}
