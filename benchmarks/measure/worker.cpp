#include "measure/worker.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Team::Team(const Options& all_options, const Collective& measured, const Processes& all_processes)
    : options(all_options),
      collective(measured),
      processes(all_processes),
      groups(make_groups(options, processes)),
      places(make_places(groups)),
      replicas(make_replicas(options, places)),
      measurements(static_cast<std::size_t>(options.threads * processes.count())),
      barrier(options.threads) {
  for (Group& group : groups)
    if (group.workers)
      group.workers->call_at_end([&group](const std::string& cause) { group.local->abort(cause); });
}

Team::~Team() {
  for (Group& group : groups)
    if (group.workers) group.workers->leave();
}

const Replica* Team::find_replica(int rank) const {
  const int local = rank - options.first_rank();
  return 0 <= local && local < options.num_local_ranks() ? &replicas[static_cast<std::size_t>(local)]
                                                         : nullptr;
}

void Team::find_buffers(std::int64_t offset_bytes) {
  if (arena) {
    arena->place(places, offset_bytes);
    return;
  }
  for (RankBuffers& place : places) {
    const Replica* const own = find_replica(place.rank);
    const Replica& replica = own != nullptr ? *own : replicas.front();
    place.send = replica.send;
    place.receive = replica.receive;
  }
}

void Team::fail(const std::string& cause) noexcept {
  barrier.fail();
  for (Group& group : groups)
    if (group.local) group.local->abort(cause);
  processes.break_off(cause);
}

void Team::meet_threads() {
  if (!barrier.arrive_and_wait(1)) throw Stopped();
}

Worker::Worker(Team& team, int thread)
    : team_(team),
      options_(team.options),
      thread_(thread),
      replicas_(std::span(team.replicas)
                    .subspan(static_cast<std::size_t>(thread * options_.ranks_per_thread),
                             static_cast<std::size_t>(options_.ranks_per_thread))),
      num_threads_(options_.threads * team.processes.count()) {}

void Worker::sweep(const std::function<void(const Row&)>& on_row) {
  const auto largest_element = static_cast<std::int64_t>(size_of(DType::f64));
  const std::int64_t buffer_bytes = options_.max_bytes + options_.unalign * largest_element;
  for (Replica& replica : replicas_) replica.allocate(buffer_bytes);
  team_.on_one_thread(thread_, [&] {
    if (options_.shares_floor())
      team_.arena.emplace(team_.processes, options_.num_local_ranks(), buffer_bytes);
  });
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (const DataCase& data : options_.cases) {
      if (!team_.collective.has_root)
        sweep_case(data, -1, on_row);
      else if (options_.root)
        sweep_case(data, *options_.root, on_row);
      else
        for (int root = 0; root < group_size(); ++root) sweep_case(data, root, on_row);
    }
  }
}

void Worker::sweep_case(const DataCase& data, int root, const std::function<void(const Row&)>& on_row) {
  const auto element = static_cast<std::int64_t>(size_of(data.dtype));
  for (Replica& replica : replicas_) replica.place(options_.unalign * element);
  team_.on_one_thread(thread_, [&] { team_.find_buffers(options_.unalign * element); });
  fill_with_ones(data.dtype, options_.max_bytes);
  meet();
  warm_up(data, root);
  for (const std::int64_t size : options_.sizes()) {
    Layout measured = layout(data, root, size, PlacementKind::out_of_place);
    Row row{.size_bytes = measured.slot_bytes,
            .count = measured.counts.argument,
            .type = std::string(bench_name(data.dtype)),
            .op = std::string(team_.collective.reduces ? bench_name(data.op) : "none"),
            .root = root,
            .iterations = options_.iterations};
    row.out_of_place = measure(measured);
    if (team_.collective.has_in_place) measured.placement = PlacementKind::in_place;
    row.in_place = measure(measured);
    if (thread_ != 0) continue;
    if (options_.report_timestamps) row.timestamp = timestamp_now();
    on_row(row);
  }
}

void Worker::warm_up(const DataCase& data, int root) {
  for (std::int64_t size = std::max<std::int64_t>(options_.min_bytes, 1); size <= options_.max_bytes;
       size *= 2) {
    for (const auto placement : {PlacementKind::out_of_place, PlacementKind::in_place}) {
      if (placement == PlacementKind::in_place && !team_.collective.has_in_place) continue;
      const Layout warmed = layout(data, root, size, placement);
      Calls calls(team_.collective, team_.groups, replicas_, options_, warmed);
      for (int i = 0; i < options_.warmup_iterations; ++i)
        calls.run(i * options_.aggregate, options_.aggregate);
      calls.synchronize();
      if (!options_.floor) continue;
      prepare_floor(warmed);
      for (std::size_t loop = 0; loop < num_floor_loops(); ++loop) run_floor(loop, 0);
      calls.synchronize();
    }
  }
}

