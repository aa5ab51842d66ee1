// Threads meet in a Barrier, which may fail at any moment.
#include "detail/barrier.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::detail {

namespace {

constexpr int kGenerations = 2;

/// Parties that pass see what the others wrote before, and no two disagree on whether a generation has
/// passed.
template <int N, bool kFails>
struct Meeting : rl::test_suite<Meeting<N, kFails>, N + (kFails ? 1 : 0)> {
  Barrier barrier{N};
  rl::var<int> written[N];
  int passed[N] = {};

  void before() {
    for (auto& var : written) var($) = 0;
  }
  void thread(unsigned index) {
    const int party = static_cast<int>(index);
    if (party == N) {
      model::pause();
      return barrier.fail();
    }
    for (int generation = 1; generation <= kGenerations; ++generation) {
      written[party]($) = generation;
      if (!barrier.arrive_and_wait(1)) return;
      ++passed[party];
      for (int other = 0; other < N; ++other) RL_ASSERT(static_cast<int>(written[other]($)) == generation);
      if (!barrier.arrive_and_wait(1)) return;
      ++passed[party];
    }
  }
  void after() {
    for (int party = 1; party < N; ++party) RL_ASSERT(passed[party] == passed[0]);
    if (!kFails) RL_ASSERT(passed[0] == 2 * kGenerations);
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"2 parties meet", holds<Meeting<2, false>>},
                                 {"3 parties meet", holds<Meeting<3, false>>},
                                 {"2 parties meet, and the barrier fails", holds<Meeting<2, true>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
