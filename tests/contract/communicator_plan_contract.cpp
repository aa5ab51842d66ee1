#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/error.hpp>

#include "support/communicator_group.hpp"
#include "support/matchers.hpp"

namespace lockstep::test {

TEST_CASE("a plan says what an all_reduce moves, by which path and why", "[collectives]") {
  CommunicatorGroup group(GENERATE(1, 2, 3));
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::max);
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::i32);
  const std::int64_t size_bytes = GENERATE(4, 4096, 4 << 20);
  const CommunicationPlan plan = group.communicator().plan(op, dtype, size_bytes);
  INFO(plan);
  REQUIRE(plan.op == op);
  REQUIRE(plan.dtype == dtype);
  REQUIRE(plan.size_bytes == size_bytes);
  REQUIRE(plan.num_ranks == group.size());
  REQUIRE_FALSE(plan.reason.empty());
  REQUIRE(plan.bytes_read >= size_bytes);
  REQUIRE(plan.bytes_written >= size_bytes);
  const bool is_on_host = TestBackend::device().kind() == DeviceKind::cpu;
  REQUIRE((plan.num_launches == 0) == is_on_host);
  if (is_on_host) {
    REQUIRE(plan.in_rank_order);
    REQUIRE((plan.path == CommunicationPath::shared_memory || plan.path == CommunicationPath::with_meeting));
  }
  REQUIRE(plan == group.communicator().plan(op, dtype, size_bytes));
  REQUIRE(plan != group.communicator().plan(op, dtype, 2 * size_bytes));

  std::ostringstream out;
  out << plan;
  REQUIRE(out.str() == plan.to_string());
  for (const std::string_view part : {std::string_view("all_reduce("), to_string(plan.path), plan.reason})
    REQUIRE(out.str().find(part) != std::string::npos);
}

TEST_CASE("a plan in rank order is in rank order", "[collectives]") {
  CommunicatorGroup group(3);
  const auto implementation =
      GENERATE(CommunicationImplementation::automatic, CommunicationImplementation::nccl);
  for (const std::int64_t size_bytes : {4, 8 << 20})
    REQUIRE(group.communicator()
                .plan(ReduceOp::sum, DType::f32, size_bytes,
                      {.implementation = implementation, .deterministic = true})
                .in_rank_order);
}

TEST_CASE("the plan of nothing moves nothing", "[collectives]") {
  CommunicatorGroup group(2);
  const CommunicationPlan plan = group.communicator().plan(ReduceOp::sum, DType::f32, 0);
  REQUIRE(plan.bytes_read == 0);
  REQUIRE(plan.bytes_written == 0);
  REQUIRE(plan.num_launches == 0);
}

TEST_CASE("the plan of a batch says what all its tensors move, and in how many packs", "[collectives]") {
  CommunicatorGroup group(GENERATE(1, 2, 3));
  const auto view = [](DType dtype, std::int64_t count) {
    return TensorView(static_cast<void*>(nullptr), {count}, dtype);
  };
  const std::vector<TensorView> batch{view(DType::f32, 16), view(DType::i32, 8), view(DType::f32, 0),
                                      view(DType::f32, 4)};
  const CommunicationPlan plan = group.communicator().plan(ReduceOp::sum, batch);
  INFO(plan);
  REQUIRE(plan.num_tensors == 4);
  REQUIRE(plan.size_bytes == 4 * (16 + 8 + 4));
  REQUIRE(plan.bytes_read >= plan.size_bytes);
  REQUIRE(plan.bytes_written >= plan.size_bytes);
  REQUIRE(plan.memory.empty());
  REQUIRE(2 <= plan.num_packs);
  REQUIRE(plan.num_packs <= 3);
  REQUIRE(plan.to_string().find("of 4 tensors, 112 bytes, over") != std::string::npos);
  const CommunicationPlan mean = group.communicator().plan(ReduceOp::mean, batch);
  REQUIRE(mean.bytes_read > plan.bytes_read);  // integers are converted before
  const CommunicationPlan one = group.communicator().plan(ReduceOp::sum, {&batch[0], 1});
  REQUIRE(one == group.communicator().plan(ReduceOp::sum, DType::f32, 64));
  const CommunicationPlan none = group.communicator().plan(ReduceOp::sum, {&batch[2], 1});
  REQUIRE(none.bytes_read == 0);
  REQUIRE(none.num_packs == 0);
}

TEST_CASE("a plan of what all_reduce refuses is refused", "[collectives]") {
  CommunicatorGroup group(2);
  const Communicator& communicator = group.communicator();
  REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, DType::boolean, 4), InvalidArgument,
                         says("Communicator::plan", "booleans are not numbers"));
  REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, std::vector<TensorView>()), InvalidArgument,
                         says("Communicator::plan", "without tensors", "at least one"));
  REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, DType::f32, 6), InvalidArgument,
                         says("6 bytes of float32", "multiple of 4"));
  REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, DType::f32, -4), InvalidArgument,
                         says("-4 bytes", "at least 0"));
  REQUIRE_THROWS_MATCHES(communicator.plan(ReduceOp::sum, DType::f32, 4, {.peer_bytes = -1}), InvalidArgument,
                         says("peer_bytes is -1"));
}

}  // namespace lockstep::test
