#include "input/distribution/worker_step.hpp"

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>

#include "input/pipeline/pipeline.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using detail::agree_on_leaves;
using detail::from_messages;
using detail::LeafType;
using detail::to_message;
using detail::WorkerStep;
using test::says;

namespace {

const WorkerStep kWhole{
    .has_data = true, .is_whole = true, .leaves = {{Shape(4, 3), DType::bf16}, {Shape(4), DType::i64}}};
const WorkerStep kNothing{.knows_structure = true};

WorkerStep of(std::vector<LeafType> leaves) {
  return {.has_data = true, .is_whole = true, .leaves = std::move(leaves)};
}

}  // namespace

TEST_CASE("a worker's step is sent as a message", "[input][host]") {
  const WorkerStep strange{.knows_structure = false, .error = "a \"b\"\n\xff."};
  const std::vector<WorkerStep> all =
      from_messages({to_message(kWhole), to_message(strange), to_message(of({{Shape(), DType::boolean}}))});
  REQUIRE(all.size() == 3);
  CHECK(all[0].has_data);
  CHECK(all[0].is_whole);
  CHECK(all[0].knows_structure);
  CHECK_FALSE(all[0].error);
  REQUIRE(all[0].leaves.size() == 2);
  CHECK(all[0].leaves[0].shape == Shape(4, 3));
  CHECK(all[0].leaves[0].dtype == DType::bf16);
  CHECK(all[0].leaves[1].shape == Shape(4));
  CHECK(all[0].leaves[1].dtype == DType::i64);
  CHECK_FALSE(all[1].has_data);
  CHECK_FALSE(all[1].is_whole);
  CHECK_FALSE(all[1].knows_structure);
  CHECK(all[1].leaves.empty());
  CHECK(all[1].error == "a \"b\"\n\xef\xbf\xbd.");
  CHECK(all[2].leaves.at(0).shape == Shape());
}

TEST_CASE("messages of another version are refused", "[input][host]") {
  for (
      const char* const message :
      {"", "{", "[]", "{}", R"({"has_data": 1, "is_whole": true, "knows_structure": true, "leaves": []})",
       R"({"has_data": true, "is_whole": true, "knows_structure": true, "leaves": [{"shape": [1], "dtype": "i7"}]})",
       R"({"has_data": true, "is_whole": true, "knows_structure": true, "leaves": [{"shape": [-1], "dtype": "i8"}]})",
       R"({"has_data": true, "is_whole": true, "knows_structure": true, "leaves": [{"shape": 1, "dtype": "i8"}]})"})
    CHECK_THROWS_MATCHES(
        from_messages({to_message(kWhole), message}), CollectiveError,
        says("worker 1 sent a message about its step that cannot be read", "the same version"));
}

TEST_CASE("a step exists where a worker has data", "[input][host]") {
  CHECK(agree_on_leaves({kWhole}, true));
  CHECK_FALSE(agree_on_leaves({kNothing}, true));
  CHECK_FALSE(agree_on_leaves({kNothing, kNothing}, true));
  for (const auto& workers :
       {std::vector{kWhole, kNothing}, {kNothing, kWhole}, {kNothing, kWhole, kWhole}}) {
    const auto leaves = agree_on_leaves(workers, true);
    REQUIRE(leaves);
    REQUIRE(leaves->size() == 2);
    CHECK(leaves->at(0).shape == Shape(4, 3));
    CHECK(leaves->at(1).dtype == DType::i64);
    CHECK_FALSE(agree_on_leaves(workers, false));
  }
  WorkerStep partial = kWhole;
  partial.is_whole = false;
  CHECK(agree_on_leaves({partial}, true));
  CHECK_FALSE(agree_on_leaves({partial}, false));
}

TEST_CASE("a worker that could not read fails the step of all", "[input][host]") {
  CHECK_THROWS_MATCHES(agree_on_leaves({kWhole, {.error = "map: bad."}}, true), CollectiveError,
                       says("worker 1 could not read its part of the step: map: bad.", "left out on all"));
}

TEST_CASE("workers' elements that differ are refused", "[input][host]") {
  const WorkerStep wide = of({{Shape(4), DType::f32}}), narrow = of({{Shape(2, 2), DType::f32}});
  CHECK(agree_on_leaves({wide, narrow}, true));  // other extents may differ: ragged batches
  CHECK_THROWS_MATCHES(agree_on_leaves({kNothing, wide, kWhole}, true), CollectiveMismatch,
                       says("worker 2 have 2 components, those of worker 1 1"));
  CHECK_THROWS_MATCHES(agree_on_leaves({wide, of({{Shape(4), DType::f64}})}, true), CollectiveMismatch,
                       says("component 0 is [4] float64 on worker 1, but [4] float32 on worker 0"));
}

TEST_CASE("what has no rows cannot be filled with nothing", "[input][host]") {
  const WorkerStep scalars = of({{Shape(), DType::f32}});
  CHECK(agree_on_leaves({scalars, scalars}, true));
  CHECK_THROWS_MATCHES(agree_on_leaves({scalars, kNothing}, true), InvalidArgument,
                       says("component 0 is a scalar", "Batch the dataset first"));
}

TEST_CASE("a worker without data must know the structure", "[input][host]") {
  const WorkerStep ignorant{.knows_structure = false};
  CHECK_THROWS_MATCHES(agree_on_leaves({kWhole, ignorant}, true), ContextError,
                       says("worker 1 has no data although others have", "lengths or keys"));
  CHECK_FALSE(agree_on_leaves({ignorant, ignorant}, true));
}
