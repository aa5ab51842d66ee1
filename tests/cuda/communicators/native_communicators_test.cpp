#include "communicators/native_communicators.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/error.hpp>

#include "cuda/communicators/operands.hpp"
#include "support/call_hook.hpp"
#include "support/matchers.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("making an NCCL communicator is given up after the time limit", "[cuda]") {
  need_gpus(2);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::milliseconds(0)),
      CollectiveTimeout, says("2 GPUs", "0 ms", "NCCL_DEBUG"));
  cuda::wait_for_abandoned_communicators();
}

TEST_CASE("a GPU that cannot be made current is what making communicators reports", "[cuda]") {
  need_gpus(2);
  for (const std::vector<int>& ordinals : {std::vector{99, 1}, std::vector{0, 99}}) {
    REQUIRE_THROWS_MATCHES(
        cuda::make_native_communicators(ordinals, TestBackend::device(), std::chrono::minutes(1)),
        DeviceError,
        says("Making an NCCL communicator", "cudaSetDevice(99) failed with cudaErrorInvalidDevice"));
  }
}

TEST_CASE("a failed call of NCCL is named", "[cuda]") {
  need_gpus(2);
  REQUIRE_THROWS_MATCHES(
      cuda::make_native_communicators({0, 0}, TestBackend::device(), std::chrono::minutes(1)),
      CollectiveError, says("Making an NCCL communicator on GPU:0: nccl", " failed with "));
}

TEST_CASE("the time limit ends the wait for communicators that are being cleared away", "[cuda]") {
  need_gpus(2);
  std::atomic<bool> was_thrown{false}, was_cleared_away{false};
  const CallHook hook([&](std::string_view name, bool is_over) -> int {
    if (name == "ncclCommAbort" && !is_over) {
      was_thrown.wait(false);
      was_cleared_away = true;
    }
    return name == "ncclCommGetAsyncError" && !is_over ? ncclSystemError : 0;
  });
  CHECK_THROWS_MATCHES(
      cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::seconds(2)),
      CollectiveError, says("Making an NCCL communicator on GPU:0: nccl", " failed with "));
  CHECK(!was_cleared_away);
  was_thrown = true;
  was_thrown.notify_all();
  cuda::wait_for_abandoned_communicators();
}

TEST_CASE("what the program says of NCCL's launch order stands", "[cuda]") {
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  need_gpus(2);
  ::setenv(kName, "0", 1);
  for (ncclComm_t communicator :
       cuda::make_native_communicators({0, 1}, TestBackend::device(), std::chrono::minutes(1)))
    ncclCommDestroy(communicator);
  CHECK(std::getenv(kName) == std::string("0"));
  ::unsetenv(kName);
}

TEST_CASE("a failed call with a configuration is named", "[cuda]") {
  need_gpus(2);
  const CallHook hook = CallHook::failing("ncclCommInitRankConfig", ncclSystemError);
  REQUIRE_THROWS_MATCHES(
      Communicator::create(TestBackend::devices(2), {.communicator = {.name = "gradients"}}), CollectiveError,
      says("Making an NCCL communicator on GPU:0: ncclCommInitRankConfig failed with "));
}

TEST_CASE("communicators are made with a configuration where it is not the default", "[cuda]") {
  need_gpus(2);
  Operands operands(2);
  const CommunicatorConfig config =
      GENERATE(CommunicatorConfig{}, CommunicatorConfig{.name = "gradients"},
               CommunicatorConfig{.min_ctas = 1, .max_ctas = 2},
               CommunicatorConfig{.cta_policy = CtaPolicy::efficiency},
               CommunicatorConfig{.cta_policy = CtaPolicy::zero}, CommunicatorConfig{.nonblocking = true},
               CommunicatorConfig{.symmetric_windows = true});
  std::atomic<int> num_plain{0}, num_configured{0};
  {
    const CallHook hook([&](std::string_view name, bool is_over) {
      if (name == "ncclCommInitRank" && !is_over) ++num_plain;
      if (name == "ncclCommInitRankConfig" && !is_over) ++num_configured;
      return 0;
    });
    Communicator communicator = Communicator::create(TestBackend::devices(2), {.communicator = config});
    communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams,
                            {.implementation = CommunicationImplementation::nccl});
    operands.synchronize();
  }
  REQUIRE(operands.all_are(3));
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  const bool is_default =
      config == CommunicatorConfig() || config.symmetric_windows || version < NCCL_VERSION(2, 27, 0);
  REQUIRE(num_plain == (is_default ? 2 : 0));
  REQUIRE(num_configured == (is_default ? 0 : 2));
}

TEST_CASE("a configuration has what the loaded NCCL knows") {
  constexpr int kOld = NCCL_VERSION(2, 26, 5), kWithConfigs = NCCL_VERSION(2, 27, 7),
                kWithZero = NCCL_VERSION(2, 28, 3);
  const CommunicatorConfig zero{.min_ctas = 2, .max_ctas = 4, .cta_policy = CtaPolicy::zero};
  CHECK(cuda::left_out_of({}, kOld).empty());
  CHECK(cuda::left_out_of(zero, kOld) == "all is left out, as it takes NCCL 2.27");
  CHECK(cuda::left_out_of(zero, kWithConfigs) == "cta_policy zero is left out, as it takes NCCL 2.28");
  CHECK(cuda::left_out_of({.cta_policy = CtaPolicy::efficiency}, kWithConfigs).empty());
  CHECK(cuda::left_out_of(zero, kWithZero).empty());
  const CommunicatorConfig windows{.symmetric_windows = true};
  CHECK(cuda::left_out_of(windows, kOld) == "symmetric_windows is left out, as it takes NCCL 2.28.7");
  CHECK(cuda::left_out_of(windows, kWithZero) == cuda::left_out_of(windows, kOld));
  CHECK(cuda::left_out_of(windows, NCCL_VERSION(2, 28, 7)).empty());
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  const ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
  CHECK(cuda::native_config(zero, kWithConfigs).CTAPolicy == defaults.CTAPolicy);
  CHECK(cuda::native_config(zero, kWithConfigs).maxCTAs == 4);
  CHECK(cuda::native_config(zero, kWithZero).CTAPolicy == NCCL_CTA_POLICY_ZERO);
  CHECK(cuda::native_config({.cta_policy = CtaPolicy::efficiency}, kWithConfigs).CTAPolicy ==
        NCCL_CTA_POLICY_EFFICIENCY);
  const ncclConfig_t nonblocking = cuda::native_config({.nonblocking = true}, kWithZero);
  CHECK(nonblocking.blocking == 0);
  CHECK(nonblocking.minCTAs == defaults.minCTAs);
#endif
}

TEST_CASE("the log tells once what of a configuration is left out", "[cuda]") {
  need_gpus(2);
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  std::vector<std::string> lines;
  {
    const ScopedLogSink sink([&lines](std::string_view line) {
      if (line.find("CommunicatorConfig") != line.npos) lines.emplace_back(line);
    });
    for (int k = 0; k < 2; ++k)
      static_cast<void>(
          Communicator::create(TestBackend::devices(2), {.communicator = {.cta_policy = CtaPolicy::zero}}));
  }
  if (version >= NCCL_VERSION(2, 28, 0)) {
    REQUIRE(lines.empty());
    return;
  }
  REQUIRE(lines.size() == 1);
  REQUIRE_THAT(std::runtime_error(lines[0]),
               says("left out", version < NCCL_VERSION(2, 27, 0) ? "2.27" : "2.28", "is loaded"));
}

}  // namespace lockstep::test
