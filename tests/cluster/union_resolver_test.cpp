#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/cluster/union_resolver.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using cluster::AcceleratorCounts;
using cluster::ClusterSpec;
using cluster::SimpleResolver;
using cluster::UnionResolver;
using test::says;

namespace {

ClusterSpec union_of(const ClusterSpec& a, const ClusterSpec& b) {
  return UnionResolver(SimpleResolver(a), SimpleResolver(b)).cluster_spec();
}

}  // namespace

TEST_CASE("union-lists: lists of one job follow each other", "[cluster][host]") {
  CHECK(union_of({{"worker", {"w4", "w5"}}}, {{"worker", {"w0", "w1", "w2"}}}) ==
        ClusterSpec{{"worker", {"w4", "w5", "w0", "w1", "w2"}}});
}

TEST_CASE("union-sparse: sparse jobs are merged by index", "[cluster][host]") {
  CHECK(union_of({{"worker", {{5, "w4"}, {9, "w5"}}}}, {{"worker", {{3, "w0"}, {6, "w1"}, {7, "w2"}}}}) ==
        ClusterSpec{{"worker", {{3, "w0"}, {5, "w4"}, {6, "w1"}, {7, "w2"}, {9, "w5"}}}});
  CHECK_THROWS_MATCHES(
      union_of({{"worker", {{7, "w4"}, {9, "w5"}}}}, {{"worker", {{3, "w0"}, {6, "w1"}, {7, "w2"}}}}),
      InvalidArgument, says("the job 'worker' has two tasks 7, 'w4' and 'w2'"));
}

TEST_CASE("lists count from 0 where another resolver's job is sparse", "[cluster][host]") {
  CHECK(union_of({{"worker", {"w4", "w5"}}}, {{"worker", {{3, "w0"}, {6, "w1"}}}}) ==
        ClusterSpec{{"worker", {{0, "w4"}, {1, "w5"}, {3, "w0"}, {6, "w1"}}}});
  CHECK_THROWS_MATCHES(union_of({{"worker", {"w4", "w5"}}}, {{"worker", {{1, "w0"}, {2, "w1"}}}}),
                       InvalidArgument, says("two tasks 1, 'w5' and 'w0'"));
  CHECK_THROWS_MATCHES(union_of({{"worker", {{1, "w0"}, {2, "w1"}}}}, {{"worker", {"w4", "w5"}}}),
                       InvalidArgument, says("two tasks 1, 'w0' and 'w5'"));
}

TEST_CASE("a union of one keeps indices; different jobs stand beside each other", "[cluster][host]") {
  const ClusterSpec sparse{{"worker", {{1, "w0"}, {3, "w1"}, {5, "w2"}}}};
  CHECK(UnionResolver(SimpleResolver(sparse)).cluster_spec() == sparse);
  CHECK(union_of({{"ps", {{2, "p2"}}}}, {{"worker", {"w0", "w1"}}}) ==
        ClusterSpec{{"ps", {{2, "p2"}}}, {"worker", {"w0", "w1"}}});
  CHECK(union_of({}, {}).empty());
  CHECK(union_of({{"worker", {}}}, {{"worker", {"w0"}}}) == ClusterSpec{{"worker", {"w0"}}});
}

TEST_CASE("a union is the first resolver in all else", "[cluster][host]") {
  SimpleResolver first({{"ps", {"p0", "p1"}}}, {.task_type = "ps",
                                                .task_id = 1,
                                                .rpc_layer = "grpc",
                                                .environment = "cloud",
                                                .num_accelerators = {{"GPU", 8}},
                                                .master = "m:1",
                                                .local_rank = 0,
                                                .local_size = 1});
  const SimpleResolver second({{"worker", {"w0", "w1"}}}, {.task_type = "worker",
                                                           .task_id = 0,
                                                           .rpc_layer = "http",
                                                           .environment = "local",
                                                           .num_accelerators = {{"GPU", 16}},
                                                           .master = "m:2",
                                                           .local_rank = 1,
                                                           .local_size = 2});
  UnionResolver both(first, second);
  CHECK(both.task_type() == "ps");
  CHECK(both.task_id() == 1);
  CHECK(both.rpc_layer() == "grpc");
  CHECK(both.environment() == "cloud");
  CHECK(both.num_accelerators() == AcceleratorCounts{{"GPU", 8}});
  CHECK(both.num_accelerators("worker", 1) == AcceleratorCounts{{"GPU", 8}});
  CHECK(both.master() == "grpc://m:1");
  CHECK(both.master("worker", 1) == "grpc://w1");
  CHECK(both.local_rank() == 0);
  CHECK(both.local_size() == 1);

  both.set_task_type("worker");
  both.set_task_id(0);
  both.set_rpc_layer("http");
  CHECK(both.task_type() == "worker");
  CHECK(both.task_id() == 0);
  CHECK(both.master("worker", 1) == "http://w1");
  CHECK(first.task_type() == "ps");
  first.set_task_type("chief");
  CHECK(both.task_type() == "worker");
}

TEST_CASE("a union's accelerators are the first resolver's, of the union's task", "[cluster][host]") {
  UnionResolver both(SimpleResolver({}, {.num_accelerators = {{{"worker", 0}, {{"GPU", 2}}},
                                                              {{"worker", 1}, {{"GPU", 4}}}}}),
                     SimpleResolver({}));
  CHECK(both.num_accelerators() == AcceleratorCounts{{"GPU", 6}});
  both.set_task_type("worker");
  both.set_task_id(1);
  CHECK(both.num_accelerators() == AcceleratorCounts{{"GPU", 4}});
}

TEST_CASE("unions take resolvers, shared ones and other unions", "[cluster][host]") {
  const auto shared = std::make_shared<SimpleResolver>(ClusterSpec{{"worker", {"w0"}}});
  const std::shared_ptr<const cluster::Resolver> base = shared;
  const SimpleResolver own({{"worker", {"w1"}}});
  const UnionResolver inner(shared, own);
  CHECK(inner.cluster_spec() == ClusterSpec{{"worker", {"w0", "w1"}}});
  CHECK(UnionResolver(inner, base).cluster_spec() == ClusterSpec{{"worker", {"w0", "w1", "w0"}}});
  CHECK(UnionResolver(std::vector{base, base}).cluster_spec() == ClusterSpec{{"worker", {"w0", "w0"}}});
  const UnionResolver copy(inner);
  CHECK(copy.cluster_spec() == inner.cluster_spec());
}

TEST_CASE("a union of nothing, or with what is no resolver, is refused", "[cluster][host]") {
  CHECK_THROWS_MATCHES(UnionResolver(), InvalidArgument, says("UnionResolver: no resolvers"));
  CHECK_THROWS_MATCHES(UnionResolver(std::vector<std::shared_ptr<const cluster::Resolver>>()),
                       InvalidArgument, says("UnionResolver: no resolvers"));
  CHECK_THROWS_MATCHES(UnionResolver(SimpleResolver({}), std::shared_ptr<SimpleResolver>()), InvalidArgument,
                       says("resolver 1 of 2 is null"));
}
