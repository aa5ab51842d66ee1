#include <cmath>
#include <cstring>
#include <limits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <unistd.h>

#include "support/communicator_group.hpp"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// What an all_reduce of one value per rank gives on every rank.
template <class T, class Out = T>
Out all_reduced(ReduceOp op, const std::vector<T>& values, const CommunicationOptions& options = {}) {
  CommunicatorGroup group(static_cast<int>(values.size()));
  std::vector<std::vector<T>> inputs;
  for (const T value : values) inputs.push_back({value});
  const RankBuffers<T> sent(group, inputs);
  const RankBuffers<Out> received(group, std::vector<std::vector<Out>>(values.size(), std::vector<Out>(1)));
  group.communicator().all_reduce(op, sent.views(), received.views(), group.streams(), options);
  const Out result = received[0].values()[0];
  for (int rank = 1; rank < group.size(); ++rank) {  // P35: the same bits
    const Out other = received[rank].values()[0];
    REQUIRE(std::memcmp(&other, &result, sizeof(Out)) == 0);
  }
  return result;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("P05 a mean does not overflow where its true value fits", "[collectives]") {
  TestBackend::devices(7);
  REQUIRE(all_reduced<f16>(ReduceOp::mean, std::vector<f16>(4, f16(40000.0f))) == 40000.0f);
  const float large = std::numeric_limits<float>::max();
  REQUIRE(all_reduced<float>(ReduceOp::mean, {large, large, large}) == large);
  REQUIRE(all_reduced<float>(ReduceOp::mean, {large, large, -large, -large}) == 0);
  REQUIRE(all_reduced<float>(ReduceOp::mean, {-large, -large}) == -large);
  REQUIRE(all_reduced<double>(ReduceOp::mean, std::vector<double>(7, std::numeric_limits<double>::max())) ==
          std::numeric_limits<double>::max());
  const bf16 large_bf16 = std::numeric_limits<bf16>::max();
  REQUIRE(all_reduced<bf16>(ReduceOp::mean, std::vector<bf16>(4, large_bf16)) == float(large_bf16));
  // Where it does not fit, it is not invented.
  REQUIRE(all_reduced<float>(ReduceOp::mean, {INFINITY, 1}) == INFINITY);
  REQUIRE(std::isnan(all_reduced<float>(ReduceOp::mean, {kNan, 1, large, large})));
}

TEST_CASE("P06 half-precision sums across replicas are rounded once", "[collectives]") {
  TestBackend::devices(7);
  std::vector<bf16> values(7, bf16(1.0f));
  values[0] = bf16(256.0f);                                   // 256 + 1 is 256 in bfloat16
  const CommunicationOptions options{.deterministic = true};  // NCCL adds in the element's type
  REQUIRE(all_reduced<bf16>(ReduceOp::sum, values, options) == 262.0f);
  REQUIRE(all_reduced<f16>(ReduceOp::sum, {f16(2048.0f), f16(1.0f), f16(1.0f)}, options) == 2050.0f);
  REQUIRE(all_reduced<f8e4m3>(ReduceOp::sum, {f8e4m3(16.0f), f8e4m3(1.0f), f8e4m3(1.0f)}, options) == 18.0f);
}

TEST_CASE("deterministic reductions combine in rank order", "[collectives]") {
  using Values = std::vector<float>;
  CommunicatorGroup group(4);
  const auto drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  const auto collective = GENERATE(0, 1, 2);
  CAPTURE(static_cast<int>(drive), collective);
  // Each replica's four equal elements. In rank order 1 is lost in 1e8; in others the sum is 0 or 2.
  const std::vector<Values> inputs = {Values(4, 1e8f), Values(4, 1.0f), Values(4, -1e8f), Values(4, 1.0f)};
  const std::size_t num_received = collective == 2 ? 1 : 4;
  const RankBuffers<float> sent(group, inputs), received(group, {4, Values(num_received, 7)});
  std::vector<RankViews> views;
  for (int rank = 0; rank < 4; ++rank) {
    views.push_back({{sent[rank].view()}, {}});
    if (collective != 1 || rank == 2) views.back().outputs = {received[rank].view()};
  }
  const CommunicationOptions options{.deterministic = true};
  group.run(drive, views, [&](std::span<const RankBatch> batches) {
    if (collective == 0) group.communicator().all_reduce(ReduceOp::mean, batches, options);
    if (collective == 1) group.communicator().reduce(ReduceOp::sum, 2, batches, options);
    if (collective == 2) group.communicator().reduce_scatter(ReduceOp::sum, batches, options);
  });
  for (int rank = 0; rank < 4; ++rank) {
    const bool receives = collective != 1 || rank == 2;
    const float expected = !receives ? 7.0f : collective == 0 ? 0.25f : 1.0f;
    REQUIRE(received[rank].values() == Values(num_received, expected));
    REQUIRE(sent[rank].values() == inputs[static_cast<std::size_t>(rank)]);
  }
}

TEST_CASE("P07 narrow integers wrap in a sum and never in a mean", "[collectives]") {
  TestBackend::devices(2);
  REQUIRE(all_reduced<std::int8_t>(ReduceOp::sum, {120, 100}) == -36);
  REQUIRE(all_reduced<std::int8_t, float>(ReduceOp::mean, {120, 100}) == 110);
  REQUIRE(all_reduced<std::uint8_t>(ReduceOp::sum, {200, 100}) == 44);
  REQUIRE(all_reduced<std::uint16_t>(ReduceOp::product, {65535, 65535}) == 1);
  REQUIRE(all_reduced<std::int32_t>(ReduceOp::sum, {std::numeric_limits<std::int32_t>::max(), 1}) ==
          std::numeric_limits<std::int32_t>::min());
  REQUIRE(all_reduced<std::int64_t>(ReduceOp::product, {std::numeric_limits<std::int64_t>::max(), 2}) == -2);
}

TEST_CASE("P04 the mean of integers is a true division", "[collectives]") {
  TestBackend::devices(4);
  REQUIRE(all_reduced<std::int32_t, double>(ReduceOp::mean, {3, 4}) == 3.5);
  REQUIRE(all_reduced<std::int32_t, double>(ReduceOp::mean, {10, 20}) == 15);
  REQUIRE(all_reduced<std::uint64_t, double>(ReduceOp::mean, {1, 2, 4, 8}) == 3.75);
  REQUIRE(all_reduced<std::int16_t, float>(ReduceOp::mean, {-1, 0}) == -0.5f);
}

TEST_CASE("P08 each operator has one answer", "[collectives]") {
  TestBackend::devices(2);
  REQUIRE(all_reduced<float>(ReduceOp::sum, {2, 5}) == 7);
  REQUIRE(all_reduced<float>(ReduceOp::mean, {2, 5}) == 3.5f);
  REQUIRE(all_reduced<float>(ReduceOp::min, {2, 5}) == 2);
  REQUIRE(all_reduced<float>(ReduceOp::max, {2, 5}) == 5);
  REQUIRE(all_reduced<float>(ReduceOp::product, {2, 5}) == 10);
}

TEST_CASE("P16 one replica reduces to itself", "[collectives]") {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    REQUIRE(all_reduced<float>(op, {0.1f}) == 0.1f);
    REQUIRE(all_reduced<f16>(op, {f16(0.1f)}) == f16(0.1f));
  }
  REQUIRE(all_reduced<std::int32_t, double>(ReduceOp::mean, {7}) == 7);
}

