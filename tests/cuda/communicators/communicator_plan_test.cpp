#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/communicators/operands.hpp"
#include "support/scoped_log_sink.hpp"
#include "support/test_backend.hpp"

/// What a plan says, beside what the virtual GPUs have counted.
namespace lockstep::test {
namespace {

struct Counted {
  std::int64_t bytes_read = 0, bytes_written = 0, num_launches = 0;
};

int num_ranges = 0;  // one that begins again goes on

/// What is launched while `work` runs. Skips the test on other GPUs.
template <class Work>
Counted count(const Work& work) {
  const std::string range = "plan " + std::to_string(num_ranges++);
  using Begin = void (*)(const char*);
  using End = void (*)();
  using Read = char* (*)(const char*);
  const auto begin = reinterpret_cast<Begin>(::dlsym(RTLD_DEFAULT, "vgpu_range_begin"));
  const auto end = reinterpret_cast<End>(::dlsym(RTLD_DEFAULT, "vgpu_range_end"));
  const auto read = reinterpret_cast<Read>(::dlsym(RTLD_DEFAULT, "vgpu_counts"));
  if (begin == nullptr) SKIP("needs virtual GPUs");
  begin(range.c_str());
  work();
  end();
  const std::unique_ptr<char, void (*)(void*)> text(read(range.c_str()), std::free);
  const auto counts = nlohmann::json::parse(text.get());
  const auto& total = counts.at("total");
  Counted counted{total.at("bytes_loaded"), total.at("bytes_stored"), total.at("launches")};
  for (const auto& [direction, copies] : counts.at("copies").items())
    counted.num_launches += copies.at("launches").template get<std::int64_t>();
  return counted;
}

struct Group {
  Group(int n, std::int64_t count, DType dtype, DType result, const CommunicationOptions& options = {})
      : communicator(Communicator::create(TestBackend::devices(n), options)) {
    for (const Device& device : communicator.devices()) {
      owned.emplace_back(device);
      const StreamScope scope(owned.back());
      inputs.push_back(Tensor::full({count}, 1.0f).to(device).cast(dtype));
      outputs.push_back(Tensor::full({count}, 0.0f).to(device).cast(result));
      in.push_back(inputs.back().view());
      out.push_back(outputs.back().view());
      streams.push_back(owned.back());
    }
    synchronize();
  }
  void synchronize() const {
    for (const StreamRef& stream : streams) stream.synchronize();
  }
  Communicator communicator;
  std::vector<Stream> owned;
  std::vector<Tensor> inputs, outputs;
  std::vector<TensorView> in, out;
  std::vector<StreamRef> streams;
};

}  // namespace

TEST_CASE("a plan has what the virtual GPUs count", "[cuda]") {
  const int n = GENERATE(1, 2, 3, 4);
  if (TestBackend::num_devices() < n) SKIP("needs " << n << " devices");
  const DType dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16, DType::f8e4m3, DType::i8,
                               DType::u16, DType::i32);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min);
  const DType result = reduced_dtype(op, dtype);
  constexpr std::int64_t kCount = 96;
  Group group(n, kCount, dtype, result);
  const std::int64_t size_bytes = kCount * static_cast<std::int64_t>(size_of(dtype));
  const std::vector<CommunicationOptions> all{
      {},
      {.implementation = CommunicationImplementation::nccl},
      {.implementation = CommunicationImplementation::nccl, .deterministic = true},
      {.deterministic = true}};
  for (const CommunicationOptions& options : all) {
    const auto call = [&] {
      group.communicator.all_reduce(op, group.in, group.out, group.streams, options);
      group.synchronize();
    };
    call();  // what is made once
    const CommunicationPlan plan =
        group.communicator.plan(op, dtype, size_bytes, options, /*one_thread=*/true);
    const Counted counted = count(call);
    CAPTURE(plan, counted.bytes_read, counted.bytes_written, counted.num_launches);
    REQUIRE(counted.num_launches == plan.num_launches);
    const std::int64_t written = n * plan.bytes_written;
    const std::int64_t read = n * plan.bytes_read;
    const bool is_peer =
        plan.path == CommunicationPath::peer_one_shot || plan.path == CommunicationPath::peer_two_shot;
    if (is_peer) {  // it counts its calls, and looks again at what has not come yet
      constexpr int kControlBytes = 8;
      REQUIRE(counted.bytes_written == written + kControlBytes * n);
      REQUIRE(counted.bytes_read > read);
    } else {
      REQUIRE(counted.bytes_written == written);
      REQUIRE(counted.bytes_read == read);
    }
  }
}