Placement Worker::measure(const Layout& layout) {
  Calls calls(team_.collective, team_.groups, replicas_, options_, layout);
  Measurement& mine = team_.measurement_of(thread_);
  mine = {};
  mine.iteration_seconds.reserve(static_cast<std::size_t>(options_.iterations));
  if (options_.floor || options_.count) prepare_floor(layout);
  if (options_.count && thread_ == 0) counting_.emplace();
  if (options_.graph_launches > 0)
    mine.seconds = launch_captured(calls, options_.iterations * options_.aggregate, options_.graph_launches) /
                   options_.graph_launches;
  in_rounds(options_.iterations, options_.floor, [&](int first, int end) {
    if (options_.graph_launches == 0) time_calls(calls, first, end);
    for (std::size_t loop = 0; options_.floor && loop < num_floor_loops(); ++loop)
      time_floor(layout, calls, loop, first, end);
  });
  if (options_.count) team_.on_one_thread(thread_, [&] { mine.work = counting_->work(); });
  for (int pass = 0; pass < options_.check && num_wrong(team_.measurements) == 0; ++pass)
    check(layout, calls, pass);

  share_measurements();
  Placement result;
  if (thread_ == 0) {
    result = combine(options_, team_.measurements, layout.slot_bytes,
                     team_.collective.bus_factor(group_size()), num_floor_loops());
    if (options_.count)
      result.counted =
          count_per_operation(options_, team_.measurements, static_cast<double>(floor_.traffic_bytes()));
  }
  team_.meet_threads();
  return result;
}

void Worker::time_calls(Calls& calls, int first_iteration, int last_iteration) {
  Measurement& mine = team_.measurement_of(thread_);
  Clock::duration untimed{};
  if (options_.count) team_.on_one_thread(thread_, [&] { counting_->begin(); });
  meet();
  const auto start = Clock::now();
  auto iteration_start = start;
  for (int i = first_iteration; i < last_iteration; ++i) {
    calls.run(static_cast<std::int64_t>(i) * options_.aggregate, options_.aggregate);
    if (options_.blocking != Blocking::none) calls.synchronize();
    if (options_.blocking == Blocking::wait_and_barrier) meet();
    if (options_.per_iteration) mine.iteration_seconds.push_back(seconds(Clock::now() - iteration_start));
    if (options_.blocking == Blocking::wait_and_untimed_barrier) {
      const auto pause = Clock::now();
      meet();
      untimed += Clock::now() - pause;
    }
    if (options_.per_iteration) iteration_start = Clock::now();
  }
  const auto launched = Clock::now();
  if (options_.count) team_.on_one_thread(thread_, [&] { counting_->end(); });
  calls.synchronize();
  const auto done = Clock::now();
  mine.seconds += seconds((options_.report_cpu_time ? launched : done) - start - untimed);
}

double Worker::launch_captured(Calls& calls, int count, int launches) {
  calls.synchronize();
  team_.on_one_thread(thread_, [&] { team_.captured.emplace(team_.replicas); });
  calls.run(0, count);
  team_.on_one_thread(thread_, [&] { team_.captured->end(); });
  meet();
  const auto start = Clock::now();
  for (int launch = 0; launch < launches; ++launch) team_.captured->launch(replicas_);
  const auto launched = Clock::now();
  calls.synchronize();
  const auto done = Clock::now();
  team_.on_one_thread(thread_, [&] { team_.captured.reset(); });
  return seconds((options_.report_cpu_time ? launched : done) - start);
}

void Worker::time_floor(const Layout& layout, const Calls& calls, std::size_t loop, int first_iteration,
                        int last_iteration) {
  meet();
  const auto start = Clock::now();
  const std::int64_t end = static_cast<std::int64_t>(last_iteration) * options_.aggregate;
  // The collective and the loops are equally far apart in the slots: with several slots none finds in the
  // cache what another has just read.
  const std::int64_t ahead = layout.num_slots * static_cast<std::int64_t>(loop + 1) /
                             static_cast<std::int64_t>(num_floor_loops() + 1);
  for (std::int64_t i = static_cast<std::int64_t>(first_iteration) * options_.aggregate; i < end; ++i) {
    if (team_.arena) meet();  // plain processes know in no other way that all inputs are there,
    run_floor(loop, i + ahead);
    if (team_.arena) meet();  // and that all outputs are
  }
  calls.synchronize();
  meet();  // timed: the floor is reached when all slices are done
  team_.measurement_of(thread_).floor_seconds[loop] += seconds(Clock::now() - start);
}

void Worker::run_floor(std::size_t loop, std::int64_t operation) const {
  if (options_.device_kind == DeviceKind::cpu)
    floor_.pass(kFloorLoops[loop], operation, team_.first_thread() + thread_, num_threads_);
  else
    for (const Replica& replica : replicas_) floor_.copy(replica, operation);
}

