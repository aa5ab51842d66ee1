#include "input/distribution/steps.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "input/distribution/splitting.hpp"
#include "support/matchers.hpp"
#include "support/parts.hpp"

using namespace lockstep;
using detail::FlatElement;
using detail::PartIterators;
using detail::ReceiveIterator;
using detail::Step;
using detail::StepPlan;
using test::says;
using test::Values;
using test::vector_of;

namespace {

using Elements = std::vector<std::vector<Tensor>>;
using StepValues = std::vector<std::vector<Values>>;

/// A pass over elements of one tensor for all replicas, or one for each.
ReceiveIterator open(const Elements& elements, StepPlan plan) {
  return ReceiveIterator(
      [elements] {
        PartIterators passes;
        for (const std::vector<Tensor>& of_one : elements)
          passes.push_back(std::make_unique<detail::WholeIterator>(test::batch_list(of_one)));
        return passes;
      },
      std::make_shared<const StepPlan>(std::move(plan)));
}

/// All steps' first components, which are the same however many steps are made ahead.
StepValues run(const Elements& elements, StepPlan plan) {
  plan.num_ahead = GENERATE(0, 1, 3);
  ReceiveIterator pass = open(elements, std::move(plan));
  StepValues steps;
  while (const std::optional<Step> step = pass.next()) {
    std::vector<Values>& values = steps.emplace_back();
    for (const FlatElement& element : *step) values.push_back(element[0].to_vector<std::int64_t>());
  }
  CHECK_FALSE(pass.next());
  return steps;
}

/// Gives 0, 1, … as elements, each when it is let through.
class GatedIterator final : public detail::PartIterator {
 public:
  explicit GatedIterator(const std::atomic<std::int64_t>& num_open) : num_open_(num_open) {}
  std::optional<detail::Part> next() override {
    while (num_open_ <= next_) {
      detail::check_stop();
      std::this_thread::yield();
    }
    return whole(test::batch_of({vector_of({next_++})}));
  }
  detail::SeenBatches seen_after_step(bool) override { return {}; }
  void set_seen(const detail::SeenBatches&) override {}
  void transfer(detail::PassState& state) override { state(next_); }

 private:
  const std::atomic<std::int64_t>& num_open_;
  std::int64_t next_ = 0;
};

ReceiveIterator open_gated(const std::atomic<std::int64_t>& num_open, int num_ahead) {
  return ReceiveIterator(
      [&num_open] {
        PartIterators passes;
        passes.push_back(std::make_unique<GatedIterator>(num_open));
        return passes;
      },
      std::make_shared<const StepPlan>(StepPlan{test::host_devices(1), num_ahead}));
}

}  // namespace

TEST_CASE("replicas take elements in turn", "[input][host]") {
  const Elements elements{{vector_of({0}), vector_of({1}), vector_of({2}), vector_of({3})}};
  CHECK(run(elements, {test::host_devices(2)}) == StepValues{{{0}, {1}}, {{2}, {3}}});
}

TEST_CASE("a step that cannot be filled gives the last replicas no rows, or is dropped", "[input][host]") {
  const Elements elements{{vector_of({0}), vector_of({1}), vector_of({2}), vector_of({3, 4})}};
  const bool fills = GENERATE(true, false);
  StepValues expected{{{0}, {1}, {2}}};
  if (fills) expected.push_back({{3, 4}, {}, {}});
  CHECK(run(elements, {.devices = test::host_devices(3), .fills_with_empty = fills}) == expected);
}

TEST_CASE("replicas with passes of their own go on until all have ended", "[input][host]") {
  const Elements elements{{vector_of({0})}, {vector_of({1}), vector_of({2, 3})}};
  CHECK(run(elements, {test::host_devices(2)}) == StepValues{{{0}, {1}}, {{}, {2, 3}}});
}