TEST_CASE("a plan has what the virtual GPUs count of long calls", "[cuda]") {
  const int n = GENERATE(2, 4);
  if (TestBackend::num_devices() < n) SKIP("needs " << n << " devices");
  constexpr std::int64_t kCount = 96 << 10;
  Group group(n, kCount, DType::f32, DType::f32);
  const auto implementation =
      GENERATE(CommunicationImplementation::automatic, CommunicationImplementation::nccl);
  const CommunicationOptions options{.implementation = implementation};
  const auto call = [&] {
    group.communicator.all_reduce(ReduceOp::sum, group.in, group.out, group.streams, options);
    group.synchronize();
  };
  const CommunicationPlan plan =
      group.communicator.plan(ReduceOp::sum, DType::f32, kCount * 4, options, true);
  const Counted counted = count(call);
  CAPTURE(plan, counted.bytes_read, counted.bytes_written);
  REQUIRE(counted.num_launches == plan.num_launches);
  const bool is_peer =
      plan.path == CommunicationPath::peer_one_shot || plan.path == CommunicationPath::peer_two_shot;
  REQUIRE(counted.bytes_written == n * (plan.bytes_written + (is_peer ? 8 : 0)));
}

TEST_CASE("a plan has what the virtual GPUs count of batches in windows", "[cuda]") {
  const int n = GENERATE(1, 2, 3);
  if (TestBackend::num_devices() < n) SKIP("needs " << n << " devices");
  const int num_tensors = GENERATE(2, 9);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::max);
  const bool symmetric_windows = GENERATE(false, true);
  const CommunicationOptions options{.implementation = CommunicationImplementation::nccl,
                                     .communicator = {.symmetric_windows = symmetric_windows}};
  constexpr std::int64_t kCount = 96, kStride = kCount + 32;  // what lies behind each other is one tensor
  Group group(n, num_tensors * kStride, DType::f32, DType::f32, options);
  std::vector<std::vector<TensorView>> views(static_cast<std::size_t>(n));
  std::vector<RankBatch> batches;
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int t = 0; t < num_tensors; ++t)
      views[r].push_back(group.inputs[r].slice(t * kStride, t * kStride + kCount).view());
    batches.push_back({rank, group.streams[r], views[r], views[r]});
  }
  const auto call = [&] {
    group.communicator.all_reduce(op, batches, options);
    group.synchronize();
  };
  call();  // what is made once
  const CommunicationPlan plan = group.communicator.plan(op, views[0], options, /*one_thread=*/true);
  const Counted counted = count(call);
  CAPTURE(plan, counted.bytes_read, counted.bytes_written, counted.num_launches);
  REQUIRE(counted.num_launches == plan.num_launches);
  REQUIRE(counted.bytes_read == n * plan.bytes_read);
  REQUIRE(counted.bytes_written == n * plan.bytes_written);
  REQUIRE(plan.in_window == (symmetric_windows && plan.path == CommunicationPath::nccl));
}

