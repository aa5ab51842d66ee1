// Examples of the documentation: strategies, their contexts, and what a step may do.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of strategies are right", "[docs]") {
  //! [MirroredStrategy, Strategy]
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});  // without a list: all GPUs
  ls::Tensor batch = ls::Tensor::arange(4);
  auto parts = strategy.run([&](ls::ReplicaContext& context) {
    const int id = context.replica_id_in_sync_group();
    return ls::sum(batch.slice(2 * id, 2 * id + 2));  // 0 + 1, and 2 + 3
  });
  int total = strategy.reduce(ls::ReduceOp::sum, parts).item<int>();  // 6
  //! [MirroredStrategy, Strategy]
  CHECK(total == 6);

  //! [OneDeviceStrategy]
  ls::OneDeviceStrategy alone("CPU:0");  // the same program on one device
  auto number = alone.run([](ls::ReplicaContext& context) { return context.num_replicas_in_sync(); });
  //! [OneDeviceStrategy]
  CHECK(number[0] == 1);

  //! [CentralStorageStrategy]
  ls::CentralStorageStrategy central({"CPU:1", "CPU:2"}, "CPU:0");  // two replicas; variables on CPU:0
  ls::Variable table =
      central.make_variable(ls::Tensor::zeros({2}), {.aggregation = ls::VariableAggregation::sum});
  central.run([&] { table.assign_add(ls::Tensor::ones({2})); });  // added up on CPU:0
  //! [CentralStorageStrategy]
  CHECK(table.value().to_vector<float>() == std::vector<float>{2, 2});

  //! [MultiWorkerMirroredStrategy, WorkerOptions]
  ls::MultiWorkerMirroredStrategy workers(ls::cluster::from_environment(), {.deterministic = true},
                                          {.devices = {"CPU:0", "CPU:1"}});
  auto ids = workers.run([](ls::ReplicaContext& context) {  // over the replicas of all workers
    return context.all_reduce(ls::ReduceOp::sum, context.replica_id_in_sync_group());
  });
  //! [MultiWorkerMirroredStrategy, WorkerOptions]
  CHECK(ids[0].item<int>() == 1);

  //! [RunOptions]
  auto same = strategy.run(ls::RunOptions{}, [] { return 1; });  // accepted, and without effect
  //! [RunOptions]
  CHECK(same[1] == 1);

  //! [StrategyScope]
  std::optional<ls::Variable> weights;
  {
    ls::StrategyScope scope = strategy.scope();  // cross-replica context, to the block's end
    weights.emplace(ls::Tensor::zeros({3}));     // so the variable is the strategy's
  }
  //! [StrategyScope]
  CHECK(strategy.local_results(*weights).size() == 2);
}

TEST_CASE("the examples of the lower-level interface are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [StrategyExtended, Ungrouped]
  ls::StrategyExtended& extended = strategy.extended();
  ls::Variable weights = strategy.make_variable(ls::Tensor::ones({2}));
  auto gradients = strategy.run([] { return ls::Tensor::full({2}, 0.5f); });
  auto summed = extended.reduce_to(ls::ReduceOp::sum, gradients, weights);  // on the variable's devices
  auto norms = extended.update(
      ls::ungrouped, weights,
      [](ls::Tensor& local, const ls::Tensor& gradient) {  // for each component
        local.sub_(gradient * 0.1);
        return ls::sum(local * local);
      },
      summed);  // one result for each, side by side
  //! [StrategyExtended, Ungrouped]
  CHECK(norms.size() == 2);
  CHECK(weights.value().to_vector<float>() == std::vector<float>{0.9f, 0.9f});

  //! [MultiStepContext]
  auto batches = strategy.distribute_dataset(ls::Dataset::range(12).batch(4)).iterator();
  ls::MultiStepContext last = extended.run_steps_on_iterator(
      [&](ls::MultiStepContext& steps, const ls::PerReplica<ls::Tensor>& batch) {
        auto sums = strategy.run([](const ls::Tensor& rows) { return ls::sum(rows); }, batch);
        steps.set_last_step_output("sum", sums, ls::ReduceOp::sum);
      },
      batches, /*iterations=*/3);
  ls::Tensor of_last_step = last.last_step_outputs().at("sum");  // 8 + 9 + 10 + 11
  //! [MultiStepContext]
  CHECK(of_last_step.item<std::int64_t>() == 38);
}

