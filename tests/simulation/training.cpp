#include "simulation/training.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <sys/socket.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/strategy/input.hpp>

#include "cluster/resized_cluster.hpp"
#include "detail/concat.hpp"
#include "simulation/calls.hpp"
#include "simulation/system/network.hpp"
#include "simulation/workers.hpp"

namespace lockstep::simulation {
namespace {

using detail::concat;

constexpr std::int64_t kNumWeights = 5;
constexpr std::size_t kMaxBits = 50;

/// A row's part of a gradient. All numbers are small integers, so that sums are exact in any order.
float gradient(float row, float weight, std::int64_t k) {
  return std::fmod(row * static_cast<float>(k + 1) + std::fmod(weight, 11.0f), 7.0f) - 2.0f;
}

float row_at(std::int64_t i) { return static_cast<float>(i * i % 97); }

std::uint64_t bits_of(const std::vector<float>& values) {
  std::uint64_t bits = 0xcbf29ce484222325;  // FNV-1a
  for (const float value : values) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    bits = (bits ^ word) * 0x100000001b3;
  }
  return bits;
}

/// "worker 1 (10.0.0.2:2222) was lost: its connection was closed", or "... could not go on: ...", of the
/// whole text, which begins with the call.
std::string cause_of(const std::string& text) {
  std::size_t verb = text.find(" was lost: ");
  if (verb == text.npos) verb = text.find(" could not go on: ");
  if (verb == text.npos) return text;
  const std::size_t begin = text.rfind("worker ", verb);
  return text.substr(begin, text.find_first_of(".;", text.find(": ", verb)) - begin);
}

const char* kind_of(const Error& error) {
  if (dynamic_cast<const PeerLost*>(&error) != nullptr) return "lost";
  if (dynamic_cast<const CollectiveTimeout*>(&error) != nullptr) return "timeout";
  if (dynamic_cast<const CollectiveAborted*>(&error) != nullptr) return "aborted";
  if (dynamic_cast<const ContextError*>(&error) != nullptr) return "context";
  return "other";
}

/// What all train on, in the same order whenever it is made.
auto batches(const Plan& plan) {
  constexpr std::uint64_t kSeed = 7;
  std::vector<float> rows;
  for (std::int64_t i = 0; i < std::int64_t{plan.num_steps} * plan.rows_per_step; ++i)
    rows.push_back(row_at(i));
  return Dataset::from_tensor_slices(Tensor::from<float>(rows, {static_cast<std::int64_t>(rows.size())}))
      .shuffle(plan.num_shuffled, kSeed)
      .map([](const Tensor& row) { return row + 1.0f; }, {.num_parallel_calls = 2})
      .batch(plan.rows_per_step)
      .prefetch(plan.num_read_ahead);
}

class Trainer {
  template <class F>
  auto call(const char* what, const F& f) {
    return within_limit(worker_, what, call_limit(plan_), f);
  }

 public:
  Trainer(const Plan& plan, int worker, Observed& observed, Workers& strategy)
      : plan_(plan),
        worker_(worker),
        observed_(observed),
        strategy_(strategy),
        expected_(observed.expected) {}

  /// @return whether it has come to that step; else somebody waits to join.
  bool run(std::int64_t until, WorkerReport& report) {
    const auto scope = strategy_.scope();
    if (plan_.joins) hear_past(report);
    Variable weights(Tensor::zeros({kNumWeights}),
                     {.name = "weights", .aggregation = VariableAggregation::sum});
    const auto data =
        strategy_.distribute_dataset(batches(plan_), {.auto_shard_policy = AutoShardPolicy::data});
    auto pass = data.iterator();
    Checkpoint checkpoint({{"weights", weights}});
    checkpoint.add("input", pass);
    CheckpointManager manager(checkpoint, "checkpoints",
                              {.max_to_keep = 2, .asynchronous = plan_.saves_asynchronously});
    const auto first = call("restore_latest", [&] { return manager.restore_latest(); });
    std::int64_t step = first.value_or(0);
    report.first_steps.push_back(step);
    if (first) ++observed_.num_resumes;
    check_weights(weights, step);
    bool is_awaited = false;
    while (!is_awaited && (step < until || until == plan_.num_steps)) {
      const auto batch = call("next", [&] { return pass.next_optional(); });
      if (!batch) break;
      if (step == plan_.num_steps) fail(worker_, "the dataset has more steps than the plan");
      if (const Fault* const exception = fault_at(FaultKind::exception, step))
        fail_step(weights, exception->worker);
      train_step(weights, *batch, step++);
      check_weights(weights, step);
      observed_.num_done = std::max(observed_.num_done, static_cast<int>(step));
      ++observed_.num_steps;
      const bool is_due = step % plan_.steps_per_save == 0 || step == plan_.num_steps;
      is_awaited = is_awaited_to_join();
      if (is_due || is_awaited) save(manager, step);
    }
    if (step < until && !is_awaited) fail(worker_, concat("the dataset has ended after step ", step));
    unless_full([&] { call("wait", [&] { manager.wait(); }); });
    return !is_awaited;
  }

