// A process of an MPI job: runs one case, and says "process N: passed" where it holds.
//   mpirun -np N lockstep_mpi_program CASE FOLDER
// A case after which processes exit without MPI's end waits in FOLDER until all have passed, since mpirun
// ends the job with the first of them.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "cluster/worker_group.hpp"
#include "engines/channel_contract.hpp"
#include "engines/mpi/mpi.hpp"

using namespace lockstep;
using test::expect;

namespace {

int variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}
const int process = variable("OMPI_COMM_WORLD_RANK");
const int num_processes = variable("OMPI_COMM_WORLD_SIZE");

std::unique_ptr<backend::Engine> start(int size = num_processes) {
  return backend::find_engine("mpi")->start({.process = process, .num_processes = size});
}

template <class Kind, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

void other_size() {
  const std::string text = message_of<ContextError>([] { start(num_processes + 1); });
  expect(has(text, "MPI that it is") && has(text, "as many processes as the cluster has"), text.c_str());
  start()->open_channel()->barrier(std::nullopt);
}

void started_by_the_program(int wanted) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &level);
  if (wanted < MPI_THREAD_SERIALIZED) {
    const std::string text = message_of<ContextError>([] { start(); });
    expect(has(text, "for one thread") && has(text, "MPI_THREAD_MULTIPLE"), text.c_str());
  } else {
    const auto engine = start();
    for (const test::NamedChannelCase& named : test::channel_contract()) {
      if (!named.fails_group) named.run({process, num_processes, [&] { return engine->open_channel(); }});
    }
  }
  MPI_Finalize();
  expect(has(message_of<Error>([] { start()->open_channel()->barrier(std::nullopt); }), "MPI"),
         "what comes after MPI_Finalize is refused");
}

void after_a_time_limit() {
  const auto engine = start();
  const auto used = engine->open_channel();
  // Processes whose calls nobody answers, and what they send is not taken.
  std::array<std::byte, 512> own{};
  std::vector<std::byte> all(own.size() * static_cast<std::size_t>(num_processes));
  for (int i = 0; i < 20; ++i) {
    const auto late = engine->open_channel();
    if (process == i % num_processes) continue;
    message_of<CollectiveTimeout>([&] { late->all_gather(own, all, std::chrono::steady_clock::now()); });
    const std::string text = message_of<CollectiveAborted>([&] { late->barrier(std::nullopt); });
    expect(has(text, "did not come within the time limit"), text.c_str());
  }
  used->all_gather(own, all, std::nullopt);
  engine->open_channel()->barrier(std::nullopt);
}

void after_a_failure() {
  const auto engine = start();
  const auto used = engine->open_channel();
  const auto even = engine->open_channel(), odd = engine->open_channel();
  const int own = process % 2;
  std::byte byte{};
  const std::string late = message_of<CollectiveTimeout>([&] {
    (own == 0 ? *even : *odd).broadcast({&byte, 1}, 1 - own, std::chrono::steady_clock::now());
  });
  expect(has(late, "broadcast by the engine mpi: process " + std::to_string(1 - own) +
                       " did not come within the time limit"),
         late.c_str());
  const std::string text = message_of<CollectiveAborted>([&] { used->barrier(std::nullopt); });
  expect(has(text, "failed in another call"), text.c_str());
  const std::string starting = message_of<ContextError>([] { start(); });
  expect(has(starting, "Start the processes again"), starting.c_str());
}

void start_limit(const std::filesystem::path& folder) {
  const backend::EngineKind& mpi = *backend::find_engine("mpi");
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);  // waits for all processes by itself
  if (process == 0) {
    const std::string text = message_of<CollectiveTimeout>([&] {
      mpi.start(
          {.process = 0, .num_processes = num_processes, .start_limit = std::chrono::milliseconds(100)});
    });
    expect(has(text, "opening a channel by the engine mpi: a process did not come"), text.c_str());
    std::ofstream(folder / "limit") << "passed";
  }
  while (!std::filesystem::exists(folder / "limit")) std::this_thread::yield();
}

std::shared_ptr<detail::WorkerGroup> connect(const char* listen) {
  const std::vector<std::string> unknown(static_cast<std::size_t>(num_processes));
  const cluster::SimpleResolver resolver({{"worker", unknown}}, {.task_type = "worker", .task_id = process});
  return detail::WorkerGroup::connect(resolver, {},
                                      {{"LOCKSTEP_ENGINE", "mpi"}, {"LOCKSTEP_LISTEN", listen}});
}

