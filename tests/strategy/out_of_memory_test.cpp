// Operations that change state are all or nothing, also when memory runs out: the n-th request fails, for
// every n.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/failing_memory.hpp"
#include "support/temporary_directory.hpp"

namespace ls = lockstep;
using ls::Tensor;
using ls::Variable;
using ls::test::FailingMemory;
using ls::test::Memory;
using Aggregation = ls::VariableAggregation;
using Synchronization = ls::VariableSynchronization;

namespace {

using Values = std::vector<std::vector<double>>;

/// The elements of all components of all variables.
Values values_of(const std::vector<Variable>& variables) {
  Values values;
  for (const Variable& variable : variables)
    for (const Tensor& component : variable.strategy().local_results(variable))
      values.push_back(component.cast(ls::DType::f64).to_vector<double>());
  return values;
}

std::vector<Tensor> snapshots_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> held;
  for (const Variable& variable : variables)
    for (const Tensor& component : variable.strategy().local_results(variable)) held.push_back(component);
  return held;
}

/// What must stay as it was.
using State = std::function<Values()>;

/// Lets the first request fail in `act`, then the second, and so on until none does.
/// @param held  of these somebody holds snapshots. @param in_run  a run may fail after the operation in it,
/// which then has been done as a whole.
void exhaust(Memory memory, const std::vector<Variable>& held, const State& state,
             const std::function<void()>& act, bool in_run = false) {
  const Values before = state();
  std::vector<Values> partial;
  std::optional<std::string> unexpected;
  bool fails = true;
  std::int64_t n = 0;
  while (fails && !unexpected) {
    ++n;
    REQUIRE(n < 20'000);
    const std::vector<Tensor> snapshots = snapshots_of(held);
    ls::trim_memory("CPU:0");
    bool threw = false;
    {
      const FailingMemory failing(memory, n);
      try {
        act();
      } catch (const ls::OutOfMemory&) {
        threw = true;
      } catch (const std::bad_alloc&) {
        threw = true;
      } catch (const std::exception& error) {
        unexpected = error.what();
      }
      fails = FailingMemory::has_failed();
    }
    if (threw && state() != before) partial.push_back(state());
    if (!threw) break;
  }
  CAPTURE(n, fails, unexpected.value_or(""));
  REQUIRE_FALSE(unexpected);
  REQUIRE(n > 1);
  const Values after = state();
  REQUIRE(after != before);
  if (in_run && memory == Memory::heap) {
    for (const Values& values : partial) REQUIRE(values == after);
  } else {
    REQUIRE(partial == std::vector<Values>());
  }
}

std::unique_ptr<ls::Strategy> make_strategy(int kind) {
  switch (kind) {
    case 0: return std::make_unique<ls::MirroredStrategy>(std::vector<ls::Device>{"CPU:0", "CPU:1"});
    case 1: return std::make_unique<ls::MirroredStrategy>(std::vector<ls::Device>{"CPU:0"});
    case 2:
      return std::make_unique<ls::CentralStorageStrategy>(std::vector<ls::Device>{"CPU:0", "CPU:1"}, "CPU:2");
    case 3: return std::make_unique<ls::OneDeviceStrategy>(ls::Device("CPU:0"));
    default: return nullptr;
  }
}

/// In the strategy's scope, or outside every one.
template <class F>
auto in_scope(ls::Strategy* strategy, F make) {
  if (strategy == nullptr) return make();
  const auto scope = strategy->scope();
  return make();
}

Tensor ones(std::int64_t n = 3) { return Tensor::ones({n, 1}); }

}  // namespace

