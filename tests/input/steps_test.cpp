#include "input/steps.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support/input.hpp"

using namespace lockstep;
using detail::FlatElement;
using detail::Step;
using detail::StepPass;
using detail::StepPlan;
using test::list_pass;
using test::Values;
using test::vector_of;

namespace {

using Elements = std::vector<std::unique_ptr<detail::Pass<FlatElement>>>;

/// All steps' first components.
std::vector<std::vector<Values>> run(Elements elements, StepPlan plan) {
  StepPass pass(std::move(elements), std::make_shared<const StepPlan>(std::move(plan)));
  std::vector<std::vector<Values>> steps;
  while (const std::optional<Step> step = pass.next()) {
    std::vector<Values>& values = steps.emplace_back();
    for (const FlatElement& element : *step) values.push_back(element[0].to_vector<std::int64_t>());
  }
  CHECK_FALSE(pass.next());
  return steps;
}

Elements one_pass(const std::vector<Tensor>& tensors) {
  Elements elements;
  elements.push_back(list_pass(tensors));
  return elements;
}

}  // namespace

TEST_CASE("replicas take elements in turn", "[input][host]") {
  const auto tensors = {vector_of({0}), vector_of({1}), vector_of({2}), vector_of({3})};
  CHECK(run(one_pass(tensors), {test::host_devices(2)}) ==
        std::vector<std::vector<Values>>{{{0}, {1}}, {{2}, {3}}});
}

TEST_CASE("a step that cannot be filled gives the last replicas no rows, or is dropped", "[input][host]") {
  const auto tensors = {vector_of({0}), vector_of({1}), vector_of({2}), vector_of({3, 4})};
  CHECK(run(one_pass(tensors), {.devices = test::host_devices(3), .fills_with_empty = true}) ==
        std::vector<std::vector<Values>>{{{0}, {1}, {2}}, {{3, 4}, {}, {}}});
  CHECK(run(one_pass(tensors), {.devices = test::host_devices(3), .fills_with_empty = false}) ==
        std::vector<std::vector<Values>>{{{0}, {1}, {2}}});
}

TEST_CASE("replicas with passes of their own go on until all have ended", "[input][host]") {
  Elements elements;
  elements.push_back(list_pass({vector_of({0})}));
  elements.push_back(list_pass({vector_of({1}), vector_of({2, 3})}));
  CHECK(run(std::move(elements), {test::host_devices(2)}) ==
        std::vector<std::vector<Values>>{{{0}, {1}}, {{}, {2, 3}}});
}

TEST_CASE("P19 the end is decided once", "[input][host]") {
  // The second replica has an element after the first has ended; the step with it is dropped, and with it the
  // pass ends.
  std::vector<std::optional<FlatElement>> values(2);
  values.push_back(FlatElement{vector_of({1})});
  Elements elements;
  elements.push_back(std::make_unique<test::ListPass<FlatElement>>(std::move(values)));
  CHECK(run(std::move(elements), {test::host_devices(2)}).empty());
}

TEST_CASE("components are put on their replica's device if that is asked for", "[input][host]") {
  for (const bool fetch : {true, false}) {
    StepPass pass(one_pass({vector_of({0}), vector_of({1})}),
                  std::make_shared<const StepPlan>(StepPlan{{"CPU:2", "CPU:1"}, fetch}));
    const std::optional<Step> step = pass.next();
    REQUIRE(step);
    CHECK(step->at(0)[0].device() == Device(fetch ? "CPU:2" : "CPU:0"));
    CHECK(step->at(1)[0].device() == Device(fetch ? "CPU:1" : "CPU:0"));
  }
}
