#include <cstdint>
#include <cstdlib>
#include <iostream>

#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <dlfcn.h>

#include "support/test_backend.hpp"

namespace lockstep::test {

const DeviceKind TestBackend::kKind = DeviceKind::gpu;

namespace {

/// With LOCKSTEP_TEST_FIRST_SEED each test case runs with a seed of its own of the virtual GPUs' scheduler:
/// it and those that follow. Failures tell theirs.
class CaseSeeds : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override {
    static const char* const first = std::getenv("LOCKSTEP_TEST_FIRST_SEED");
    static const auto set_seed =
        reinterpret_cast<void (*)(unsigned long long)>(::dlsym(RTLD_DEFAULT, "vgpu_seed"));
    if (first == nullptr || set_seed == nullptr) return;
    seed_ = std::strtoull(first, nullptr, 10) + num_cases_++;
    set_seed(seed_);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (seed_ != 0 && !stats.totals.assertions.allOk())
      std::cout << "seed " << seed_ << " of \"" << stats.testInfo->name << "\"" << std::endl;
  }
  void testRunEnded(const Catch::TestRunStats&) override {
    if (seed_ != 0) std::cout << num_cases_ << " seeds" << std::endl;
  }

 private:
  std::uint64_t seed_ = 0, num_cases_ = 0;
};
CATCH_REGISTER_LISTENER(CaseSeeds)

}  // namespace

}  // namespace lockstep::test