TEST_CASE("the n-th request fails", "[memory][host]") {
  const auto fails = [] {  // not by new-expressions, which compilers may leave out
    try {
      ::operator delete(::operator new(1));
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  bool first = false, second = false, third = false;
  {
    const FailingMemory failing(Memory::heap, 2);
    first = fails(), second = fails(), third = fails();
  }
  REQUIRE((!first && second && !third && FailingMemory::has_failed()));
}

TEST_CASE("writes outside replicas are all or nothing when memory runs out", "[memory][strategy][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 3, 4);
  const bool is_held = GENERATE(true, false);
  CAPTURE(memory == Memory::heap, kind, is_held);
  const auto strategy = make_strategy(kind);
  const auto aggregation = GENERATE(Aggregation::none, Aggregation::sum);
  const auto synchronization = GENERATE(Synchronization::on_write, Synchronization::on_read);
  const std::vector<Variable> variables{in_scope(strategy.get(), [&] {
    return Variable(ones() * 5.0f, {.synchronization = synchronization, .aggregation = aggregation});
  })};
  Variable variable = variables[0];
  const State state = [&] { return values_of(variables); };
  const std::vector<Variable> held = is_held ? variables : std::vector<Variable>();
  const Tensor value = ones() * 7.0f, odd = Tensor::from<float>({1, 9, 2, 9, 4, 9}, {3, 2}).narrow(1, 0, 1);
  const ls::IndexedSlices rows{ones(2), Tensor::from<std::int64_t>({2, 0}, {2}), {3, 1}};
  // Writes take the heap's memory always, the device's where there is something to make.
  const bool may_fail = memory == Memory::heap || is_held;
  if (may_fail) exhaust(memory, held, state, [&] { variable.assign(value); });
  if (may_fail) exhaust(memory, held, state, [&] { variable.assign(2.0f); });
  exhaust(memory, held, state, [&] { variable.assign(odd); });
  const bool is_split = synchronization == Synchronization::on_read && aggregation == Aggregation::sum &&
                        (kind == 0 || kind == 1);
  if (is_split) return;
  if (may_fail) exhaust(memory, held, state, [&] { variable.assign_add(value); });
  exhaust(memory, held, state, [&] { variable.assign_sub(1.0f); });
  if (synchronization == Synchronization::on_read) return;
  exhaust(memory, held, state, [&] { variable.scatter_add(rows); });
}

TEST_CASE("writes in replicas are all or nothing when memory runs out", "[memory][strategy][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 3);
  const bool is_held = GENERATE(true, false);
  CAPTURE(memory == Memory::heap, kind, is_held);
  const auto strategy = make_strategy(kind);
  const auto aggregation = GENERATE(Aggregation::sum, Aggregation::mean, Aggregation::only_first_replica);
  const std::vector<Variable> variables{
      in_scope(strategy.get(), [&] { return Variable(ones() * 5.0f, {.aggregation = aggregation}); })};
  Variable variable = variables[0];
  const State state = [&] { return values_of(variables); };
  const std::vector<Variable> held = is_held ? variables : std::vector<Variable>();
  const auto in_run = [&](const std::function<void(const Tensor&)>& write) {
    const auto step = [&] { strategy->run([&](ls::ReplicaContext&) { write(ones() * 3.0f); }); };
    step();  // the replicas' threads are started
    exhaust(memory, held, state, step, true);
  };
  in_run([&](const Tensor& value) { variable.assign_add(value); });
  in_run([&](const Tensor& value) { variable.assign_sub(value); });
  in_run([&](const Tensor& value) {
    variable.scatter_add({value, Tensor::from<std::int64_t>({2, 0, 1}, {3}), {3, 1}});
  });
}

TEST_CASE("an update is all or nothing when memory runs out", "[memory][strategy][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 3, 4);
  const auto strategy = make_strategy(kind);
  const std::vector<Variable> variables{in_scope(strategy.get(), [] { return Variable(ones()); })};
  auto& extended = variables[0].strategy().extended();
  const State state = [&] { return values_of(variables); };
  exhaust(memory, {}, state, [&] {
    extended.update(variables[0], [](Tensor& local) {
      local.add_(1.0f);
      local = local * 2.0f;
    });
  });
}

TEST_CASE("a step of an optimizer is all or nothing when memory runs out", "[memory][optim][host]") {
  namespace optim = ls::optim;
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2);
  const int which = GENERATE(0, 1, 2, 3);
  const bool is_new = GENERATE(true, false), is_held = GENERATE(true, false), in_run = GENERATE(true, false);
  const bool is_sparse = GENERATE(false, true);
  CAPTURE(memory == Memory::heap, kind, which, is_new, is_held, in_run, is_sparse);
  const auto strategy = make_strategy(kind);
  std::unique_ptr<optim::Optimizer> optimizer;
  switch (which) {
    case 0: optimizer = std::make_unique<optim::SGD>(optim::SGDOptions{.global_clip_norm = 1.0}); break;
    case 1: optimizer = std::make_unique<optim::Momentum>(optim::MomentumOptions{.momentum = 0.5}); break;
    case 2: optimizer = std::make_unique<optim::Adam>(); break;
    default: optimizer = std::make_unique<optim::AdamW>();
  }
  const std::vector<Variable> variables = in_scope(strategy.get(), [] {
    return std::vector<Variable>{Variable(ones() * 5.0f, {.name = "w"}), Variable(ones(2), {.name = "b"}),
                                 Variable(ones().cast(ls::DType::f16), {.name = "h"})};
  });
  const auto apply = [&] {
    std::vector<optim::GradientAndVariable> list;
    for (const Variable& variable : variables) {
      const Tensor gradient = Tensor::ones(variable.shape(), variable.dtype());
      if (is_sparse)
        list.push_back({ls::IndexedSlices{gradient, Tensor::arange(gradient.shape()[0], ls::DType::i64),
                                          variable.shape()},
                        variable});
      else
        list.push_back({gradient, variable});
    }
    optimizer->apply_gradients(list);
  };
  const std::function<void()> step = in_run ? std::function<void()>([&] { strategy->run(apply); }) : apply;
  if (in_run) strategy->run([] {});
  if (!is_new) step();
  const auto all = [&] {
    std::vector<Variable> owned = variables;
    for (const auto& [name, variable] : optimizer->variables()) owned.push_back(variable);
    return owned;
  };
  const State state = [&] { return values_of(all()); };
  exhaust(memory, is_held ? all() : std::vector<Variable>(), state, step, in_run);
  REQUIRE(optimizer->iterations().value().item<std::int64_t>() == (is_new ? 1 : 2));
  step();
  REQUIRE(optimizer->iterations().value().item<std::int64_t>() == (is_new ? 2 : 3));
}

TEST_CASE("an accumulator adds all gradients or none when memory runs out", "[memory][optim][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const auto dtype = GENERATE(ls::DType::f32, ls::DType::f16);
  const std::vector<Variable> variables{Variable(ones().cast(dtype)), Variable(ones(2).cast(dtype))};
  ls::optim::GradientAccumulator accumulator(3);
  std::optional<std::vector<ls::optim::GradientAndVariable>> total;
  const auto add = [&] {
    std::vector<ls::optim::GradientAndVariable> list;
    for (const Variable& variable : variables) list.push_back({variable.value().clone(), variable});
    total = accumulator.add(list);
  };
  // Only totals show what was added.
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 3; ++k) {
      for (std::int64_t n = 1;; ++n) {
        ls::trim_memory("CPU:0");
        const FailingMemory failing(memory, n);
        try {
          add();
          break;
        } catch (const ls::OutOfMemory&) {
        } catch (const std::bad_alloc&) {
        }
      }
      REQUIRE(total.has_value() == (k == 2));
    }
    for (const auto& [gradient, variable] : *total) {
      const std::vector<double> sums =
          gradient.value()->tensors()[0].cast(ls::DType::f64).to_vector<double>();
      REQUIRE(sums == std::vector<double>(sums.size(), 3.0));
    }
    if (round == 0) total.reset();  // later it is held while the next is added up
  }
}