TEST_CASE("P46 NaN wins min and max, whatever the order", "[collectives]") {
  TestBackend::devices(7);
  const auto is_nan = [](ReduceOp op, const std::vector<float>& values) {
    std::vector<f16> halves;
    for (const float value : values) halves.push_back(f16(value));
    const std::vector<double> doubles(values.begin(), values.end());
    return std::isnan(all_reduced<float>(op, values)) && std::isnan(float(all_reduced<f16>(op, halves))) &&
           std::isnan(all_reduced<double>(op, doubles));
  };
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    REQUIRE(is_nan(op, {3, 1, 7, kNan}));
    REQUIRE(is_nan(op, {kNan, 3, 1, 7}));
    REQUIRE(is_nan(op, {3, kNan, 1, 7, 2, 5, 4}));
    REQUIRE(is_nan(op, {kNan, kNan}));
  }
  REQUIRE(all_reduced<float>(ReduceOp::max, {-INFINITY, 3, 1}) == 3);
  REQUIRE(all_reduced<float>(ReduceOp::min, {INFINITY, INFINITY}) == INFINITY);
}

TEST_CASE("P35 all replicas hold the same bits, from run to run and whatever the batch", "[collectives]") {
  const int n = GENERATE(2, 3, 7);
  CommunicatorGroup group(n);
  const std::int64_t sizes[] = {1025, 5003};
  const auto values = [](std::int64_t size, int rank) {
    std::vector<float> result;
    for (std::int64_t i = 0; i < size; ++i)
      result.push_back(0.1f * static_cast<float>(i + 1) + 0.7f * static_cast<float>(rank));
    return result;
  };
  std::deque<RankBuffers<float>> inputs, outputs;
  for (const std::int64_t size : sizes) {
    std::vector<std::vector<float>> of_ranks;
    for (int rank = 0; rank < n; ++rank) of_ranks.push_back(values(size, rank));
    inputs.emplace_back(group, of_ranks);
    outputs.emplace_back(
        group, std::vector<std::vector<float>>(of_ranks.size(), std::vector<float>(of_ranks[0].size())));
  }
  std::vector<std::vector<float>> one_by_one;
  for (std::size_t k = 0; k < 2; ++k) {
    group.communicator().all_reduce(ReduceOp::sum, inputs[k].views(), outputs[k].views(), group.streams());
    one_by_one.push_back(outputs[k][0].values());
    REQUIRE(outputs[k].all_are(one_by_one[k]));
    // In rank order, in float.
    std::vector<float> expected = values(sizes[k], 0);
    for (int rank = 1; rank < n; ++rank) {
      const auto more = values(sizes[k], rank);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += more[i];
    }
    if (TestBackend::kind() == DeviceKind::cpu) REQUIRE(one_by_one[k] == expected);
  }
  std::vector<RankViews> views;
  for (int rank = 0; rank < n; ++rank) {
    views.push_back({{inputs[0][rank].view(), inputs[1][rank].view()},
                     {outputs[0][rank].view(), outputs[1][rank].view()}});
  }
  for (int round = 0; round < 20; ++round) {
    group.run(
        round % 2 == 0 ? Drive::one_thread : Drive::thread_per_replica, views,
        [&](std::span<const RankBatch> batches) { group.communicator().all_reduce(ReduceOp::sum, batches); });
    REQUIRE(outputs[0].all_are(one_by_one[0]));
    REQUIRE(outputs[1].all_are(one_by_one[1]));
  }
}

