// What training code relies on: optimizers, slots, clipping, metrics. Results of Keras 3, of Keras 2, current
// and legacy, and of compat.v1 are compared with one and the same program.
#include <lockstep/metrics/accuracy.hpp>
#include <lockstep/metrics/mean.hpp>
#include <lockstep/metrics/sum.hpp>
#include <lockstep/metrics/top_k.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamw.hpp>
#include <lockstep/optim/momentum.hpp>
#include <lockstep/optim/sgd.hpp>

#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

using Gradients = std::vector<optim::GradientAndVariable>;

/// apply_gradients in run; pairs() gives this replica's gradients.
template <class Pairs>
void step(Strategy& s, optim::Optimizer& optimizer, Pairs pairs) {
  s.run([&] { optimizer.apply_gradients(pairs()); });
}

Tensor one_more() { return id_tensor() + 1.0; }

Json both(const Variable& a, const Variable& b) {
  std::vector<Tensor> all = a.strategy().local_results(a);
  for (const Tensor& component : b.strategy().local_results(b)) all.push_back(component);
  return encode(all);
}

/// Metrics count in float64, so their numbers are compared without a dtype.
double number(const Tensor& result) { return result.cast(DType::f64).item<double>(); }

}  // namespace

GOLDEN("optimizer-sgd") {
  Replicas s(2);
  const optim::SGDOptions options{.learning_rate = 0.1};
  const auto one_step = [&](Strategy& strategy, auto gradient) {
    const Variable w = variable(strategy, 1.0);
    optim::SGD o(options);
    step(strategy, o, [&] { return Gradients{{gradient(), w}}; });
    return component_list(w);
  };
  const Variable w = variable(s, 1.0);
  optim::SGD o(options);
  const auto pairs = [&] { return Gradients{{one_more(), w}}; };
  const auto counter = [&] { return static_cast<int>(o.iterations().value().item<std::int64_t>()); };
  step(s, o, pairs);
  r("after one step", [&] { return component_list(w); });
  r("counter", counter);
  step(s, o, pairs);
  r("after two steps", [&] { return component_list(w); });
  r("counter after two", counter);
  r("counter's components", [&] { return component_list(o.iterations()); });
  r("counter's aggregation", [&] {
    return o.iterations().aggregation() == VariableAggregation::only_first_replica ? "ONLY_FIRST_REPLICA"
                                                                                   : "another";
  });
  {
    const auto scope = s.scope();
    const auto in_scope = [&](const optim::Gradient& gradient) {
      const Variable v = variable(s, 1.0);
      optim::SGD p(options);
      p.apply_gradients({{gradient, v}});
      return component_list(v);
    };
    r("in X, plain gradient", [&] { return in_scope(f32(1)); });
    r("in X, mirrored gradient", [&] { return in_scope(mirrored_value({f32(1), f32(1)})); });
    r("Keras 2: in X", [&] { return in_scope(f32(1)); });
    r("Keras 2 legacy: in X", [&] { return in_scope(f32(1)); });
  }
  for (const std::string keras : {"Keras 2", "Keras 2 legacy"}) {
    r(keras + ": after one step", [&] { return one_step(s, one_more); });
    r(keras + ": counter", [&] { return counter() - 1; });
  }
  r("compat.v1", [&] { return one_step(s, one_more); });
  r("in D", [&] {
    const Variable u(f32(1));
    optim::SGD p(options);
    p.apply_gradients({{f32(2), u}});
    return component_list(u);
  });
  Replicas single(1);
  r("one replica", [&] { return one_step(single, [] { return f32(2); }); });
}

GOLDEN("optimizer-gradients-missing") {
  Replicas s(2);
  const optim::SGDOptions options{.learning_rate = 0.1};
  for (const std::string key : {"", "Keras 2: ", "Keras 2 legacy: ", "compat.v1: "}) {
    const Variable w = variable(s, 1.0);
    const Variable v = variable(s, 2.0);
    optim::SGD o(options);
    if (key != "compat.v1: ")
      r(key + "nothing for v", [&] {
        step(s, o, [&] { return Gradients{{f32(1), w}, {std::nullopt, v}}; });
        return key.empty() ? both(w, v) : component_list(v);
      });
    r(key + "nothing for all", [&] {
      step(s, o, [&] { return Gradients{{std::nullopt, w}, {std::nullopt, v}}; });
    });
    r(key + "no pairs", [&] { step(s, o, [] { return Gradients(); }); });
  }
  const Variable a = variable(s, 1.0);
  const Variable b = variable(s, 2.0);
  optim::SGD q(options);
  r("nothing for b on replica 1 only", [&] {
    step(s, q, [&] {
      return Gradients{{f32(1), a},
                       {replica_id() == 0 ? optim::Gradient(f32(1)) : optim::Gradient(std::nullopt), b}};
    });
  });
}

