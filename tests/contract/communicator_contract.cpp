#include <algorithm>
#include <type_traits>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "support/communicator_group.hpp"
#include "support/dtypes.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Nothing, one, primes, and one past a block.
const std::vector<std::int64_t> kSizes = {0, 1, 31, 2049, 5003};
// P29's lengths.
const std::vector<std::int64_t> kOddSizes = {1, 3, 5, 17, 31, 33, 127, 129, 1025};
const std::vector<ReduceOp> kOps = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::product};

// Element i of a replica: 1 or 2, so that sums and products over up to 7 replicas are exact in every dtype
// but float8_e5m2, whose results are the exact ones rounded.
int input_value(std::int64_t i, int rank) { return 1 + static_cast<int>((i + rank) % 2); }
// The number of replicas that have a 2 there.
int num_twos(std::int64_t i, int n) { return (n + static_cast<int>(i % 2)) / 2; }

template <class T>
using MeanOf = std::conditional_t<!std::integral<T>, T, std::conditional_t<sizeof(T) < 4, float, double>>;

// The closed form of a reduction of input_value over n replicas.
template <class Out>
Out reduced_value(ReduceOp op, std::int64_t i, int n) {
  const int twos = num_twos(i, n);
  switch (op) {
    case ReduceOp::sum: return static_cast<Out>(static_cast<float>(n + twos));
    case ReduceOp::mean:
      if constexpr (std::same_as<Out, double>)
        return static_cast<double>(n + twos) / n;
      else
        return static_cast<Out>(static_cast<float>(n + twos) / static_cast<float>(n));
    case ReduceOp::min: return static_cast<Out>(twos == n ? 2.0f : 1.0f);
    case ReduceOp::max: return static_cast<Out>(twos > 0 ? 2.0f : 1.0f);
    case ReduceOp::product: return static_cast<Out>(static_cast<float>(1 << twos));
  }
  return Out{};
}

template <class T>
std::vector<HostElement<T>> inputs_of(std::int64_t n, int rank) {
  std::vector<HostElement<T>> values;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::same_as<T, bool>)
      values.push_back(static_cast<std::uint8_t>(input_value(i, rank) - 1));
    else
      values.push_back(static_cast<T>(input_value(i, rank)));
  }
  return values;
}
template <class T>
std::vector<std::vector<HostElement<T>>> all_inputs(std::int64_t n, int num_ranks) {
  std::vector<std::vector<HostElement<T>>> values;
  for (int rank = 0; rank < num_ranks; ++rank) values.push_back(inputs_of<T>(n, rank));
  return values;
}
template <class Out>
std::vector<Out> reduced(ReduceOp op, std::int64_t begin, std::int64_t end, int num_ranks) {
  std::vector<Out> values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(reduced_value<Out>(op, i, num_ranks));
  return values;
}
template <class T>
std::vector<std::vector<HostElement<T>>> blanks(std::int64_t n, int num_ranks) {
  return {static_cast<std::size_t>(num_ranks), std::vector<HostElement<T>>(static_cast<std::size_t>(n))};
}
std::vector<RankViews> views_of(const std::vector<TensorView>& inputs,
                                const std::vector<TensorView>& outputs) {
  std::vector<RankViews> views;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) views.push_back({{inputs[rank]}, {outputs[rank]}});
  return views;
}

template <class T, class Out>
void check_all_reduce(CommunicatorGroup& group, ReduceOp op, std::int64_t size, const CollectiveCase& c) {
  const int n = group.size();
  const RankBuffers<T> inputs(group, all_inputs<T>(size, n), c.offset_bytes);
  const RankBuffers<Out> outputs(group, blanks<Out>(size, n), c.offset_bytes);
  const bool in_place = c.in_place && std::same_as<T, Out>;
  group.run(c.drive, views_of(inputs.views(), in_place ? inputs.views() : outputs.views()),
            [&](std::span<const RankBatch> batches) { group.communicator().all_reduce(op, batches); });
  CAPTURE(n, op, size, c.in_place, c.offset_bytes, dtype_of<T>);
  const auto expected = reduced<Out>(op, 0, size, n);
  if constexpr (std::same_as<T, Out>) {
    if (in_place) REQUIRE(inputs.all_are(expected));
  }
  if (!in_place) {
    REQUIRE(outputs.all_are(expected));
    for (int rank = 0; rank < n; ++rank) REQUIRE(inputs[rank].values() == inputs_of<T>(size, rank));  // P30
  }
  REQUIRE(inputs.guards_intact());
  REQUIRE(outputs.guards_intact());
}