TEST_CASE("the examples of replica contexts are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [ReplicaContext]
  auto results = strategy.run([](ls::ReplicaContext& context) {
    ls::Tensor own = ls::Tensor::full({2}, context.replica_id_in_sync_group());
    auto [sum, most] = context.all_reduce(ls::ReduceOp::sum, std::pair(own, own * 2));  // one call, one batch
    ls::Tensor rows = context.all_gather(own, /*axis=*/0);                              // 0, 0, 1, 1
    auto mean = [](ls::Strategy& s, ls::PerReplica<ls::Tensor> all) {
      return s.reduce(ls::ReduceOp::mean, all);
    };
    return std::tuple(sum, most, rows, context.merge_call(mean, own.cast(ls::DType::f32)));
  });
  //! [ReplicaContext]
  CHECK(std::get<0>(results)[1].to_vector<int>() == std::vector<int>{1, 1});
  CHECK(std::get<2>(results)[0].to_vector<int>() == std::vector<int>{0, 0, 1, 1});
  CHECK(std::get<3>(results)[1].to_vector<float>() == std::vector<float>{0.5f, 0.5f});

  //! [Work]
  auto overlapped = strategy.run([](ls::ReplicaContext& context) {
    ls::Tensor gradient = ls::Tensor::ones({1000});
    ls::Work work = context.start_all_reduce(ls::ReduceOp::sum, gradient);
    ls::Tensor other = ls::sqrt(ls::Tensor::full({1000}, 4.0f));  // beside the reduction
    return work.wait() + other;                                   // later work comes after it
  });
  //! [Work]
  CHECK(overlapped[0].slice(0, 1).item<float>() == 4);

  //! [PackedReduction]
  auto reduced = strategy.run([](ls::ReplicaContext& context) {
    ls::PackedReduction reduction(context, ls::ReduceOp::sum, {.bytes_per_pack = 1 << 20});
    for (int layer = 3; layer > 0; --layer)  // as the backward pass gives them
      reduction.add(ls::Tensor::full({4}, float(layer)));
    return reduction.wait();  // in the order in which they were added
  });
  //! [PackedReduction]
  CHECK(reduced[0][0].to_vector<float>() == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("the example of functions is right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [Function, FunctionOptions]
  ls::Variable steps =
      strategy.make_variable(ls::Tensor::scalar(0.0f), {.aggregation = ls::VariableAggregation::mean});
  auto count = strategy.function(
      [&](const ls::Tensor& x) {
        steps.assign_add(ls::mean(x));
        return ls::sum(x * x);
      },
      ls::FunctionOptions{.max_traces = 4});
  ls::PerReplica<ls::Tensor> x = strategy.run([] { return ls::Tensor::ones({3}); });
  for (int i = 0; i < 10; ++i) count(x);  // on GPUs a launch of one graph each
  int signatures = count.num_traces();    // 1: the shapes were always the same
  //! [Function, FunctionOptions]
  CHECK(signatures == 1);
  CHECK(steps.value().item<float>() == 10);
}

TEST_CASE("the example of reports is right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [Report, GroupReport, RankReport, ReportedCall, trace::Region]
  const ls::trace::Region region("train");
  strategy.run([](ls::ReplicaContext& context) {
    return context.all_reduce(ls::ReduceOp::sum, 1.0f, {.label = "loss"});
  });
  const ls::Report report = strategy.report();  // from any thread, also while a run is stuck
  std::string stuck;
  for (const ls::GroupReport& group : report.groups)
    for (const ls::RankReport& rank : group.ranks)
      if (rank.is_missing) stuck += rank.label;
  const ls::ReportedCall last = report.groups[0].ranks[1].calls.back();
  const std::string text =
      last.to_string();  // call 0, all_reduce(sum) of [] float32, 'loss', in 'train', ...
  //! [Report, GroupReport, RankReport, ReportedCall, trace::Region]
  CHECK(stuck.empty());
  CHECK(text.starts_with("call 0, all_reduce(sum) of [] float32, 'loss', in 'train', completed"));
}

TEST_CASE("the example of recordings is right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  //! [trace::Summary, trace::SummaryRow]
  ls::trace::start();
  strategy.run([](ls::ReplicaContext& context) { return context.all_reduce(ls::ReduceOp::sum, 1.0f); });
  ls::trace::stop();
  ls::trace::Summary summary = ls::trace::summary();  // std::cout << summary prints a table
  std::chrono::nanoseconds waiting{};                 // for the slowest replica
  for (const ls::trace::SummaryRow& row : summary.rows)
    if (row.kind == "collective") waiting += row.waiting;
  //! [trace::Summary, trace::SummaryRow]
  CHECK(summary.num_spans > 0);
  CHECK(waiting <= 2 * summary.duration);
}
