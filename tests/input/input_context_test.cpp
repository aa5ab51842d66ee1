#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/input/input_context.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

TEST_CASE("input-context: three properties and the batch size per replica", "[input][host]") {
  const InputContext context(2, 1, 6);
  CHECK(context.num_input_pipelines() == 2);
  CHECK(context.input_pipeline_id() == 1);
  CHECK(context.num_replicas_in_sync() == 6);
  CHECK(context.get_per_replica_batch_size(12) == 2);
  CHECK(context.get_per_replica_batch_size(0) == 0);
  CHECK_THROWS_MATCHES(context.get_per_replica_batch_size(13), InvalidArgument,
                       says("get_per_replica_batch_size", "13 rows", "6 replicas", "multiple of 6"));
}

TEST_CASE("an input context is by default the only one, for one replica", "[input][host]") {
  const InputContext context;
  CHECK(context.num_input_pipelines() == 1);
  CHECK(context.input_pipeline_id() == 0);
  CHECK(context.num_replicas_in_sync() == 1);
}

TEST_CASE("an input context that cannot be is refused", "[input][host]") {
  CHECK_THROWS_MATCHES(InputContext(2, 2, 2), InvalidArgument,
                       says("input pipeline 2 is not one of 2", "[0, 2)"));
  CHECK_THROWS_MATCHES(InputContext(2, -1, 2), InvalidArgument, says("input pipeline -1"));
  CHECK_THROWS_MATCHES(InputContext(0, 0, 2), InvalidArgument, says("0 input pipelines for 2 replicas"));
  CHECK_THROWS_MATCHES(InputContext(1, 0, 0), InvalidArgument, says("1 input pipelines for 0 replicas"));
  CHECK_THROWS_MATCHES(InputContext().get_per_replica_batch_size(-1), InvalidArgument, says("-1 rows"));
}