void listens_where_told() {
  const auto group = connect("127.0.0.3");
  expect(group->label(0).starts_with("worker 0 (127.0.0.3:"), group->label(0).c_str());
}

void listens_where_it_cannot() {
  const auto connect_there = [] { connect("192.0.2.1"); };  // nobody's: RFC 5737
  const std::string text =
      process == 0 ? message_of<Error>(connect_there) : message_of<CollectiveAborted>(connect_there);
  expect(has(text, "Worker 0 cannot listen on '192.0.2.1:0'"), text.c_str());
  expect(process == 0 || has(text, "worker 0 has failed"), text.c_str());
  listens_where_told();
}

void after_a_loss() {
  const auto engine = start();
  const auto channel = engine->open_channel();
  engine->abandon();
  const std::string text = message_of<CollectiveAborted>([&] { channel->barrier(std::nullopt); });
  expect(has(text, "Start the job again"), text.c_str());
}

void exit_of_a_fork() {
  const auto engine = start();
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);
  int status = -1;
  ::waitpid(child, &status, 0);
  expect(status == 0, "a fork ends");
  engine->open_channel()->barrier(std::nullopt);
}

// Destroyed after MPI has ended.
std::unique_ptr<backend::Engine> kept_engine;
std::unique_ptr<backend::Channel> kept_channel;

void kept_until_exit() {
  kept_engine = start();
  kept_channel = kept_engine->open_channel();
  kept_channel->barrier(std::nullopt);
}

void exit_in_a_call() {
  // Never destroyed: the call uses them until the process ends.
  backend::Engine& engine = *start().release();
  std::array<backend::Channel*, 2> channels{};
  for (backend::Channel*& channel : channels) channel = engine.open_channel().release();
  static std::atomic<bool> is_called{false};
  // The processes call different channels, and wait until MPI ends.
  std::thread([channel = channels[static_cast<std::size_t>(process % 2)]] {
    is_called.store(true);
    try {
      channel->barrier(std::nullopt);
    } catch (const CollectiveAborted&) {
    }
  }).detach();
  while (!is_called.load()) std::this_thread::yield();
}

void wait_for_others(const std::filesystem::path& folder) {
  std::ofstream(folder / std::to_string(process)) << "passed";
  for (int p = 0; p < num_processes; ++p) {
    while (!std::filesystem::exists(folder / std::to_string(p))) std::this_thread::yield();
  }
}

void run(std::string_view name, const char* folder) {
  if (name == "other_size") return other_size();
  if (name == "kept_until_exit") return kept_until_exit();
  if (name == "started_for_one_thread") return started_by_the_program(MPI_THREAD_SINGLE);
  if (name == "started_serialized") return started_by_the_program(MPI_THREAD_SERIALIZED);
  if (name == "started_multiple") return started_by_the_program(MPI_THREAD_MULTIPLE);
  if (name == "after_a_time_limit") return after_a_time_limit();
  if (name == "exit_of_a_fork") return exit_of_a_fork();
  if (name == "listens_where_told") return listens_where_told();
  if (name == "listens_where_it_cannot") return listens_where_it_cannot();
  if (name == "after_a_failure" || name == "after_a_loss" || name == "start_limit") {
    if (name == "start_limit") start_limit(folder);
    if (name == "after_a_loss") after_a_loss();
    if (name == "after_a_failure") after_a_failure();
    return wait_for_others(folder);
  }
  if (name == "exit_in_a_call") {
    exit_in_a_call();
    return wait_for_others(folder);
  }
  const auto engine = start();
  bool is_known = false;
  for (const test::NamedChannelCase& named : test::channel_contract()) {
    if (name != named.name && !(name == "calls" && !named.fails_group)) continue;
    is_known = true;
    named.run({process, num_processes, [&] { return engine->open_channel(); }});
    if (named.fails_group) wait_for_others(folder);
  }
  expect(is_known, "there is no such case");
}

}  // namespace

int main(int, char** arguments) {
  ::alarm(120);
  try {
    run(arguments[1], arguments[2]);
    std::printf("process %d: passed\n", process);
    return 0;
  } catch (const std::exception& error) {
    std::printf("process %d: %s\n", process, error.what());
    return 1;
  }
}
