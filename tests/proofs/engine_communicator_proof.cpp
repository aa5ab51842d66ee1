// Of several local ranks the one that comes first makes a collective's call, and the others wait for it.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/error.hpp>

#include "host/processes/engine_communicator.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep::host {

namespace {

constexpr int kCollectives = 3;

/// This process and another one, which are never connected.
class TwoProcesses final : public backend::ProcessGroup {
 public:
  int num_processes() const noexcept override { return 2; }
  int process() const noexcept override { return 0; }
  const std::string& label(int) const override { return label_; }
  int host(int process) const noexcept override { return process; }
  std::vector<std::string> all_gather(std::string_view, std::string) override { return {}; }
  std::unique_ptr<backend::Channel> open_channel() override { return nullptr; }

 private:
  std::string label_;
};

/// What the other process sends, in a broadcast: nothing else is called. One call fails.
class Received final : public backend::Channel {
 public:
  explicit Received(int failing) : failing_(failing) {
    num_calls_($) = 0;
    for (auto& result : results_) result($) = 0;
  }

  void broadcast(std::span<std::byte> buffer, int, backend::Deadline) override {
    const int number = static_cast<int>(num_calls_($)) + 1;
    num_calls_($) = number;
    if (number == failing_) throw CollectiveAborted("the other process is gone");
    results_[number - 1]($) = number;
    buffer[0] = static_cast<std::byte>(number);
  }
  int result(int number) { return static_cast<int>(results_[number - 1]($)); }

  void all_gather(std::span<const std::byte>, std::span<std::byte>, backend::Deadline) override {}
  void barrier(backend::Deadline) override {}
  void all_to_all(std::span<const std::span<const std::byte>>, std::span<const std::span<std::byte>>,
                  backend::Deadline) override {}
  void abort(std::string_view) noexcept override {}

 private:
  const int failing_;
  rl::var<int> num_calls_;  // of whoever makes the call
  rl::var<int> results_[kCollectives];
};

/// Each collective takes place once, before any local rank goes on; or it fails for all of them.
template <int N, int kFailing>
struct Collectives : rl::test_suite<Collectives<N, kFailing>, N> {
  TwoProcesses group;
  Received* channel = nullptr;
  std::unique_ptr<EngineCommunicator> communicator;
  std::byte memory[N] = {}, sent{};
  backend::Segment segments[N + 1];
  backend::RankCall calls[N + 1];
  int num_failed[N] = {};

  void before() {
    auto owned = std::make_unique<Received>(kFailing);
    channel = owned.get();
    communicator = std::make_unique<EngineCommunicator>(
        backend::ProcessRanks{.group = &group, .num_ranks = {N, 1}}, std::move(owned));
    for (int rank = 0; rank <= N; ++rank) {
      segments[rank] = {.send = rank == N ? &sent : nullptr,
                        .receive = rank == N ? nullptr : &memory[rank],
                        .count = 1,
                        .dtype = DType::i8};
      calls[rank] = {.rank = rank, .segments = {&segments[rank], 1}};
    }
  }
  void thread(unsigned index) {
    for (int number = 1; number <= kCollectives; ++number) {
      try {
        communicator->broadcast(
            {.operation = "a test", .calls = calls, .own = {&calls[index], 1}, .root = N});
        RL_ASSERT(kFailing == 0 || number < kFailing);
      } catch (const CollectiveAborted& error) {
        RL_ASSERT(number == kFailing && std::string(error.what()).find("is gone") != std::string::npos);
        num_failed[index] = 1;
        return;
      }
      RL_ASSERT(channel->result(number) == number);
    }
  }
  void after() {
    for (const int failed : num_failed) RL_ASSERT(failed == (kFailing > 0 ? 1 : 0));
    communicator.reset();
  }
};

}  // namespace

}  // namespace lockstep::host

int main(int argc, char** argv) {
  using namespace lockstep::host;
  using lockstep::model::holds;
  return lockstep::model::prove({{"2 local ranks", holds<Collectives<2, 0>>},
                                 {"3 local ranks", holds<Collectives<3, 0>>},
                                 {"2 local ranks, a call fails", holds<Collectives<2, 2>>},
                                 {"3 local ranks, a call fails", holds<Collectives<3, 2>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
