#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/error.hpp>

#include "fuzz/expect.hpp"
#include "workers/worker_meeting.hpp"

namespace {

using namespace lockstep;
using test::expect;

/// Worker 1's messages are the fuzzer's: each begins with its length, in a byte. After the last one it sends
/// what worker 0 does.
class FuzzExchange final : public detail::MessageExchange {
 public:
  explicit FuzzExchange(std::span<const std::byte> rest) : rest_(rest) {}

  void post(std::span<const std::byte> message) override {
    own_.assign(message.begin(), message.end());
    theirs_ = own_;
    if (rest_.empty()) return;
    const auto length = std::min<std::size_t>(std::to_integer<std::size_t>(rest_[0]), rest_.size() - 1);
    theirs_.assign(rest_.begin() + 1, rest_.begin() + 1 + static_cast<std::ptrdiff_t>(length));
    rest_ = rest_.subspan(1 + length);
  }
  bool wait(detail::FunctionRef<bool()>, backend::Deadline) override { return true; }
  std::span<const std::byte> message(int worker) const override { return worker == 0 ? own_ : theirs_; }
  void interrupt() noexcept override {}

 private:
  std::span<const std::byte> rest_;
  std::vector<std::byte> own_, theirs_;
};

}  // namespace

/// What another worker sends where workers meet: the call throws, or has its message; and the meeting goes on
/// once the other worker makes the same calls again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  detail::WorkerMeeting meeting({"worker 0", "worker 1"}, 0, std::make_unique<FuzzExchange>(bytes));
  meeting.begin_run();
  int num_met = 0;
  // Each round takes a byte at least; without the fuzzer's messages a call takes one round.
  for (std::size_t call = 0; call <= size + 1 && num_met < 2; ++call) {
    meeting.begin_call();
    try {
      meeting.meet("all_reduce", bytes.first(std::min<std::size_t>(size, 3)), std::chrono::milliseconds(0));
      expect(meeting.message(0).size() == std::min<std::size_t>(size, 3), "a message changes");
      ++num_met;
      meeting.end_call();
    } catch (const Error&) {
      meeting.fail(std::current_exception(), [](std::uint64_t, std::uint64_t, const std::string&) {});
    }
  }
  expect(num_met == 2, "workers that make the same calls do not meet");
  return 0;
}