// The floor of all ranks.
void Worker::prepare_floor(const Layout& layout) {
  floor_ = CollectiveFloor(team_.collective, team_.groups, team_.places, layout);
}

// A GPU copies in one way only.
std::size_t Worker::num_floor_loops() const {
  return options_.device_kind == DeviceKind::cpu ? kFloorLoops.size() : 1;
}

void Worker::check(const Layout& layout, Calls& calls, int pass) {
  Measurement& mine = team_.measurement_of(thread_);
  const auto pattern = [&](int group) {
    return Pattern{layout.data.dtype, layout.data.op,
                   team_.groups[static_cast<std::size_t>(group)].num_ranks(),
                   static_cast<std::uint64_t>(pass)};
  };
  for (const Replica& replica : replicas_) {
    replica.fill_with_garbage(replica.receive, layout.slot_bytes);
    fill_input(layout, replica, pattern(replica.group));
  }
  meet();
  if (options_.graph_launches > 0)
    launch_captured(calls, 1, 1);
  else
    calls.run(0, 1);
  calls.synchronize();
  meet();
  for (std::size_t g = 0; g < team_.groups.size(); ++g)
    mine.wrong += count_wrong_of(layout, team_.groups[g], pattern(static_cast<int>(g)));
  share_measurements();  // before anyone counts again
  fill_with_ones(layout.data.dtype, layout.slot_bytes);
}

void Worker::fill_input(const Layout& layout, const Replica& replica, const Pattern& pattern) const {
  const auto fill = team_.collective.reduces ? fill_contribution : fill_message;
  std::byte* const buffer = layout.send_buffer(replica);
  if (replica.is_on_host()) {
    fill(pattern, replica.rank_in_group, buffer, 0, layout.counts.send);
    return;
  }
  std::vector<std::byte> staged(static_cast<std::size_t>(layout.counts.send * layout.element_bytes()));
  fill(pattern, replica.rank_in_group, staged.data(), 0, layout.counts.send);
  replica.write(buffer, staged);
}

// Does this thread's slice of every transfer.
std::int64_t Worker::count_wrong_of(const Layout& layout, const Group& group, const Pattern& pattern) const {
  std::int64_t wrong = 0;
  for (const Transfer& transfer : team_.collective.transfers(layout.counts, pattern.num_ranks, layout.root)) {
    const auto [begin, end] = slice_of(transfer.count, thread_, options_.threads, 1);
    std::vector<std::vector<std::byte>> staged;
    std::vector<const void*> results;
    for (const int rank : group.ranks) {
      const Replica* const found = team_.find_replica(rank);  // the other processes look at the others
      if (found == nullptr) continue;
      const Replica& replica = *found;
      if (transfer.destination != kAllRanks && transfer.destination != replica.rank_in_group) continue;
      const std::byte* const result =
          layout.receive_buffer(replica) + (transfer.destination_begin + begin) * layout.element_bytes();
      results.push_back(result);
      if (replica.is_on_host()) continue;
      staged.emplace_back(static_cast<std::size_t>((end - begin) * layout.element_bytes()));
      replica.read(result, staged.back());
      results.back() = staged.back().data();
    }
    if (results.empty()) continue;
    const std::int64_t first = transfer.source_begin + begin, last = transfer.source_begin + end;
    wrong += transfer.source == kAllRanks
                 ? count_wrong(pattern, results, first, last)
                 : count_wrong_copies(pattern, transfer.source, results, first, last);
  }
  return wrong;
}

void Worker::meet() {
  if (team_.processes.is_alone())
    team_.meet_threads();
  else
    team_.on_one_thread(thread_, [&] { team_.processes.meet(); });
}

void Worker::share_measurements() {
  team_.on_one_thread(thread_, [&] { share(team_.processes, team_.measurements); });
}

Layout Worker::layout(const DataCase& data, int root, std::int64_t size_bytes,
                      PlacementKind placement) const {
  const auto element = static_cast<std::int64_t>(size_of(data.dtype));
  const Counts counts = team_.collective.counts(size_bytes / element, group_size(), element);
  const std::int64_t slot_bytes = std::max(counts.send, counts.receive) * element;
  return {.data = data,
          .counts = counts,
          .root = root,
          .placement = placement,
          .slot_bytes = slot_bytes,
          .num_slots = slot_bytes > 0 ? options_.max_bytes / slot_bytes : 1};
}

// Every operator makes ones of ones, except sums, which grow. No operator makes denormal numbers, which would
// be slow.
void Worker::fill_with_ones(DType dtype, std::int64_t size_bytes) {
  const std::int64_t count = size_bytes / static_cast<std::int64_t>(size_of(dtype));
  for (const Replica& replica : replicas_) {
    for (std::byte* buffer : {replica.send, replica.receive}) replica.fill_with_ones(buffer, count, dtype);
    replica.stream.synchronize();
  }
}

}  // namespace lockstep::bench