TEST_CASE("P19 the end is decided once", "[input][host]") {
  // The second replica has an element after the first has ended; the step with it is dropped, and with it the
  // pass ends.
  std::vector<std::optional<FlatElement>> values(2);
  values.push_back(FlatElement{vector_of({1})});
  const auto open = [&values] {
    PartIterators passes;
    passes.push_back(std::make_unique<detail::WholeIterator>(
        test::batches_of(std::make_unique<test::ListIterator<FlatElement>>(std::move(values)))));
    return passes;
  };
  detail::DealIterator pass(open,
                            std::make_shared<const StepPlan>(StepPlan{.devices = test::host_devices(2)}));
  CHECK_FALSE(pass.next());
  CHECK_FALSE(pass.next());
}

TEST_CASE("components are put where the plan says", "[input][host]") {
  ReceiveIterator pass = open({{vector_of({0}), vector_of({1})}}, {.devices = {"CPU:2", "CPU:1"}});
  const std::optional<Step> step = pass.next();
  REQUIRE(step);
  CHECK(step->at(0)[0].device() == Device("CPU:2"));
  CHECK(step->at(1)[0].device() == Device("CPU:1"));
}

TEST_CASE("an exception comes at its step, and the pass goes on after it", "[input][host]") {
  const int num_ahead = GENERATE(0, 1, 4);
  // No rows to fill the step with.
  ReceiveIterator pass =
      open({{vector_of({0})}, {Tensor::scalar(std::int64_t{1}), Tensor::scalar(std::int64_t{2})}},
           {.devices = test::host_devices(2), .num_ahead = num_ahead});
  CHECK(pass.next());
  CHECK_THROWS_MATCHES(pass.next(), InvalidArgument, says("ends within a step"));
  CHECK_FALSE(pass.next());
}

TEST_CASE("a pass that cannot be opened says so at its first step", "[input][host]") {
  const int num_ahead = GENERATE(0, 2);
  ReceiveIterator pass(
      []() -> PartIterators { throw NotFound("nowhere"); },
      std::make_shared<const StepPlan>(StepPlan{.devices = test::host_devices(1), .num_ahead = num_ahead}));
  CHECK_THROWS_MATCHES(pass.next(), NotFound, says("nowhere"));
  CHECK_FALSE(pass.next());
}

TEST_CASE("without steps ahead every step is waited for", "[input][host]") {
  const std::atomic<std::int64_t> num_open = 3;
  ReceiveIterator pass = open_gated(num_open, 0);
  CHECK(pass.num_waits() == 0);
  for (std::int64_t step = 0; step < 3; ++step) {
    CHECK(pass.next());
    CHECK(pass.num_waits() == step + 1);
  }
}

TEST_CASE("waits for steps that were not ready are counted, others are not", "[input][host]") {
  std::atomic<std::int64_t> num_open = 0;
  class Numbers final : public detail::Iterator<std::int64_t> {
   public:
    explicit Numbers(const std::atomic<std::int64_t>& num_open) : num_open_(num_open) {}
    std::optional<std::int64_t> next() override {
      while (num_open_ <= next_) {
        detail::check_stop();
        std::this_thread::yield();
      }
      return next_++;
    }
    void transfer(detail::PassState& state) override { state(next_); }

   private:
    const std::atomic<std::int64_t>& num_open_;
    std::int64_t next_ = 0;
  };
  detail::PrefetchIterator<std::int64_t> pass([&] { return std::make_unique<Numbers>(num_open); }, 2);
  pass.start();
  // What is let through only when somebody waits for it is waited for.
  std::thread opener([&] {
    while (pass.num_waits() < 1) std::this_thread::yield();
    num_open = 1;
    while (pass.num_waits() < 2) std::this_thread::yield();
    num_open = 3;
  });
  CHECK(pass.next() == 0);
  CHECK(pass.num_waits() == 1);
  CHECK(pass.next() == 1);
  opener.join();
  CHECK(pass.num_waits() == 2);
  for (std::int64_t number = 2; number < 10; ++number) {
    num_open = number + 1;
    while (!pass.is_ready()) std::this_thread::yield();
    CHECK(pass.next() == number);
  }
  CHECK(pass.num_waits() == 2);
}

TEST_CASE("a pass can be dropped while its thread waits for an element", "[input][host]") {
  std::atomic<std::int64_t> num_open = 1;
  ReceiveIterator pass = open_gated(num_open, 2);
  CHECK(pass.next());
}
