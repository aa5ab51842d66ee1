// Where memory runs out, text is whole or std::bad_alloc is thrown: JSON does not end the process, and
// streams do not cut it short.
#include <cstdint>
#include <functional>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "detail/json_document.hpp"
#include "input/distribution/worker_step.hpp"
#include "input/state/pipeline_state.hpp"
#include "support/failing_memory.hpp"
#include "trace/call_group.hpp"
#include "workers/control/host_identity.hpp"

namespace ls = lockstep;
using ls::test::FailingMemory;
using ls::test::Memory;

namespace {

/// Lets each request of `act` to the heap fail in turn. @return how many there are.
std::int64_t fail_each(const std::function<void()>& act) {
  for (std::int64_t n = 1;; ++n) {
    bool threw = false;
    bool has_failed = false;
    {
      const FailingMemory failing(Memory::heap, n);
      try {
        act();
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      has_failed = FailingMemory::has_failed();
    }
    if (!has_failed) return n - 1;
    REQUIRE(threw);
  }
}

}  // namespace

TEST_CASE("TF_CONFIG needs no memory to go", "[memory][cluster][host]") {
  const ls::cluster::EnvironmentVariables variables = {
      {"TF_CONFIG",
       R"({"cluster": {"worker": ["a:1", "b:2"], "ps": {"7": "c:3"}}, "task": {"type": "worker", "index": 1}})"}};
  CHECK(fail_each([&] { static_cast<void>(ls::cluster::from_environment(variables)); }) > 20);
}

TEST_CASE("a report as JSON needs no memory to go", "[memory][trace][host]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  strategy.run([](ls::ReplicaContext& ctx) {
    static_cast<void>(ctx.all_reduce(ls::ReduceOp::sum, ls::Tensor::scalar(1.0f)));
  });
  const ls::Report report = strategy.report();
  CHECK(fail_each([&] { static_cast<void>(report.to_json()); }) > 20);
  const std::string text = report.to_json();
  CHECK(fail_each([&] { static_cast<void>(ls::detail::report_from_json(text)); }) > 20);
}

TEST_CASE("a worker's step as JSON needs no memory to go", "[memory][input][host]") {
  const ls::detail::WorkerStep step{
      .has_data = true, .leaves = {{ls::Shape{2, 3}, ls::DType::f32}, {ls::Shape{}, ls::DType::i64}}};
  CHECK(fail_each([&] { static_cast<void>(to_message(step)); }) > 10);
  const std::vector<std::string> messages = {to_message(step), to_message(step)};
  CHECK(fail_each([&] { static_cast<void>(ls::detail::from_messages(messages)); }) > 10);
}

TEST_CASE("deep JSON is destroyed without the stack", "[memory][host]") {
  const int depth = 100'000;
  const ls::detail::JsonDocument document(
      nlohmann::json::parse(std::string(depth, '[') + std::string(depth, ']')));
  CHECK((*document).is_array());
}

TEST_CASE("the state of a random order is whole, or is not made", "[memory][input][host]") {
  std::mt19937_64 random(7);
  const auto saved = [&] {
    ls::detail::PassState state;
    ls::detail::transfer(state, random);
    return state.take();
  };
  const std::string whole = saved();
  CHECK(fail_each([&] {
          if (saved() != whole) throw std::runtime_error("another state");
        }) > 5);
}

TEST_CASE("a host is itself, or is not known", "[memory][workers][host]") {
  const std::string own = ls::detail::host_identity();
  CHECK(fail_each([&] {
          if (ls::detail::host_identity() != own) throw std::runtime_error("another host");
        }) > 1);
}
