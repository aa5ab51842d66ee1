// Passes over random pipelines, interrupted at a random place and gone on with in another process: what is
// left must be what the uninterrupted pass gives. `lockstep_resume_campaign FIRST COUNT` tries so many seeds,
// and says of each that fails what it was.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <lockstep/log.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "detail/concat.hpp"
#include "input/resume/random_pipeline.hpp"
#include "support/input.hpp"
#include "support/temporary_directory.hpp"
#include "support/worker_group.hpp"

namespace lockstep::test {
namespace {

using detail::concat;
using Lines = std::vector<std::string>;
using Distributed = DistributedDataset<PerReplica<Tensor>>;

enum Mode { elements, steps, files, batches, kNumModes };

/// On which replicas of which workers a pass is read.
struct Readers {
  int workers = 1, replicas = 1, buffer = 0;
};

std::string text_of(const Tensor& element) { return std::to_string(element.item<std::int64_t>()); }
std::string text_of(const PerReplica<Tensor>& step) {
  std::string text;
  for (const Values& part : components(step)) {
    text += text.empty() ? "" : " |";
    for (const std::int64_t value : part) text += ' ' + std::to_string(value);
  }
  return text;
}

/// The next value or exception; "": the end.
template <class Iterator>
std::string next_line(Iterator& iterator) {
  try {
    const auto value = iterator.next_optional();
    return value ? text_of(*value) + ' ' : "";
  } catch (const Error& error) {
    return concat("throws ", dynamic_cast<const InvalidArgument*>(&error) != nullptr, ' ', error.what());
  }
}

template <class Iterator>
Lines rest_of(Iterator& iterator) {
  Lines lines;
  for (std::string line = next_line(iterator); !line.empty(); line = next_line(iterator))
    lines.push_back(line);
  return lines;
}

/// What a pass that is restored gives, if it is saved and restored again after two values.
template <class Open>
Lines rest_after(const Open& open, const IteratorState& state) {
  auto first = open();
  first.restore_state(state);
  Lines lines;
  for (int i = 0; i < 2; ++i)
    if (const std::string line = next_line(first); !line.empty()) lines.push_back(line);
  auto second = open();
  second.restore_state(first.save_state());
  for (const std::string& line : rest_of(second)) lines.push_back(line);
  return lines;
}

IteratorState read_state(const std::string& path) {
  const std::string bytes = read_bytes(path);
  const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

void write_state(const IteratorState& state, const std::string& path) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(state.data()), static_cast<std::streamsize>(state.size()));
}

/// The datasets of the workers of a group.
std::vector<Distributed> distributed(const WorkerGroup& group, const RandomPipeline& pipeline, Mode mode,
                                     std::int64_t batch, bool is_padded, const Readers& readers) {
  std::vector<Distributed> datasets;
  for (int worker = 0; worker < readers.workers; ++worker)
    datasets.push_back(detail::distribute(
        is_padded ? pipeline.elements.padded_batch(batch) : pipeline.elements.batch(batch),
        worker_target(group, worker, host_devices(readers.replicas)),
        {.per_replica_buffer_size = readers.buffer,
         .auto_shard_policy = mode == files ? AutoShardPolicy::file : AutoShardPolicy::data}));
  return datasets;
}

Values rows_of(const std::string& line) {
  Values rows;
  std::string text = line;
  std::replace(text.begin(), text.end(), '|', ' ');
  std::istringstream words(text);
  for (std::int64_t row = 0; words >> row;) rows.push_back(row);
  return rows;
}

std::string joined(Values rows) {
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const std::int64_t row : rows) text += std::to_string(row) + ' ';
  return text;
}

/// What several workers' lines have in common with those of other numbers of workers: with `batches` the rows
/// of each step, with `files` the rows of all steps.
Lines merged(const std::vector<Lines>& workers, Mode mode) {
  std::vector<Values> of_steps;
  for (const Lines& lines : workers)
    for (std::size_t step = 0; step < lines.size(); ++step) {
      const std::size_t place = mode == files ? 0 : step;
      if (of_steps.size() <= place) of_steps.resize(place + 1);
      const Values rows = rows_of(lines[step]);
      of_steps[place].insert(of_steps[place].end(), rows.begin(), rows.end());
    }
  Lines lines;
  for (const Values& rows : of_steps)
    if (!rows.empty()) lines.push_back(joined(rows));
  return lines;
}

/// One seed's case.
struct Case {
  Mode mode;
  RandomPipeline pipeline;
  std::int64_t num_before, batch;
  bool is_padded;  // batches whose rows are no one sequence
  Readers before, after;

  static Case of(std::uint64_t seed, const std::string& folder) {
    Dice dice(seed * 7919 + 1);
    const auto mode = static_cast<Mode>(seed % 8 < 4    ? elements
                                        : seed % 8 < 6  ? steps
                                        : seed % 8 == 6 ? files
                                                        : batches);
    const auto readers = [&] {
      return Readers{.workers = mode >= files ? 1 + static_cast<int>(dice.below(3)) : 1,
                     .replicas = 1 + static_cast<int>(dice.below(mode >= files ? 2 : 4)),
                     .buffer = static_cast<int>(dice.below(3))};
    };
    const Readers before = readers(), after = readers();
    const std::int64_t batch = 1 + dice.below(9);
    return {mode,
            mode >= files ? random_files(seed, folder) : random_pipeline(seed, folder),
            dice.below(mode == elements ? 40 : 8),
            batch,
            dice.below(2) == 0,
            before,
            after};
  }

