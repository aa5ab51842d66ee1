// Threads take the chunks of a slice, and see all results when all chunks are done.
#include "detail/parking.hpp"
#include "host/collectives/slice_progress.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::host {

namespace {

/// Each chunk is taken once. The next collective begins after all threads have returned from the one before.
template <int N, int kChunks>
struct Collectives : rl::test_suite<Collectives<N, kChunks>, N> {
  static constexpr int kCollectives = 2;

  SliceProgress progress;
  detail::Parking parking;
  model::atomic<int> num_returned{0};
  rl::var<int> results[kCollectives][kChunks];
  int num_taken[kCollectives][kChunks] = {};

  void before() {
    for (auto& of_collective : results)
      for (auto& var : of_collective) var($) = 0;
  }
  void thread(unsigned) {
    for (int i = 0; i < kCollectives; ++i) {
      const auto number = static_cast<std::uint64_t>(i + 1);
      for (;;) {
        const std::int64_t chunk = progress.take(number, kChunks);
        if (chunk < 0) break;
        ++num_taken[i][chunk];
        results[i][chunk]($) = 10 * i + static_cast<int>(chunk);
        progress.add_done(number, kChunks);
      }
      detail::full_fence();
      parking.wake();
      parking.wait(N, [&] { return progress.is_done(number, kChunks); });
      for (int chunk = 0; chunk < kChunks; ++chunk)
        RL_ASSERT(static_cast<int>(results[i][chunk]($)) == 10 * i + chunk);
      num_returned.fetch_add(1, rl::mo_seq_cst);
      parking.wake();
      parking.wait(N, [&] { return num_returned.load(rl::mo_seq_cst) >= N * (i + 1); });
    }
  }
  void after() {
    for (const auto& of_collective : num_taken)
      for (const int times : of_collective) RL_ASSERT(times == 1);
  }
};

}  // namespace

}  // namespace lockstep::host

int main(int argc, char** argv) {
  using namespace lockstep::host;
  using lockstep::model::holds;
  return lockstep::model::prove({{"2 threads, a chunk", holds<Collectives<2, 1>>},
                                 {"2 threads, 3 chunks", holds<Collectives<2, 3>>},
                                 {"3 threads, 2 chunks", holds<Collectives<3, 2>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
