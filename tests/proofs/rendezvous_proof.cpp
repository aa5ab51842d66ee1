// Ranks meet in a Rendezvous, from which one may leave, in which one may fail, and whose time may be over.
#include <string>
#include <vector>

#include "collectives/rendezvous.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::detail {

namespace {

constexpr int kMeetings = 3;

enum class Trouble { none, leaves, fails, is_aborted, is_late };

std::vector<std::string> labels(int n) {
  std::vector<std::string> labels;
  for (int rank = 0; rank < n; ++rank) labels.push_back("rank " + std::to_string(rank));
  return labels;
}

/// Each meeting takes place for all ranks or for none. Ranks that have met see what the others brought, and
/// those that have not get an error. With fingerprints every rank compares them itself; without, rank 0's
/// thread checks.
template <int N, Trouble kTrouble, bool kFingerprints>
struct Meeting
    : rl::test_suite<Meeting<N, kTrouble, kFingerprints>, N + (kTrouble == Trouble::is_aborted ? 1 : 0)> {
  Rendezvous rendezvous{labels(N), "rank"};
  rl::var<int> brought[2][N];  // rank's data, by the meeting's parity
  int met[N] = {};
  std::byte memory[N][2] = {};

  void before() {
    for (auto& of_parity : brought)
      for (auto& var : of_parity) var($) = 0;
  }

  bool meet(int rank, int meeting) {
    bool has_met = false;
    try {
      Arrival arrival{.operation = "meet"};
      if (kFingerprints) arrival.fingerprint = {7, &memory[rank][0], &memory[rank][1], 1};
      const bool agree = rendezvous.meet(
          rank, arrival,
          [&](std::span<const Arrival* const> all) {
            for (int other = 0; other < N; ++other)
              RL_ASSERT(static_cast<int>(brought[meeting & 1][other]($)) == meeting && all[other] != nullptr);
          },
          std::chrono::milliseconds(kTrouble == Trouble::is_late ? 1 : 0));
      RL_ASSERT(agree == kFingerprints);
      has_met = true;
    } catch (const Released&) {
    } catch (const std::exception&) {
    }
    return has_met;
  }

  void thread(unsigned index) {
    const int rank = static_cast<int>(index);
    if (rank == N) {
      model::pause();
      return rendezvous.abort("a test");
    }
    for (int meeting = 1; meeting <= kMeetings; ++meeting) {
      if (rank == N - 1 && meeting == 2) {
        if (kTrouble == Trouble::leaves) return rendezvous.leave(rank);
        if (kTrouble == Trouble::fails) return rendezvous.fail(rank);
      }
      brought[meeting & 1][rank]($) = meeting;
      if (!meet(rank, meeting)) {
        RL_ASSERT(kTrouble != Trouble::none);
        return;
      }
      met[rank] = meeting;
      for (int other = 0; other < N; ++other)
        RL_ASSERT(static_cast<int>(brought[meeting & 1][other]($)) == meeting);
    }
  }

  void after() {
    for (int rank = 1; rank < N; ++rank) RL_ASSERT(met[rank] == met[0]);
    if (kTrouble == Trouble::none) RL_ASSERT(met[0] == kMeetings);
    if (kTrouble == Trouble::leaves || kTrouble == Trouble::fails) RL_ASSERT(met[0] == 1);
  }
};

/// A rank goes from thread to thread: each sees what the one before has written.
struct Handover : rl::test_suite<Handover, 2> {
  Rendezvous rendezvous{labels(1), "rank"};
  rl::var<int> num_meetings;

  void before() { num_meetings($) = 0; }
  void thread(unsigned) {
    const int rank = 0;
    for (int remaining = 2; remaining > 0;) {
      try {
        const Rendezvous::RankLock lock(rendezvous, {&rank, 1}, "meet");
        num_meetings($) = static_cast<int>(num_meetings($)) + 1;
        const Arrival arrival{.operation = "meet"};
        rendezvous.meet(lock, {&arrival, 1}, {}, {});
        num_meetings($) = static_cast<int>(num_meetings($)) + 1;
        --remaining;
      } catch (const ContextError&) {  // the other thread drives it
      }
      model::yield();
    }
  }
  void after() { RL_ASSERT(static_cast<int>(num_meetings($)) == 8); }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"a rank goes from thread to thread", holds<Handover>},
                                 {"2 ranks compare fingerprints", holds<Meeting<2, Trouble::none, true>>},
                                 {"2 ranks are checked", holds<Meeting<2, Trouble::none, false>>},
                                 {"3 ranks are checked", holds<Meeting<3, Trouble::none, false>>},
                                 {"one of 2 leaves", holds<Meeting<2, Trouble::leaves, true>>},
                                 {"one of 3 leaves", holds<Meeting<3, Trouble::leaves, false>>},
                                 {"one of 2 fails", holds<Meeting<2, Trouble::fails, false>>},
                                 {"one of 3 fails", holds<Meeting<3, Trouble::fails, true>>},
                                 {"2 are aborted", holds<Meeting<2, Trouble::is_aborted, false>>},
                                 {"the time of 2 is over", holds<Meeting<2, Trouble::is_late, true>>},
                                 {"the time of 3 is over", holds<Meeting<3, Trouble::is_late, false>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
