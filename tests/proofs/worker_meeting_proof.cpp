// A worker's calls meet the others', while the connection reports that one has left, has failed or is lost.
#include <memory>
#include <string>

#include <lockstep/error.hpp>

#include "detail/parking.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"
#include "workers/worker_meeting.hpp"

namespace lockstep::detail {

namespace {

constexpr int kRounds = 3;

/// The other worker sends what this one does, in the first rounds, and then nothing more. Who waits looks at
/// `stop` when it is told to, and not before.
class Others final : public MessageExchange {
 public:
  explicit Others(int num_rounds) : num_rounds_(num_rounds) {}

  void post(std::span<const std::byte> message) override {
    message_.assign(message.begin(), message.end());
    ++num_posted_;
  }
  bool wait(FunctionRef<bool()> stop, backend::Deadline) override {
    for (;;) {
      const int seen = num_interrupts_.load(rl::mo_seq_cst);
      if (num_posted_ <= num_rounds_) return true;
      if (stop()) return false;
      parking_.wait(2, [&] { return num_interrupts_.load(rl::mo_seq_cst) != seen; });
    }
  }
  std::span<const std::byte> message(int) const override { return message_; }
  void interrupt() noexcept override {
    num_interrupts_.fetch_add(1, rl::mo_seq_cst);
    parking_.wake();
  }

 private:
  const int num_rounds_;
  int num_posted_ = 0;
  std::vector<std::byte> message_;
  model::atomic<int> num_interrupts_{0};
  Parking parking_;
};

enum class Report { left, lost, failed };

/// The rounds to which the other worker has come are complete, whatever is reported meanwhile, and the next
/// call throws what the report says: it does not wait for ever.
template <Report kReport, int kComplete>
struct Reported : rl::test_suite<Reported<kReport, kComplete>, 2> {
  WorkerMeeting meeting{{"worker 0", "worker 1"}, 0, std::make_unique<Others>(kComplete)};
  std::shared_ptr<backend::Loss> loss;

  void before() {
    if (kReport == Report::lost) loss = std::make_shared<backend::Loss>("worker 1 was lost");
  }
  void after() { loss.reset(); }

  int meet() {
    int met = 0;
    try {
      for (; met < kRounds; ++met) meeting.meet("a test", {}, std::chrono::milliseconds(0));
    } catch (const PeerLost&) {
      RL_ASSERT(kReport == Report::lost);
    } catch (const ContextError&) {
      RL_ASSERT(kReport == Report::left);
    } catch (const CollectiveAborted&) {
      RL_ASSERT(kReport == Report::failed);
    }
    return met;
  }
  void thread(unsigned index) {
    if (index == 0) {
      const int met = meet();
      RL_ASSERT(met <= kComplete && (kReport == Report::lost || met == kComplete));
      return;
    }
    model::pause();
    switch (kReport) {
      case Report::left: return meeting.report_left(1, kComplete);
      case Report::failed: return meeting.report_failure(1, 0, kComplete, "oit has failed");
      case Report::lost: return meeting.report_lost(loss);
    }
  }
};

/// Whoever hears that a worker is lost hears of which.
struct Loss : rl::test_suite<Loss, 3> {
  WorkerMeeting meeting{{"worker 0", "worker 1"}, 0, std::make_unique<Others>(0)};
  std::shared_ptr<backend::Loss> losses[2];

  void before() {
    losses[0] = std::make_shared<backend::Loss>("worker 1 was lost");
    losses[1] = std::make_shared<backend::Loss>("worker 2 was lost");
  }
  void thread(unsigned index) {
    if (index < 2) return meeting.report_lost(losses[index]);
    std::string seen;
    for (int i = 0; i < 2; ++i) {
      model::pause();
      try {
        meeting.throw_if_lost("a test");
        RL_ASSERT(seen.empty());
      } catch (const PeerLost& error) {
        RL_ASSERT(seen.empty() || seen == error.what());
        seen = error.what();
      }
    }
    while (!meeting.await_loss(std::chrono::milliseconds(1))) {
    }
    RL_ASSERT(meeting.is_lost() && meeting.loss() != nullptr);
  }
  void after() {
    for (auto& loss : losses) loss.reset();
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"a worker leaves at once", holds<Reported<Report::left, 0>>},
                                 {"a worker leaves after two calls", holds<Reported<Report::left, 2>>},
                                 {"a worker fails after two calls", holds<Reported<Report::failed, 2>>},
                                 {"a worker is lost", holds<Reported<Report::lost, 2>>},
                                 {"two workers are lost, and one asks", holds<Loss>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
