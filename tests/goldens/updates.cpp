// update and update_non_slot of every strategy: arguments, results, contexts.
#include <stdexcept>

#include "goldens/programs.hpp"

namespace lockstep::test {

GOLDEN("update-results") {
  Replicas s(2);
  const Variable v = variable(s, 5.0);
  const auto assign = [](Tensor& local) { return local.fill_(1.0); };
  const auto scope = s.scope();
  r("grouped", [&] { return s.extended().update(v, assign); });
  r("ungrouped", [&] { return s.extended().update(ungrouped, v, assign); });
}

GOLDEN("update-non-slot") {
  const auto count = [](Strategy& s) {
    int calls = 0;
    s.extended().update_non_slot(s.extended().non_slot_devices({variable(s, 1.0)}), [&] { ++calls; });
    return calls;
  };
  Replicas s(3);
  r("Mirrored", [&] { return count(s); });
  r("default", [&] { return count(get_strategy()); });
}

GOLDEN("update-table") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const auto fresh = [&] { return variable(s, 5.0); };
  const auto m = mirrored_value({f32(1), f32(2)});
  const auto p = per_replica({f32(1), f32(2)});
  const auto plus = [](Tensor& local, const Tensor& y) { return local + y.to(local.device()); };
  const Variable plain(f32(1));
  Replicas other(2);
  const Variable of_another = variable(other, 5.0);
  {
    const auto scope = s.scope();
    const auto table = [&](const std::string& g, const auto& up) {
      r(g + ": nothing", [&] { up([](Tensor&) {}); });
      r(g + ": tensor", [&] { return up([](Tensor& local) { return local.add_(1.0) * 10.0; }); });
      r(g + ": dict", [&] {
        const auto [a, b] =
            up([](Tensor& local) { return std::tuple(local + 1.0, std::tuple(local + 2.0)); });
        return Json({{"dict", {{"a", encode(a)}, {"b", encode(b)}}}});
      });
      r(g + ": host number", [&] { return up([](Tensor&) { return 3; }); });
      r(g + ": component", [&] { return up([](Tensor& local) { return local; }); });
      r(g + ": mirrored argument", [&] { return up(plus, m); });
      r(g + ": plain argument", [&] { return up(plus, f32(10)); });
      r(g + ": per-replica argument", [&] { return up(plus, p); });
      r(g + ": nested arguments", [&] {
        return up(
            [](Tensor& local, const std::tuple<std::vector<Tensor>, double>& d) {
              return local + std::get<0>(d)[0] + std::get<1>(d);
            },
            std::tuple(std::vector{m}, 1.0));
      });
      r(g + ": keyword", [&] { return up(plus, m); });
      const auto plus_variable = [](Tensor& local, const Variable& y) { return local + y.value(); };
      r(g + ": variable argument", [&] { return up(plus_variable, variable(s, 100.0)); });
      r(g + ": on_read argument", [&] {
        return up(plus_variable,
                  variable(s, 100.0, VariableAggregation::sum, VariableSynchronization::on_read));
      });
    };
    table("grouped", [&](auto fn, const auto&... args) { return x.update(fresh(), fn, args...); });
    table("ungrouped",
          [&](auto fn, const auto&... args) { return x.update(ungrouped, fresh(), fn, args...); });
    r("a variable of no strategy", [&] { return x.update(plain, [](Tensor& local) { return local; }); });
    r("another strategy's variable",
      [&] { return x.update(of_another, [](Tensor& local) { return local.fill_(9.0); }); });
    const Variable v = fresh();
    r("fn throws on component 1", [&] {
      x.update(v, [](Tensor& local) {
        local.add_(1.0);
        if (*get_update_replica_id() == 1) throw InvalidArgument("x");
      });
    });
    r("fn throws: components", [&] { return component_list(v); });
    const Variable w = fresh();
    Variable u = fresh();
    r("another variable assigned in fn", [&] {
      x.update(w, [&](Tensor&) { u.assign(f32(*get_update_replica_id())); });
      return component_list(u);
    });
  }
  r("in D", [&] { return x.update(fresh(), [](Tensor& local) { return local + 1.0; }); });
  const auto assign = [](Tensor& local, const Tensor& y) { return local.copy_(y); };
  const Variable v = fresh();
  r("in R", [&] { return s.run([&] { return x.update(v, assign, f32(3)); }); });
  r("in R: components", [&] { return component_list(v); });
  r("in R, per-replica arguments", [&] { s.run([&] { x.update(v, assign, id_tensor()); }); });
  r("in R, per-replica arguments: components", [&] { return component_list(v); });
}

GOLDEN("update-other-strategies") {
  const auto table = [&](const std::string& name, Strategy& s) {
    const Variable v = variable(s, 5.0);
    StrategyExtended& x = s.extended();
    const auto more = [](Tensor& local) { return local + 1.0; };
    const auto plus = [](Tensor& local, const Tensor& y) { return local + y.to(local.device()); };
    r(name + ": grouped", [&] { return x.update(v, more); });
    r(name + ": ungrouped", [&] { return x.update(ungrouped, v, more); });
    r(name + ": ungrouped, dict", [&] {
      return x.update(ungrouped, v, [](Tensor& local) {
        return std::map<std::string, Tensor>{{"a", local + 1.0}};
      });
    });
    r(name + ": mirrored argument of two", [&] {
      return x.update(v, plus, mirrored_value({f32(1), f32(2)}));
    });
    r(name + ": per-replica argument of two", [&] {
      return x.update(v, plus, per_replica({f32(1), f32(2)}));
    });
    const NonSlot where = x.non_slot_devices({v});
    const auto one_more = [](const Tensor& y) { return y + 1.0; };
    r(name + ": update_non_slot", [&] { return x.update_non_slot(where, one_more, f32(1)); });
    r(name + ": update_non_slot ungrouped",
      [&] { return x.update_non_slot(ungrouped, where, one_more, f32(1)); });
    r(name + ": in run", [&] { return s.run([&] { return x.update(v, more); }); });
  };
  OneDevice one;
  Central central(2);
  table("OneDevice", one);
  table("default", get_strategy());
  table("CentralStorage", central);
}

GOLDEN("update-non-slot-table") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const NonSlot where = x.non_slot_devices({variable(s, 5.0)});
  const auto m = mirrored_value({f32(1), f32(2)});
  const auto p = per_replica({f32(1), f32(2)});
  const auto table = [&](const std::string& g, const auto& up) {
    r(g + ": tensor", [&] { return up([] { return f32(1) * 2.0; }); });
    r(g + ": nothing", [&] { up([] {}); });
    const Tensor t = f32(1);
    r(g + ": same tensor", [&] { return up([&] { return t; }); });
    r(g + ": mirrored argument", [&] { return up([](const Tensor& y) { return y * 2.0; }, m); });
    r(g + ": per-replica argument", [&] { return up([](const Tensor& y) { return y * 2.0; }, p); });
    r(g + ": dict", [&] { return up([] { return std::map<std::string, Tensor>{{"a", f32(1) * 2.0}}; }); });
  };
  table("grouped", [&](auto fn, const auto&... args) { return x.update_non_slot(where, fn, args...); });
  table("ungrouped",
        [&](auto fn, const auto&... args) { return x.update_non_slot(ungrouped, where, fn, args...); });
  const auto two = [] { return f32(1) * 2.0; };
  r("on a tuple of one device", [&] {
    return x.update_non_slot(NonSlot{{TestBackend::device(1)}, {}}, two);
  });
  r("in R", [&] { s.run([&] { x.update_non_slot(where, [] {}); }); });
}

}  // namespace lockstep::test