 private:
  /// A new variable has the chief's value: so whoever has joined hears what came before.
  void hear_past(WorkerReport& report) {
    const auto num_losses = static_cast<std::int64_t>(report.losses.size());
    const Variable past(
        Tensor::from<std::int64_t>({report.num_losses_before + num_losses,
                                    report.num_starts_before + std::ssize(report.first_steps)},
                                   {2}),
        {.name = "past"});
    if (!report.first_steps.empty()) return;
    const auto numbers = call("read", [&] { return past.value().to_vector<std::int64_t>(); });
    report.num_losses_before = numbers[0] - num_losses;
    report.num_starts_before = numbers[1];
  }

  bool is_awaited_to_join() {
    if (!plan_.joins || plan_.defect == Defect::ignored_joiner) return false;
    return call("num_waiting", [&] { return strategy_.num_waiting(); }) > 0;
  }

  template <class Batch>
  void train_step(Variable& weights, const Batch& batch, std::int64_t step) {
    call("run", [&] {
      strategy_.run(
          [&](ReplicaContext& context, const Tensor& rows) {
            if (context.local_index() == 0) hang(step);
            std::this_thread::sleep_for(std::chrono::nanoseconds(plan_.step_time));
            const std::vector<float> own = weights.value().template to_vector<float>();
            std::vector<float> sums(own.size());
            for (const float row : rows.to_vector<float>())
              for (std::size_t k = 0; k < sums.size(); ++k)
                sums[k] += gradient(row, own[k], static_cast<std::int64_t>(k));
            weights.assign_sub(Tensor::from<float>(sums, {kNumWeights}));
          },
          batch);
    });
    if (worker_ == 1 && step == 2) {
      const auto& kept = expected_[2];
      const auto& next = expected_[3];
      std::vector<float> wrong = kept;
      for (std::size_t k = 0; k < wrong.size(); ++k)
        if (plan_.defect == Defect::repeated_step) wrong[k] = 2 * next[k] - kept[k];
      if (plan_.defect == Defect::skipped_step || plan_.defect == Defect::repeated_step)
        weights.assign(Tensor::from<float>(wrong, {kNumWeights}));
    }
    if (plan_.defect == Defect::lost_memory && worker_ == 1)
      std::make_unique<std::array<char, 64>>().release();
    // Sums that are rounded, and so depend on the order of the replicas.
    const auto rounded = call("run", [&] {
      return strategy_.run([&](ReplicaContext& context) {
        const float own =
            0.1f * static_cast<float>(context.replica_id_in_sync_group() + 1) / static_cast<float>(step + 3);
        return context.all_reduce(ReduceOp::sum, Tensor::full({plan_.num_summed}, own));
      });
    });
    for (const Tensor& sum : rounded) {
      std::vector<float> values = sum.to_vector<float>();
      if (plan_.defect == Defect::other_bits && worker_ == 1 && step == 2)
        values[0] = std::nextafter(values[0], 9.0f);
      expect_same(
          concat("the rounded sum of step ", step, " over ", strategy_.num_replicas_in_sync(), " replicas"),
          bits_of(values));
    }
  }

  /// The plan's fault of a replica in that step; null: there is none, or whoever has it may be lost.
  const Fault* fault_at(FaultKind kind, std::int64_t step) const {
    if (strategy_.num_replicas_in_sync() != plan_.num_workers * plan_.num_replicas) return nullptr;
    for (const Fault& fault : plan_.faults)
      if (fault.kind == kind && fault.at_step == step) return &fault;
    return nullptr;
  }

  /// As the plan has it; a job that was started anew does not hang again.
  void hang(std::int64_t step) {
    const Fault* const fault = fault_at(FaultKind::hang, step);
    if (fault == nullptr || fault->worker != worker_) return;
    if (observed_.hang != nullptr && observed_.hang->at_step >= step) return;
    observed_.hang = fault;
    ++observed_.num_hangs;
    System::current()->note(concat("worker ", worker_, " hangs"));
    std::this_thread::sleep_for(std::chrono::nanoseconds(fault->duration));
  }

