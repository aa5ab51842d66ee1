// Contexts and scopes: where one is, nesting, mixing, merge calls, exceptions.
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

/// (strategy, has_strategy, cross-replica, (id, N) of the replica context, update index) here.
class States {
 public:
  explicit States(std::vector<std::pair<std::string, Strategy*>> names) : names_(std::move(names)) {}
  Json here() const {
    std::string name = has_strategy() ? std::string(get_strategy().name()) : "default";
    for (const auto& [known, strategy] : names_)
      if (strategy == &get_strategy()) name = known;
    const ReplicaContext* const replica = get_replica_context();
    return encode(std::tuple(name, has_strategy(), in_cross_replica_context(),
                             replica == nullptr ? Json()
                                                : encode(std::tuple(replica->replica_id_in_sync_group(),
                                                                    replica->num_replicas_in_sync())),
                             get_update_replica_id()));
  }

 private:
  std::vector<std::pair<std::string, Strategy*>> names_;
};

class A : public std::runtime_error {
 public:
  A() : std::runtime_error("A") {}
};
class B : public std::runtime_error {
 public:
  B() : std::runtime_error("B") {}
};

/// What run of f throws.
template <class F>
std::string thrown(Strategy& s, F f) {
  try {
    s.run(f);
  } catch (const A&) {
    return "A";
  } catch (const B&) {
    return "B";
  } catch (const InvalidArgument&) {
    return "InvalidArgument";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

GOLDEN("default-state") {
  const States states({});
  r("state", [&] { return states.here(); });
}

GOLDEN("scope-state") {
  Replicas s(2);
  const States states({{"s", &s}});
  {
    const auto scope = s.scope();
    r("inside", [&] { return states.here(); });
  }
  r("after", [&] { return states.here(); });
}

GOLDEN("scope-mixing-calls") {
  Replicas s(2);
  Replicas s2(2);
  const auto v = per_replica({f32(1), f32(2)});
  const auto scope = s2.scope();
  r("reduce", [&] { return s.reduce(kSum, v); });
  r("reduce_to", [&] { return s.extended().reduce_to(kSum, v, TestBackend::device(0)); });
  r("run", [&] { return s.run([] { return f32(1); }); });
}

GOLDEN("set-strategy") {
  Replicas s(2);
  Replicas s2(2);
  const States states({{"s", &s}, {"s2", &s2}});
  set_strategy(&s);
  r("s", [&] { return states.here(); });
  set_strategy(&s2);
  r("s2", [&] { return states.here(); });
  set_strategy(nullptr);
  r("none", [&] { return states.here(); });
  {
    const auto scope = s.scope();
    r("set s inside a scope of s", [&] { set_strategy(&s); });
    r("set s2 inside a scope of s", [&] { set_strategy(&s2); });
    r("set none inside a scope of s", [&] { set_strategy(nullptr); });
  }
  r("after", [&] { return states.here(); });
}

GOLDEN("default-merge-call") {
  Json seen;
  r("result", [&] {
    return context().merge_call(
        [&](Strategy&, const PerReplica<std::string>& x) {
          seen = States({}).here();
          return "foo_" + x[0];
        },
        "bar");
  });
  r("inside", [&] { return seen; });
}

GOLDEN("run-context") {
  Replicas s(2);
  r("not null, cross-replica, has strategy", [&] {
    return s.run([] {
      return std::tuple(get_replica_context() != nullptr, in_cross_replica_context(), has_strategy());
    });
  });
  r("ids", [&] { return s.local_results(s.run(replica_id)); });
  r("nested run", [&] { s.run([&] { s.run([] {}); }); });
}

GOLDEN("exceptions-propagate") {
  Replicas s(2);
  const auto name = [&](auto f) { return thrown(s, f) == "A" ? "Oops" : "another"; };
  const auto throw_it = [](auto&&...) { throw A(); };
  r("in the replica function", [&] { return name([&] { throw_it(); }); });
  r("after a merge call", [&] {
    return name([&] {
      context().merge_call([](Strategy&) {});
      throw_it();
    });
  });
  r("in a merge function", [&] { return name([&] { context().merge_call(throw_it); }); });
  r("in a second merge function", [&] {
    return name([&] {
      context().merge_call([](Strategy&) {});
      context().merge_call(throw_it);
    });
  });
  r("usable afterwards", [&] { return s.run(id_tensor); });
}

GOLDEN("merge-call-count-mismatch") {
  Replicas s(2);
  const auto alone = [&](int caller) {
    s.run([=] {
      if (replica_id() == caller) context().merge_call([](Strategy&) { return 1; });
    });
  };
  r("replica 0 alone", [&] { alone(0); });
  r("replica 1 alone", [&] { alone(1); });
  r("usable afterwards", [&] { return s.run(id_tensor); });
}

GOLDEN("states") {
  Replicas s(2);
  const States states({{"s", &s}});
  const Variable w = variable(s, 1.0);
  std::mutex mutex;  // guards what the replicas note
  std::vector<std::pair<int, Json>> seen;
  const auto note = [&](auto&&...) {
    const std::scoped_lock lock(mutex);
    seen.emplace_back(get_replica_context() != nullptr ? replica_id() : 0, states.here());
  };
  const auto collect = [&](auto f) {
    seen.clear();
    f();
    std::stable_sort(seen.begin(), seen.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Json> all;
    for (const auto& one : seen) all.push_back(one.second);
    return all;
  };
  r("run, all", [&] { return collect([&] { s.run([&] { note(); }); }); });
  r("merge function", [&] { return collect([&] { s.run([&] { context().merge_call(note); }); }); });
  r("run in a merge function", [&] {
    return collect(
        [&] { s.run([&] { context().merge_call([&](Strategy& st) { st.run([&] { note(); }); }); }); });
  });
  {
    const auto scope = s.scope();
    r("update in scope", [&] { return collect([&] { s.extended().update(w, note); }); });
    r("update_non_slot", [&] {
      return collect([&] { s.extended().update_non_slot(s.extended().non_slot_devices({w}), note); });
    });
  }
  r("update out of scope", [&] { return collect([&] { s.extended().update(w, note); }); });
  r("update in a merge function", [&] {
    return collect(
        [&] { s.run([&] { context().merge_call([&](Strategy& st) { st.extended().update(w, note); }); }); });
  });
  OneDevice one;
  r("OneDevice: run", [&] { return collect([&] { one.run([&] { note(); }); }); });
  const Variable u = variable(one, 1.0);
  r("OneDevice: update", [&] { return collect([&] { one.extended().update(u, note); }); });
  r("default: run", [&] { return collect([&] { get_strategy().run([&] { note(); }); }); });
  const Variable plain(f32(1));
  r("default: update", [&] { return collect([&] { get_strategy().extended().update(plain, note); }); });
}

GOLDEN("states-of-threads") {
  Replicas s(2);
  const States states({{"s", &s}});
  std::vector<Json> seen;
  const auto work = [&] {
    seen.push_back(states.here());
    const auto scope = s.scope();
    seen.push_back(states.here());
  };
  {
    const auto scope = s.scope();
    std::thread(work).join();
  }
  r("in the thread", [&] { return seen[0]; });
  r("in its scope", [&] { return seen[1]; });
  std::thread(work).join();
  r("this thread", [&] { return states.here(); });
}

GOLDEN("scope-table") {
  Replicas s(2);
  Replicas s2(2);
  const States states({{"s", &s}, {"s2", &s2}});
  const Variable w = variable(s, 1.0);
  Strategy& plain = get_strategy();
  const auto enter = [&](Strategy& strategy) {
    const auto scope = strategy.scope();
    return states.here();
  };
  const auto name_of = [](const Json& state) { return state.at("tuple")[0].at("host").get<std::string>(); };
  r("s in run of s", [&] { s.run([&] { enter(s); }); });
  r("s2 in run of s", [&] { s.run([&] { enter(s2); }); });
  r("default in run of s", [&] { s.run([&] { enter(plain); }); });
  r("s in a merge function", [&] {
    return s.run([&] { return context().merge_call([&](Strategy&) { return name_of(enter(s)); }); });
  });
  r("s in update",
    [&] { return s.extended().update(ungrouped, w, [&](Tensor&) { return name_of(enter(s)); }); });
  {
    const auto scope = s.scope();
    r("s in scope of s", [&] { return enter(s); });
    r("s2 in scope of s", [&] { return enter(s2); });
    r("s2.run in scope of s", [&] { s2.run([] {}); });
  }
  r("after", [&] { return states.here(); });
}

GOLDEN("context-methods") {
  Replicas s(2);
  r("replica_id_in_sync_group", [&] { return s.run(replica_id); });
  r("num_replicas_in_sync", [&] { return s.run([] { return context().num_replicas_in_sync(); }); });
  r("strategy", [&] { return s.run([&] { return &context().strategy() == &s; }); });
  ReplicaContext* saved = nullptr;
  s.run([&] {
    if (replica_id() == 0) saved = &context();
  });
  r("default id", [] { return replica_id(); });
  r("default num_replicas", [] { return context().num_replicas_in_sync(); });
  r("default merge_call nests", [] {
    return context().merge_call(
        [](Strategy&, const auto& d) { return std::tuple(d.at("a")[0], in_cross_replica_context()); },
        std::map<std::string, int>{{"a", 5}});
  });
}

GOLDEN("extended-contexts") {
  Replicas s(2);
  StrategyExtended& x = s.extended();
  const Variable w = variable(s, 1.0);
  const auto v = per_replica({f32(1), f32(2)});
  r("reduce_to", [&] { s.run([&] { static_cast<void>(x.reduce_to(kSum, v, w)); }); });
  r("batch_reduce_to", [&] { s.run([&] { static_cast<void>(x.batch_reduce_to(kSum, {{v, w}})); }); });
  r("broadcast_to", [&] { s.run([&] { static_cast<void>(x.broadcast_to(f32(1), w)); }); });
  r("update", [&] { s.run([&] { x.update(w, [](Tensor&) {}); }); });
  const NonSlot where = x.non_slot_devices({w});
  r("update_non_slot", [&] { s.run([&] { x.update_non_slot(where, [] {}); }); });
  r("colocate_vars_with", [&] {
    return s.run([&] {
      const auto guard = x.colocate_vars_with(w);
      return true;
    });
  });
  r("call_for_each_replica", [&] { s.run([&] { x.call_for_each_replica([] {}); }); });
  r("variable_created_in_scope", [&] { return s.run([&] { return x.variable_created_in_scope(w); }); });
  r("read_var", [&] { return s.run([&] { return x.read_var(w); }); });
  r("gather", [&] { s.run([&] { static_cast<void>(s.gather(v, 0)); }); });
  r("distribute_dataset",
    [&] { s.run([&] { static_cast<void>(s.distribute_dataset(Dataset::range(4).batch(2))); }); });
  r("local_results", [&] { return s.run([&] { return static_cast<int>(s.local_results(v).size()); }); });
  r("num_replicas_in_sync", [&] { return s.run([&] { return s.num_replicas_in_sync(); }); });
}

GOLDEN("exceptions-more") {
  Replicas s(3);
  r("replicas 0 and 1 throw A and B", [&] {
    return thrown(s, [] {
      if (replica_id() == 1) throw B();
      throw A();
    });
  });
  r("replica 0 throws", [&] {
    return thrown(s, [] {
      if (replica_id() == 0) throw A();
    });
  });
  int merged = 0;
  r("replica 2 throws, 0 and 1 wait", [&] {
    return thrown(s, [&] {
      if (replica_id() == 2) throw B();
      context().merge_call([&](Strategy&) { ++merged; });
    });
  });
  r("merge function was called", [&] { return merged; });
  r("others swallow the stop signal", [&] {
    return thrown(s, [] {
      if (replica_id() == 2) throw B();
      try {
        context().merge_call([](Strategy&) {});
      } catch (const std::exception&) {
      }
    });
  });
  r("usable afterwards", [&] { return s.run(id_tensor); });
}

GOLDEN("execution-order") {
  Replicas s(2);
  std::mutex mutex;  // guards what the replicas note
  std::vector<int> order;
  const auto note = [&](int what) {
    const std::scoped_lock lock(mutex);
    order.push_back(what);
  };
  s.run([&] {
    note(replica_id());
    context().merge_call([&](Strategy&) { note(-1); });
    note(replica_id() + 10);
  });
  r("order", [&] {  // replicas run at the same time: what meets is in order
    std::sort(order.begin(), order.begin() + 2);
    std::sort(order.begin() + 3, order.end());
    return order;
  });
}

}  // namespace lockstep::test