TEST_CASE("the plan of a batch has what the virtual GPUs count", "[cuda]") {
  using Tensors = std::vector<std::pair<DType, std::int64_t>>;
  const int n = GENERATE(1, 2, 4);
  if (TestBackend::num_devices() < n) SKIP("needs " << n << " devices");
  const Tensors few{{DType::f32, 96}, {DType::f32, 32}, {DType::f32, 64}};
  const Tensors mixed{{DType::f32, 96},  {DType::i32, 40}, {DType::f16, 64},
                      {DType::bf16, 16}, {DType::f16, 24}, {DType::u16, 8},
                      {DType::f32, 0},   {DType::f64, 8},  {DType::f32, 40}};
  const Tensors many(150, {DType::f32, 16}),
      mixed_sizes{{DType::f32, 64}, {DType::f32, 1050000}, {DType::f32, 32}};
  const Tensors& tensors = *std::vector{&few, &mixed, &many, &mixed_sizes}[GENERATE(0U, 1U, 2U, 3U)];
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min);
  Communicator communicator = Communicator::create(TestBackend::devices(n));
  std::vector<Stream> streams;
  std::vector<std::vector<Tensor>> owned;
  std::vector<std::vector<TensorView>> in, out;
  for (const Device& device : communicator.devices()) {
    const StreamScope scope(streams.emplace_back(device));
    owned.emplace_back(), in.emplace_back(), out.emplace_back();
    for (const auto& [dtype, count] : tensors) {
      owned.back().push_back(Tensor::ones({count}, dtype, device));
      in.back().push_back(owned.back().back().view());
      owned.back().push_back(Tensor::zeros({count}, reduced_dtype(op, dtype), device));
      out.back().push_back(owned.back().back().view());
    }
  }
  std::vector<RankBatch> batches;
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    batches.push_back({rank, streams[r], in[r], out[r]});
  }
  const std::vector<CommunicationOptions> all{
      {},
      {.implementation = CommunicationImplementation::nccl},
      {.implementation = CommunicationImplementation::nccl, .deterministic = true}};
  for (const CommunicationOptions& options : all) {
    const auto call = [&] {
      communicator.all_reduce(op, batches, options);
      for (const Stream& stream : streams) stream.synchronize();
    };
    call();  // what is made once
    const CommunicationPlan plan = communicator.plan(op, in[0], options, /*one_thread=*/true);
    const Counted counted = count(call);
    CAPTURE(n, op, plan, counted.bytes_read, counted.bytes_written, counted.num_launches);
    REQUIRE(plan.num_tensors == static_cast<int>(tensors.size()));
    REQUIRE(counted.num_launches == plan.num_launches);
    const bool is_peer =
        plan.path == CommunicationPath::peer_one_shot || plan.path == CommunicationPath::peer_two_shot;
    constexpr int kControlBytes = 8;
    REQUIRE(counted.bytes_written ==
            n * plan.bytes_written + (is_peer ? kControlBytes * n * plan.num_packs : 0));
    if (!is_peer) REQUIRE(counted.bytes_read == n * plan.bytes_read);
  }
}

TEST_CASE("the plan of a strategy's batch is logged", "[cuda]") {
  const int n = std::min(2, TestBackend::num_devices());
  ::setenv("LOCKSTEP_LOG", "plan", 1);
  std::vector<std::string> messages;
  {
    const ScopedLogSink sink([&](std::string_view message) { messages.emplace_back(message); });
    MirroredStrategy strategy(TestBackend::devices(n));
    ::unsetenv("LOCKSTEP_LOG");
    for (int call = 0; call < 2; ++call)
      strategy.run([](ReplicaContext& ctx) {
        const std::vector<Tensor> gradients(3, Tensor::ones({32}, DType::f32, ctx.device()));
        static_cast<void>(ctx.all_reduce(ReduceOp::sum, gradients, {.label = "gradients"}));
      });
  }
  REQUIRE(messages.size() == 1);
  REQUIRE(messages[0].starts_with("plan: gradients: all_reduce(sum) of 3 tensors, 384 bytes, over " +
                                  std::to_string(n) + " ranks: "));
  REQUIRE(messages[0].find(" packs; each rank reads ") != std::string::npos);
}

TEST_CASE("each distinct plan is logged once", "[cuda]") {
  ::setenv("LOCKSTEP_LOG", "other,plan", 1);
  std::vector<std::string> messages;
  {
    const ScopedLogSink sink([&](std::string_view message) { messages.emplace_back(message); });
    Group group(1, 8, DType::f32, DType::f32);
    const CommunicationOptions options{.label = "loss"};
    for (int call = 0; call < 2; ++call)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max})
        group.communicator.all_reduce(op, group.in, group.out, group.streams, options);
    ::unsetenv("LOCKSTEP_LOG");
    Group silent(1, 8, DType::f32, DType::f32);
    silent.communicator.all_reduce(ReduceOp::sum, silent.in, silent.out, silent.streams);
    silent.synchronize();
    group.synchronize();
    REQUIRE(messages.size() == 2);
    REQUIRE(messages[0] ==
            "plan: loss: " + group.communicator.plan(ReduceOp::sum, DType::f32, 32).to_string());
    REQUIRE(messages[1].starts_with("plan: loss: all_reduce(max) of 32 bytes of float32 over 1 ranks: "));
  }
}

}  // namespace lockstep::test