TEST_CASE("metrics count whole updates when memory runs out", "[memory][metrics][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 4);
  CAPTURE(memory == Memory::heap, kind);
  const auto strategy = make_strategy(kind);
  auto mean = in_scope(strategy.get(), [] { return ls::metrics::Mean("loss"); });
  std::vector<Variable> sums;
  for (const auto& [name, variable] : mean.variables()) sums.push_back(variable);
  const State state = [&] { return values_of(sums); };
  const auto update = [&] {
    const auto count = [&] { mean.update(ones() * 2.0f, ones()); };
    if (strategy == nullptr) return count();
    strategy->run([&](ls::ReplicaContext& context) {
      // Where replicas write their own sums, a failure of one concerns it alone.
      if (kind == 2 || context.replica_id_in_sync_group() == 0) count();
    });
  };
  update();
  for (const bool is_held : {false, true}) {
    const std::vector<Variable> held = is_held ? sums : std::vector<Variable>();
    exhaust(memory, held, state, update, strategy != nullptr);
    REQUIRE(mean.result().item<double>() == 2.0);
    exhaust(memory, held, state, [&] { mean.reset(); });
    update();
  }
}

TEST_CASE("a checkpoint restores all variables or none when memory runs out", "[memory][checkpoint][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 4);
  const bool is_held = GENERATE(false, true);
  CAPTURE(memory == Memory::heap, kind, is_held);
  const ls::test::TemporaryDirectory directory;
  const auto path = directory / "f";
  const auto strategy = make_strategy(kind);
  std::vector<Variable> variables = in_scope(strategy.get(), [] {
    return std::vector<Variable>{
        Variable(ones()), Variable(ones(5)),
        Variable(ones(2), {.synchronization = Synchronization::on_read, .aggregation = Aggregation::sum})};
  });
  ls::Checkpoint checkpoint({{"a", variables[0]}, {"b", variables[1]}, {"c", variables[2]}});
  for (Variable& variable : variables) variable.assign(9.0f);
  checkpoint.save(path);
  for (Variable& variable : variables) variable.assign(4.0f);
  exhaust(
      memory, is_held ? variables : std::vector<Variable>(), [&] { return values_of(variables); },
      [&] { checkpoint.restore(path); });
  REQUIRE(variables[1].value().to_vector<float>() == std::vector<float>(5, 9.0f));
}

TEST_CASE("a variable is made or not when memory runs out", "[memory][strategy][host]") {
  const auto memory = GENERATE(Memory::device, Memory::heap);
  const int kind = GENERATE(0, 1, 2, 3);
  const bool in_run = GENERATE(false, true);
  CAPTURE(memory == Memory::heap, kind, in_run);
  const auto strategy = make_strategy(kind);
  std::vector<Variable> made;
  const State state = [&] { return values_of(made); };
  made.reserve(1000);
  strategy->run([] {});
  const auto make = [&] {
    if (in_run)
      made.push_back(strategy->run([] { return Variable(ones(), {.name = "in_run"}); }));
    else
      made.push_back(strategy->make_variable(ones()));
  };
  exhaust(memory, {}, state, make);
  REQUIRE(made.size() == 1);
  made[0].assign(2.0f);
  for (const std::vector<double>& component : state()) REQUIRE(component == std::vector<double>(3, 2.0));
}