GOLDEN("optimizer-clipping") {
  Replicas s(2);
  const auto gradient = [] { return replica_id() == 0 ? f32s({3, 0}) : f32s({0, 4}); };
  const optim::SGDOptions options{.learning_rate = 1.0, .global_clip_norm = 1.0};
  for (const std::string key : {"", "Keras 2: ", "Keras 2 legacy: "}) {
    const auto record = [&](const std::string& name, auto clipped) {
      r(key + name, [&] {
        const Variable w = variable(s, f32s({0, 0}));
        const Variable v = variable(s, f32s({0, 0}));
        clipped(w, v);
        return both(w, v);
      });
    };
    record("global_clipnorm 1", [&](const Variable& w, const Variable& v) {
      optim::SGD o(options);
      step(s, o, [&] { return Gradients{{gradient(), w}, {gradient(), v}}; });
    });
    record("clipnorm 1", [&](const Variable& w, const Variable& v) {  // each variable by its own norm
      optim::SGD first(options);
      optim::SGD second(options);
      step(s, first, [&] { return Gradients{{gradient(), w}}; });
      step(s, second, [&] { return Gradients{{gradient(), v}}; });
    });
  }
}

GOLDEN("optimizer-momentum") {
  MirroredStrategy s({TestBackend::device(1), TestBackend::device(3)});
  const auto three_steps = [&](const std::string& key, optim::Optimizer& o) {
    const Variable w = variable(s, 1.0);
    for (int k = 1; k <= 3; ++k) {
      step(s, o, [&] { return Gradients{{one_more(), w}}; });
      r(key + ": after " + std::to_string(k), [&] { return component_list(w); });
    }
  };
  const optim::MomentumOptions options{.learning_rate = 0.1, .momentum = 0.5};
  optim::Momentum momentum(options);
  three_steps("momentum", momentum);
  optim::Momentum nesterov({.learning_rate = 0.1, .momentum = 0.5, .nesterov = true});
  three_steps("nesterov", nesterov);
  optim::Momentum v1(options);
  three_steps("compat.v1", v1);
  const Variable slot = v1.variables().at(1).second;
  r("compat.v1: slot", [&] { return component_list(slot); });
  r("compat.v1: slot's devices", [&] {
    std::vector<Device> devices;
    for (const Tensor& component : s.local_results(slot)) devices.push_back(component.device());
    return devices;
  });
}

GOLDEN("optimizer-adam") {
  for (const int n : {2, 1}) {
    Replicas s(n);
    const auto gradient = [n] {
      return n == 1 ? f32s({4, 1}) : replica_id() == 0 ? f32s({1, 2}) : f32s({3, -1});
    };
    const auto three_steps = [&](const std::string& key, optim::Optimizer& o) {
      const Variable w = variable(s, f32s({1, 2}));
      for (int k = 1; k <= 3; ++k) {
        step(s, o, [&] { return Gradients{{gradient(), w}}; });
        r(key + " N=" + std::to_string(n) + ": after " + std::to_string(k),
          [&] { return component_list(w); });
      }
    };
    optim::Adam adam({.learning_rate = 0.1, .epsilon = 1e-7});
    three_steps("Adam", adam);
    optim::AdamW adamw({.learning_rate = 0.1, .weight_decay = 0.01, .epsilon = 1e-7});
    three_steps("AdamW", adamw);
  }
}

GOLDEN("optimizer-sparse") {
  Replicas s(2);
  for (const std::string key : {"keras", "compat.v1"}) {
    r(key, [&] {
      const Variable w = variable(s, Tensor::ones({4, 1}));
      optim::SGD o({.learning_rate = 0.1});
      step(s, o, [&] {
        const IndexedSlices rows =
            replica_id() == 0
                ? IndexedSlices{f32s({1}, {1, 1}), Tensor::from<std::int64_t>({1}, {1}), {4, 1}}
                : IndexedSlices{f32s({2, 3}, {2, 1}), Tensor::from<std::int64_t>({1, 3}, {2}), {4, 1}};
        return Gradients{{rows, w}};
      });
      return component_list(w);
    });
  }
}

GOLDEN("optimizer-central-storage") {
  Central s(2);
  r("compat.v1", [&] {
    const Variable w = variable(s, 1.0);
    optim::SGD o({.learning_rate = 0.1});
    step(s, o, [&] { return Gradients{{one_more(), w}}; });
    return component_list(w);
  });
}