template <class T>
void check_all_reduce_op(CommunicatorGroup& group, ReduceOp op, std::int64_t size, const CollectiveCase& c) {
  if (op == ReduceOp::mean)
    check_all_reduce<T, MeanOf<T>>(group, op, size, c);
  else
    check_all_reduce<T, T>(group, op, size, c);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("P29 all_reduce combines every dtype with every operator", "[collectives]",
                        NumericTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  for (const ReduceOp op : kOps) {
    for (const std::int64_t size : kSizes) {
      for (const CollectiveCase& c : kCollectiveCases) check_all_reduce_op<TestType>(group, op, size, c);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("P29 all_reduce is right at odd lengths and odd addresses", "[collectives]",
                        NumericTypes) {
  const int n = GENERATE(2, 3);
  CommunicatorGroup group(n);
  for (const std::int64_t size : kOddSizes) {
    for (const bool in_place : {false, true}) {
      check_all_reduce_op<TestType>(group, ReduceOp::sum, size, {Drive::one_thread, in_place, 4});
    }
  }
  CommunicatorGroup six(6);
  check_all_reduce_op<TestType>(six, ReduceOp::sum, 8, {Drive::thread_per_replica, false, 4});
}

TEMPLATE_LIST_TEST_CASE("reduce leaves the result on the root, and P30 all sources as they were",
                        "[collectives]", NumericTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  const int root = n - 1;
  const auto check = [&]<class Out>(ReduceOp op, std::int64_t size, const CollectiveCase& c, Out) {
    const RankBuffers<TestType> inputs(group, all_inputs<TestType>(size, n), c.offset_bytes);
    const RankBuffers<Out> outputs(group, blanks<Out>(size, n), c.offset_bytes);
    const bool in_place = c.in_place && std::same_as<TestType, Out>;
    std::vector<RankViews> views(static_cast<std::size_t>(n));
    for (int rank = 0; rank < n; ++rank) views[static_cast<std::size_t>(rank)].inputs = {inputs[rank].view()};
    views.back().outputs = {in_place ? inputs[root].view() : outputs[root].view()};
    group.run(c.drive, views,
              [&](std::span<const RankBatch> batches) { group.communicator().reduce(op, root, batches); });
    CAPTURE(n, op, size, c.in_place, c.offset_bytes);
    const auto expected = reduced<Out>(op, 0, size, n);
    if constexpr (std::same_as<TestType, Out>) {
      if (in_place) REQUIRE(inputs[root].values() == expected);
    }
    if (!in_place) REQUIRE(outputs[root].values() == expected);
    for (int rank = 0; rank < n - (in_place ? 1 : 0); ++rank) {
      REQUIRE(inputs[rank].values() == inputs_of<TestType>(size, rank));
    }
    REQUIRE(inputs.guards_intact());
    REQUIRE(outputs.guards_intact());
  };
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      check(ReduceOp::sum, size, c, TestType());
      check(ReduceOp::mean, size, c, MeanOf<TestType>());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("reduce_scatter gives each rank its part of the reduction", "[collectives]",
                        NumericTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  const auto check = [&]<class Out>(ReduceOp op, std::int64_t size, const CollectiveCase& c, Out) {
    const RankBuffers<TestType> inputs(group, all_inputs<TestType>(size * n, n), c.offset_bytes);
    const RankBuffers<Out> outputs(group, blanks<Out>(size, n), c.offset_bytes);
    const bool in_place = c.in_place && std::same_as<TestType, Out>;
    std::vector<TensorView> receive = outputs.views();
    for (int rank = 0; in_place && rank < n; ++rank) {  // the rank's own part of its input
      receive[static_cast<std::size_t>(rank)].data =
          static_cast<std::byte*>(inputs[rank].view().data) + rank * outputs[rank].view().nbytes();
    }
    group.run(c.drive, views_of(inputs.views(), receive),
              [&](std::span<const RankBatch> batches) { group.communicator().reduce_scatter(op, batches); });
    CAPTURE(n, op, size, c.in_place, c.offset_bytes);
    for (int rank = 0; rank < n; ++rank) {
      const auto expected = reduced<Out>(op, rank * size, (rank + 1) * size, n);
      auto unchanged = inputs_of<TestType>(size * n, rank);
      if constexpr (std::same_as<TestType, Out>) {
        if (in_place) std::copy(expected.begin(), expected.end(), unchanged.begin() + rank * size);
      }
      REQUIRE(inputs[rank].values() == unchanged);
      if (!in_place) REQUIRE(outputs[rank].values() == expected);
    }
    REQUIRE(inputs.guards_intact());
    REQUIRE(outputs.guards_intact());
  };
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      check(ReduceOp::sum, size, c, TestType());
      check(ReduceOp::mean, size, c, MeanOf<TestType>());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("broadcast gives every rank the root's values", "[collectives]", AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  const int root = n / 2;
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      const RankBuffers<TestType> buffers(group, all_inputs<TestType>(size, n), c.offset_bytes);
      const GuardedBuffer<TestType> source(group.stream(root), inputs_of<TestType>(size, root + 1),
                                           c.offset_bytes);
      std::vector<RankViews> views(static_cast<std::size_t>(n));
      for (int rank = 0; rank < n; ++rank)
        views[static_cast<std::size_t>(rank)].outputs = {buffers[rank].view()};
      RankViews& roots = views[static_cast<std::size_t>(root)];
      roots.inputs = {c.in_place ? buffers[root].view() : source.view()};
      if (c.in_place && size % 2 == 1) roots.outputs = {};  // the root need not receive
      group.run(c.drive, views,
                [&](std::span<const RankBatch> batches) { group.communicator().broadcast(root, batches); });
      CAPTURE(n, size, c.in_place, c.offset_bytes);
      REQUIRE(buffers.all_are(inputs_of<TestType>(size, c.in_place ? root : root + 1)));
      REQUIRE(buffers.guards_intact());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("all_gather concatenates ragged values in rank order", "[collectives]", AllTypes) {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  CommunicatorGroup group(n);
  for (const std::int64_t size : kSizes) {
    for (const CollectiveCase& c : kCollectiveCases) {
      // Rank r has r less than the first rows of two elements; none when there are none.
      std::vector<std::vector<HostElement<TestType>>> sent;
      std::vector<HostElement<TestType>> expected;
      for (int rank = 0; rank < n; ++rank) {
        sent.push_back(inputs_of<TestType>(2 * std::max<std::int64_t>(0, size - rank), rank));
        expected.insert(expected.end(), sent.back().begin(), sent.back().end());
      }
      const auto total = static_cast<std::int64_t>(expected.size());
      const RankBuffers<TestType> inputs(group, sent, c.offset_bytes);
      auto initial = blanks<TestType>(total, n);
      std::int64_t first = 0;
      std::vector<RankViews> views(static_cast<std::size_t>(n));
      std::vector<std::int64_t> begins;
      for (int rank = 0; rank < n; ++rank) {
        const auto& values = sent[static_cast<std::size_t>(rank)];
        if (c.in_place) {
          std::copy(values.begin(), values.end(), initial[static_cast<std::size_t>(rank)].begin() + first);
        }
        begins.push_back(first);
        first += static_cast<std::int64_t>(values.size());
      }
      const RankBuffers<TestType> outputs(group, initial, c.offset_bytes);
      for (int rank = 0; rank < n; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        TensorView input = inputs[rank].view(Shape(static_cast<std::int64_t>(sent[r].size()) / 2, 2));
        const TensorView output = outputs[rank].view(Shape(total / 2, 2));
        if (c.in_place) {  // the rank's own part of its output
          input.data =
              static_cast<std::byte*>(output.data) + begins[r] * static_cast<std::int64_t>(sizeof(TestType));
        }
        views[r] = {{input}, {output}};
      }
      group.run(c.drive, views,
                [&](std::span<const RankBatch> batches) { group.communicator().all_gather(batches); });
      CAPTURE(n, size, c.in_place, c.offset_bytes);
      REQUIRE(outputs.all_are(expected));
      REQUIRE(inputs.guards_intact());
      REQUIRE(outputs.guards_intact());
    }
  }
}

TEST_CASE("P29 bytes get from any address to any other", "[collectives]") {
  const int n = 3;
  CommunicatorGroup group(n);
  const std::size_t from = GENERATE(0, 1, 3, 4, 8, 13, 16, 31);
  for (const std::size_t to : {0, 1, 7, 12, 16, 17}) {
    for (const std::int64_t size : {1, 15, 16, 33, 47, 48, 79, 513, 2000}) {
      CAPTURE(from, to, size);
      std::vector<std::vector<std::uint8_t>> values(n);
      std::vector<std::uint8_t> all;
      for (int rank = 0; rank < n; ++rank) {
        for (std::int64_t i = 0; i < size; ++i)
          values[static_cast<std::size_t>(rank)].push_back(static_cast<std::uint8_t>(i * 7 + i / 256 + rank));
        all.insert(all.end(), values[static_cast<std::size_t>(rank)].begin(),
                   values[static_cast<std::size_t>(rank)].end());
      }
      const RankBuffers<std::uint8_t> inputs(group, values, from);
      const RankBuffers<std::uint8_t> outputs(group, blanks<std::uint8_t>(size, n), to);
      const RankBuffers<std::uint8_t> gathered(group, blanks<std::uint8_t>(n * size, n), to);
      group.communicator().broadcast(inputs[1].view(), outputs.views(), 1, group.streams());
      group.communicator().all_gather(inputs.views(), gathered.views(), group.streams());
      REQUIRE(outputs.all_are(values[1]));
      REQUIRE(gathered.all_are(all));
      REQUIRE((outputs.guards_intact() && gathered.guards_intact()));
    }
  }
}

TEST_CASE("the calls for one thread and one tensor for each rank do what the batches do", "[collectives]") {
  const int n = GENERATE(1, 3);
  CommunicatorGroup group(n);
  Communicator& communicator = group.communicator();
  REQUIRE(communicator.num_ranks() == n);
  REQUIRE(communicator.devices() == TestBackend::devices(n));
  const RankBuffers<float> inputs(group, all_inputs<float>(6, n));
  const RankBuffers<float> outputs(group, blanks<float>(6, n));

  communicator.all_reduce(ReduceOp::sum, inputs.views(), outputs.views(), group.streams());
  REQUIRE(outputs.all_are(reduced<float>(ReduceOp::sum, 0, 6, n)));
  communicator.reduce(ReduceOp::max, inputs.views(), outputs[n - 1].view(), n - 1, group.streams());
  REQUIRE(outputs[n - 1].values() == reduced<float>(ReduceOp::max, 0, 6, n));
  communicator.broadcast(inputs[0].view(), outputs.views(), 0, group.streams());
  REQUIRE(outputs.all_are(inputs_of<float>(6, 0)));

  const RankBuffers<float> gathered(group, blanks<float>(6 * n, n));
  communicator.all_gather(inputs.views(), gathered.views(), group.streams());
  std::vector<float> expected;
  for (int rank = 0; rank < n; ++rank) {
    for (const float value : inputs_of<float>(6, rank)) expected.push_back(value);
  }
  REQUIRE(gathered.all_are(expected));

  const RankBuffers<float> parts(group, blanks<float>(6 / n, n));
  communicator.reduce_scatter(ReduceOp::sum, inputs.views(), parts.views(), group.streams());
  for (int rank = 0; rank < n; ++rank) {
    REQUIRE(parts[rank].values() == reduced<float>(ReduceOp::sum, rank * 6 / n, (rank + 1) * 6 / n, n));
  }
}