namespace {

// A batch of three dtypes of unlike lengths, in place, and whether it comes out right.
bool reduces_mixed_batch(CommunicatorGroup& group, Drive drive, std::int64_t size, int rounds) {
  const int n = group.size();
  const auto filled = [&]<class T>(std::int64_t count, T) {
    std::vector<std::vector<T>> values;
    for (int rank = 0; rank < n; ++rank)
      values.emplace_back(static_cast<std::size_t>(count), static_cast<T>(rank));
    return values;
  };
  const RankBuffers<f16> halves(group, filled(size, f16()));
  const RankBuffers<float> floats(group, filled(size + 3, float()));
  const RankBuffers<std::uint8_t> bytes(group, filled(13, std::uint8_t()));
  const RankBuffers<std::int64_t> longs(group, filled(7, std::int64_t()));
  const RankBuffers<double> nothing(group, filled(0, double()));
  std::vector<RankViews> views;
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<TensorView> all = {halves[rank].view(), bytes[rank].view(), nothing[rank].view(),
                                         floats[rank].view(), longs[rank].view()};
    views.push_back({all, all});
  }
  group.run(drive, views, [&](std::span<const RankBatch> batches) {
    // The maximum of equal values is that value again, so that rounds can be repeated.
    group.communicator().all_reduce(ReduceOp::sum, batches);
    for (int round = 1; round < rounds; ++round) group.communicator().all_reduce(ReduceOp::max, batches);
  });
  const float sum = static_cast<float>(n * (n - 1) / 2);
  return halves.all_are(std::vector<f16>(static_cast<std::size_t>(size), f16(sum))) &&
         floats.all_are(std::vector<float>(static_cast<std::size_t>(size) + 3, sum)) &&
         bytes.all_are(std::vector<std::uint8_t>(13, static_cast<std::uint8_t>(sum))) &&
         longs.all_are(std::vector<std::int64_t>(7, static_cast<std::int64_t>(sum)));
}

}  // namespace

