#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/replica_values.hpp"

/// What programs read in the errors of a strategy: the same as people in their messages.
namespace lockstep::test {

using namespace std::chrono_literals;

namespace {

int id_of(const ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); }
std::string device(int replica) { return TestBackend::device(replica).to_string(); }

/// That `call` throws an error with these fields, and with a hint and a place.
void check_context(const std::function<void()>& call, const ErrorContext& expected) {
  try {
    call();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    const std::string message = error.what();
    const ErrorContext& context = error.context();
    CAPTURE(message);
    CHECK(context.operation == expected.operation);
    CHECK(context.replica == expected.replica);
    CHECK(context.device == expected.device);
    CHECK(context.operands == expected.operands);
    CHECK_FALSE(context.hint.empty());
    CHECK(message.ends_with(" " + context.hint));
    CHECK(std::string_view(context.location.file).ends_with(".cpp"));
    CHECK(context.location.line > 0);
  }
}

}  // namespace

TEST_CASE("the context of a collective's error has the replica at fault", "[strategy][failure]") {
  Replicas strategy(3);
  SECTION("one that is late") {
    check_context(
        [&] {
          std::latch told(2);
          strategy.run([&](ReplicaContext& ctx) {
            if (id_of(ctx) == 1) return told.wait();
            try {
              static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f, {.timeout = 20ms}));
            } catch (...) {
              told.count_down();
              throw;
            }
          });
        },
        {.operation = "all_reduce", .replica = 1, .device = device(1)});
  }
  SECTION("one that has returned") {
    check_context(
        [&] {
          strategy.run([](ReplicaContext& ctx) {
            if (id_of(ctx) != 1) static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1.0f));
          });
        },
        {.operation = "all_reduce", .replica = 1, .device = device(1)});
  }
  SECTION("one that calls something else") {
    check_context(
        [&] {
          strategy.run([](ReplicaContext& ctx) {
            static_cast<void>(ctx.all_reduce(id_of(ctx) == 0 ? ReduceOp::mean : ReduceOp::sum, 1.0f));
          });
        },
        {.operation = "all_reduce", .replica = 1, .device = device(1), .operands = "[] float32, [] float32"});
  }
  SECTION("one with another shape") {
    check_context(
        [&] {
          strategy.run([](ReplicaContext& ctx) {
            static_cast<void>(ctx.all_reduce(ReduceOp::sum, Tensor::ones({id_of(ctx) == 2 ? 3 : 2})));
          });
        },
        {.operation = "all_reduce",
         .replica = 2,
         .device = device(2),
         .operands = "[3] float32, [2] float32"});
  }
  SECTION("one with another shape, outside its function") {
    const auto value = strategy.run([](ReplicaContext& ctx) { return Tensor::ones({id_of(ctx) + 1}); });
    check_context([&] { static_cast<void>(strategy.reduce(ReduceOp::sum, value)); },
                  {.operation = "reduce", .replica = 1, .operands = "[2] float32, [1] float32"});
  }
  SECTION("one without an axis") {
    const auto value = strategy.run([] { return Tensor::ones({}); });
    check_context([&] { static_cast<void>(strategy.gather(value, 0)); },
                  {.operation = "gather", .replica = 0});
  }
}

TEST_CASE("a replica that the message names has no other's device", "[strategy][failure]") {
  Replicas strategy(2);
  auto scope = strategy.scope();
  Variable v(Tensor::scalar(1.0f), {.name = "v"}), w(Tensor::scalar(1.0f), {.name = "w"});
  check_context(
      [&] {
        strategy.run([&](ReplicaContext& ctx) {
          optim::SGD().apply_gradients({{Tensor::scalar(1.0f), id_of(ctx) == 0 ? v : w}});
        });
      },
      {.operation = "apply_gradients", .replica = 1});
}

TEST_CASE("the context of an error of values and variables has what was attempted", "[strategy][failure]") {
  auto strategy = std::make_unique<Replicas>(2);
  SECTION("a per-replica value as one") {
    const auto value = strategy->run([] { return Tensor::ones({}); });
    check_context([&] { [[maybe_unused]] const Tensor one = value; }, {.operation = "PerReplica"});
    check_context([&] { [[maybe_unused]] const Tensor none = value[2]; }, {.operation = "DistributedValues"});
  }
  SECTION("a variable whose strategy is gone") {
    const Variable v = [&] {
      auto scope = strategy->scope();
      return Variable(Tensor::ones({2}), {.name = "v"});
    }();
    strategy.reset();
    check_context([&] { v.value(); }, {.operation = "Variable"});
  }
  SECTION("a number that is one of several") {
    check_context(
        [&] {
          static_cast<void>(strategy->distribute_dataset(
              Dataset::range(4).batch(4), {.batch_split = BatchSplit::weighted, .batch_weights = {1, -1}}));
        },
        {.operation = "distribute_dataset"});
  }
}

}  // namespace lockstep::test