GOLDEN("step-does-not-depend-on-N") {
  const Tensor x = Tensor::arange(12, DType::f32, Device()) / 10.0;
  const Tensor y = x * 3.0 + 1.0;
  for (const int n : {1, 2, 4, 5}) {
    Replicas s(n);
    const Variable w = variable(s, 0.5);
    optim::SGD o({.learning_rate = 0.1});
    for (const auto& [a, b] : s.distribute_dataset(Dataset::from_tensor_slices(x, y).batch(12)))
      s.run(
          [&](const Tensor& p, const Tensor& q) {
            o.apply_gradients({{sum((p * w.value() - q) * p) * (2.0 / 12), w}});
          },
          a, b);
    r("N=" + std::to_string(n), [&] { return component_list(w); });
  }
}

GOLDEN("metrics-mean") {
  Replicas s(2);
  std::optional<metrics::Mean> m;
  std::optional<metrics::Mean> weighted;
  {
    const auto scope = s.scope();
    m.emplace();
    weighted.emplace();
  }
  const auto v = per_replica({f32s({1, 2, 3}), f32s({10})});
  const auto result = [&] { return number(m->result()); };
  s.run([&](const Tensor& x) { m->update(x); }, v);
  r("result", result);
  r("total and count: components", [&] {
    std::vector<Json> all;
    for (const auto& [name, sums] : m->variables()) {
      Json numbers = Json::array();
      for (const Tensor& component : s.local_results(sums)) numbers.push_back(encode(number(component)));
      all.push_back({{"list", numbers}});
    }
    return all;
  });
  r("synchronization", [&] {
    std::vector<std::string> all;
    for (const auto& [name, sums] : m->variables())
      all.push_back(sums.synchronization() == VariableSynchronization::on_read ? "ON_READ" : "another");
    return all;
  });
  r("aggregation", [&] {
    std::vector<std::string> all;
    for (const auto& [name, sums] : m->variables())
      all.push_back(sums.aggregation() == VariableAggregation::sum ? "SUM" : "another");
    return all;
  });
  s.run([&](const Tensor& x) { m->update(x); }, v);
  r("after two updates", result);
  s.run([&] {
    if (replica_id() == 0) m->update(f32(20));
  });
  r("after one more on replica 0", result);
  s.run([&](const Tensor& x) { weighted->update(x, x); }, v);
  r("weights equal to the values", [&] { return number(weighted->result()); });
  r("result in run", [&] { return s.run([&] { return number(m->result()); }); });
  r("in D", [&] {
    metrics::Mean plain;
    plain.update(f32s({1, 2}));
    return number(plain.result());
  });
  const auto scope = s.scope();
  r("result in scope", result);
  m->reset();
  r("after reset", result);
  r("update in X", [&] {
    m->update(f32s({4, 6}));
    return result();
  });
}

GOLDEN("metrics-others") {
  Replicas s(2);
  std::optional<metrics::Sum> total;
  std::optional<metrics::Accuracy> accuracy;
  std::optional<metrics::TopK> top;
  {
    const auto scope = s.scope();
    total.emplace();
    accuracy.emplace();
    top.emplace(2);
  }
  s.run([&](const Tensor& x) { total->update(x); }, per_replica({f32s({1, 2, 3}), f32s({10})}));
  r("sum", [&] { return number(total->result()); });
  const auto labels =
      per_replica({Tensor::from<std::int64_t>({0, 1, 2, 0}, {4}), Tensor::from<std::int64_t>({1, 2}, {2})});
  const auto logits =
      per_replica({f32s({3, 2, 1, 0, 5, 1, 0, 1, 2, 1, 2, 3}, {4, 3}), f32s({0, 3, 1, 5, 1, 2}, {2, 3})});
  s.run(
      [&](const Tensor& a, const Tensor& b) {
        accuracy->update(a, b);
        top->update(a, b);
      },
      labels, logits);
  r("accuracy", [&] { return number(accuracy->result()); });
  r("top 2", [&] { return number(top->result()); });
}

GOLDEN("training-loop") {
  const Tensor x = Tensor::arange(10, DType::f32, Device()) / 10.0;
  for (const int n : {1, 2, 3}) {
    Replicas s(n);
    const Variable w = variable(s, 0.0);
    optim::Momentum o({.learning_rate = 0.1, .momentum = 0.9});
    std::optional<metrics::Mean> m;
    {
      const auto scope = s.scope();
      m.emplace();
    }
    const auto dataset = s.distribute_dataset(Dataset::from_tensor_slices(x, x * 2.0).batch(4));
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const auto& [a, b] : dataset)
        s.run(
            [&](const Tensor& p, const Tensor& q) {
              const Tensor rows = context().all_reduce(kSum, static_cast<float>(p.size()));
              const Tensor error = p * w.value() - q;
              o.apply_gradients({{sum(error * p) * 2.0 / rows, w}});
              m->update(error * error);
            },
            a, b);
    r("N=" + std::to_string(n) + ": w", [&] { return s.local_results(w)[0]; });
    r("N=" + std::to_string(n) + ": mean error", [&] { return number(m->result()); });
  }
}

}  // namespace lockstep::test