  /// A replica of one worker throws while the others reduce: all hear of it, and no weight changes.
  void fail_step(Variable& weights, int thrower) {
    const std::string text = concat("a fault of worker ", thrower);
    std::string heard;
    call("run that throws", [&] {
      try {
        strategy_.run([&](ReplicaContext& context) {
          if (worker_ == thrower && context.local_index() == 0) throw OutOfRange(text);
          weights.assign_sub(Tensor::full({kNumWeights}, 1.0f));
        });
      } catch (const PeerLost&) {
        throw;
      } catch (const Error& error) {
        heard = error.what();
      }
    });
    if (heard.find(text) == heard.npos) fail(worker_, concat("of a worker's exception it hears: ", heard));
    ++observed_.num_exceptions;
  }

  void check_weights(const Variable& weights, std::int64_t step) {
    const std::vector<float> values = weights.value().to_vector<float>();
    if (values != expected_[static_cast<std::size_t>(step)])
      fail(worker_, concat("after step ", step, " the weights begin with ", values[0], ", ", values[1],
                           " instead of ", expected_[static_cast<std::size_t>(step)][0], ", ",
                           expected_[static_cast<std::size_t>(step)][1]));
  }

  void save(CheckpointManager& manager, std::int64_t step) {
    unless_full([&] {
      call("save", [&] { manager.save(step); });
      ++observed_.num_saves;
    });
  }

  /// A full disk is an error of the call or of the next one, and training goes on.
  template <class F>
  void unless_full(const F& f) {
    try {
      f();
    } catch (const PeerLost&) {
      throw;
    } catch (const Error& error) {
      if (std::string(error.what()).find("No space left on device") == std::string::npos) throw;
      System::current()->note(error.what());
      ++observed_.num_full_disks;
    }
  }

  /// Bits must be the same on all workers.
  void expect_same(const std::string& what, std::uint64_t bits) {
    if (observed_.bits.size() > kMaxBits) observed_.bits.clear();
    const auto [found, is_new] = observed_.bits.try_emplace(what, bits);
    if (found->second != bits) fail(worker_, concat(what, " is not what another worker has"));
  }

  const Plan& plan_;
  const int worker_;
  Observed& observed_;
  Workers& strategy_;
  const std::vector<std::vector<float>>& expected_;
};

}  // namespace

std::vector<std::vector<float>> undisturbed_weights(const Plan& plan) {
  std::vector<std::vector<float>> all{std::vector<float>(kNumWeights)};
  for (const Tensor& batch : batches(plan)) {
    std::vector<float> next = all.back();
    for (const float row : batch.to_vector<float>())
      for (std::int64_t k = 0; k < kNumWeights; ++k)
        next[static_cast<std::size_t>(k)] -= gradient(row, all.back()[static_cast<std::size_t>(k)], k);
    all.push_back(std::move(next));
  }
  return all;
}

void train(const Plan& plan, int worker, int restart, const std::string& leader, Observed& observed,
           WorkerReport& report) {
  System& system = *System::current();
  const WorkerStart workers(plan, worker);
  std::unique_ptr<Workers> strategy;
  const auto train_with = [&](std::unique_ptr<Workers> next) {
    if (report.cluster.empty()) report.trains_since = system.now();
    strategy = std::move(next);
    report.cluster = detail::addresses_of_workers(strategy->cluster_resolver()->cluster_spec());
    report.cluster_since = system.now();
  };
  try {
    train_with(leader.empty() ? workers.start() : workers.join(leader));
    if (!leader.empty()) ++observed.num_joins;
    bool has_remade = plan.remake_at == 0 || !leader.empty();
    while (!report.has_finished) {
      // Without whoever is lost the whole cluster is not made again.
      const bool remakes = !has_remade && report.losses.empty();
      bool has_come = false;
      try {
        has_come =
            Trainer(plan, worker, observed, *strategy).run(remakes ? plan.remake_at : plan.num_steps, report);
        if (!has_come) {
          ++observed.num_calls_of_grow;
          auto grown = workers.grow(*strategy);
          ++(grown == nullptr ? observed.num_grows_in_vain : observed.num_grows);
          if (grown != nullptr) train_with(std::move(grown));
        }
      } catch (const PeerLost& error) {
        system.note(error.what());
        report.losses.push_back({cause_of(error.what()), system.now()});
        ++observed.num_told;
        if (!plan.shrinks) throw;
        train_with(workers.shrink(*strategy));
        ++observed.num_shrinks;
      }
      report.has_finished = has_come && !remakes;
      if (!has_come || !remakes) continue;
      has_remade = true;
      strategy.reset();
      train_with(workers.start());
    }
  } catch (const Error& error) {
    system.note(error.what());
    report.error = error.what();
    report.error_kind = kind_of(error);
  }
  if (plan.defect == Defect::open_descriptor && worker == 1 && restart == 0)
    static_cast<void>(::socket(AF_INET, SOCK_STREAM, 0));
}

}  // namespace lockstep::simulation