  std::string text() const {
    const auto of = [](const Readers& readers) {
      return concat(readers.workers, "x", readers.replicas, " replicas, buffer ", readers.buffer);
    };
    return concat("mode ", static_cast<int>(mode), ", ", pipeline.text, ", batch ", batch, ", saved after ",
                  num_before, " on ", of(before), ", restored on ", of(after));
  }

  /// What the uninterrupted pass gives after the place where it is saved.
  Lines uninterrupted(const std::string& path) const {
    if (mode == elements) {
      auto iterator = pipeline.elements.iterator();
      for (std::int64_t i = 0; i < num_before; ++i) next_line(iterator);
      write_state(iterator.save_state(), path);
      return rest_of(iterator);
    }
    if (mode == steps) {
      MirroredStrategy strategy(host_devices(before.replicas));
      auto iterator =
          strategy
              .distribute_dataset(pipeline.elements.batch(batch), {.per_replica_buffer_size = before.buffer})
              .iterator();
      for (std::int64_t i = 0; i < num_before; ++i) next_line(iterator);
      write_state(iterator.save_state(), path);
      return comparable(rest_of(iterator));
    }
    const WorkerGroup group(before.workers);
    const auto datasets = distributed(group, pipeline, mode, batch, is_padded, before);
    return merged(on_workers(before.workers,
                             [&](int worker) {
                               auto iterator = datasets[static_cast<std::size_t>(worker)].iterator();
                               for (std::int64_t i = 0; i < num_before; ++i) next_line(iterator);
                               const IteratorState state = iterator.save_state();
                               if (worker == 0) write_state(state, path);
                               return rest_of(iterator);
                             }),
                  mode);
  }

  /// What a restored pass gives.
  Lines restored(const std::string& path) const {
    const IteratorState state = read_state(path);
    if (mode == elements) {
      return rest_after([&] { return pipeline.elements.iterator(); }, state);
    }
    if (mode == steps) {
      MirroredStrategy strategy(host_devices(after.replicas));
      const auto dataset = strategy.distribute_dataset(pipeline.elements.batch(batch),
                                                       {.per_replica_buffer_size = after.buffer});
      return comparable(rest_after([&] { return dataset.iterator(); }, state));
    }
    const WorkerGroup group(after.workers);
    const auto datasets = distributed(group, pipeline, mode, batch, is_padded, after);
    return merged(on_workers(after.workers,
                             [&](int worker) {
                               const Distributed& dataset = datasets[static_cast<std::size_t>(worker)];
                               return rest_after([&] { return dataset.iterator(); }, state);
                             }),
                  mode);
  }

 private:
  /// With other numbers of replicas the global batches are the same, and not the parts.
  Lines comparable(Lines lines) const {
    if (before.replicas == after.replicas) return lines;
    for (std::string& line : lines)
      if (!line.starts_with("throws"))
        line = std::to_string(rows_of(line).size()) + ": " + ordered(rows_of(line));
    return lines;
  }
  static std::string ordered(const Values& rows) {
    std::string text;
    for (const std::int64_t row : rows) text += std::to_string(row) + ' ';
    return text;
  }
};

Lines lines_of(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), n);
  if (::pclose(pipe) != 0) output += "the process failed\n";
  Lines lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

int run(std::uint64_t first, std::uint64_t count) {
  const TemporaryDirectory folder;
  write_number_files(folder.path());
  std::size_t num_failed = 0, num_lines = 0, num_bytes = 0;
  std::array<int, kNumModes> num_of{};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string state = (folder / "state").string();
    const Case one = Case::of(seed, folder.path().string());
    try {
      const Lines expected = one.uninterrupted(state);
      const Lines given =
          lines_of(concat("/proc/", ::getpid(), "/exe rest ", seed, " ", folder.path().string()));
      num_lines += expected.size();
      num_bytes = std::max(num_bytes, read_bytes(state).size());
      ++num_of[one.mode];
      if (given == expected) continue;
      const auto differs = std::mismatch(expected.begin(), expected.end(), given.begin(), given.end());
      std::cout << "seed " << seed << ": " << one.text() << "\n  after " << (differs.first - expected.begin())
                << " of " << expected.size() << ": expected "
                << (differs.first == expected.end() ? "the end" : *differs.first) << ", given "
                << (differs.second == given.end() ? "the end" : *differs.second) << '\n';
    } catch (const std::exception& error) {
      std::cout << "seed " << seed << ": " << one.text() << "\n  " << error.what() << '\n';
    }
    ++num_failed;
  }
  std::cout << count << " passes interrupted and gone on with (" << num_of[elements] << " over elements, "
            << num_of[steps] << " on replicas, " << num_of[files] << " on workers with files of their own, "
            << num_of[batches] << " on workers with slices): " << num_lines
            << " elements and steps were left, the largest state had " << num_bytes << " bytes, "
            << num_failed << " differ" << std::endl;
  return num_failed == 0 ? 0 : 1;
}

int main_of(const std::vector<std::string>& arguments) {
  set_log_sink([](std::string_view) {});
  if (arguments.size() == 3 && arguments[0] == "rest") {
    const Case one = Case::of(std::stoull(arguments[1]), arguments[2]);
    for (const std::string& line : one.restored(arguments[2] + "/state")) std::cout << line << '\n';
    return 0;
  }
  if (arguments.size() != 2) return 2;
  return run(std::stoull(arguments[0]), std::stoull(arguments[1]));
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  try {
    return lockstep::test::main_of({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    std::cout << "restored: " << error.what() << std::endl;
    return 1;
  }
}