TEST_CASE("P25 a batch may mix dtypes and lengths, 1000 times in a row", "[collectives]") {
  const int n = GENERATE(2, 4);
  const Drive drive = GENERATE(Drive::one_thread, Drive::thread_per_replica);
  CommunicatorGroup group(n);
  REQUIRE(reduces_mixed_batch(group, drive, 1001, kSlowBuild ? 100 : 1000));
}

TEST_CASE("P25 a batch may mix half and single precision of 4194304 elements", "[collectives]") {
  CommunicatorGroup group(2);
  REQUIRE(reduces_mixed_batch(group, Drive::thread_per_replica, kSlowBuild ? 100'003 : 4'194'304, 2));
}

TEST_CASE("P32 more bytes than 32 bits count", "[collectives][large]") {
  const std::int64_t size = 300'000'000;  // 2.4 GB for each of two replicas
  if (kSlowBuild) SKIP("too slow with a sanitizer");
  const auto free_bytes = static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (TestBackend::kind() == DeviceKind::cpu && free_bytes < std::int64_t{7} << 30)
    SKIP("needs 7 GB of free memory");
  CommunicatorGroup group(2);
  const Drive drive = Drive::thread_per_replica;
  std::deque<Buffer> buffers;
  std::vector<RankViews> views;
  const std::int64_t places[] = {0, size / 2, size - 1};
  for (int rank = 0; rank < 2; ++rank) {
    const StreamRef stream = group.stream(rank);
    auto& device = stream.device_backend();
    buffers.emplace_back(static_cast<std::size_t>(size) * sizeof(double), stream);
    const TensorView view(buffers.back().data(), Shape(size), DType::f64, stream.device());
    device.kernels().fill(view, Scalar(1.0), stream.handle());
    for (std::size_t k = 0; k < 3; ++k) {
      const double value = 10.0 * static_cast<double>(k + 1) + rank;
      device.copy_from_host(static_cast<double*>(view.data) + places[k], &value, sizeof value,
                            stream.handle());
    }
    views.push_back({{view}, {view}});
  }
  group.run(drive, views, [&](std::span<const RankBatch> batches) {
    group.communicator().all_reduce(ReduceOp::sum, batches);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const StreamRef stream = group.stream(rank);
    const auto read = [&](std::int64_t i) {
      double value = 0;
      stream.device_backend().copy_to_host(
          &value, static_cast<double*>(views[static_cast<std::size_t>(rank)].outputs[0].data) + i,
          sizeof value, stream.handle());
      stream.synchronize();
      return value;
    };
    for (std::size_t k = 0; k < 3; ++k) REQUIRE(read(places[k]) == 20.0 * static_cast<double>(k + 1) + 1);
    for (const std::int64_t i : {std::int64_t{1}, size / 2 - 1, size / 2 + 1, size - 2,
                                 std::int64_t{268'435'456}, std::int64_t{268'435'455}}) {
      REQUIRE(read(i) == 2);
    }
  }
}
