#include <chrono>
#include <memory>
#include <optional>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "engines/mpi/mpi_channel.hpp"
#include "engines/mpi/mpi_process.hpp"

namespace lockstep::engines {
namespace {

/// How long processes wait for each other when they open a channel, which they do at the same time.
constexpr std::chrono::seconds kOpenTimeout{60};

backend::Deadline after(std::chrono::milliseconds limit) {
  if (limit.count() == 0) return std::nullopt;
  return std::chrono::steady_clock::now() + limit;
}

class MpiEngine final : public backend::Engine {
 public:
  /// @param start_limit  for all processes to come; 0: none.
  explicit MpiEngine(std::chrono::milliseconds start_limit) : first_(MPI_COMM_WORLD, after(start_limit)) {}

  std::unique_ptr<backend::Channel> open_channel() override {
    return std::make_unique<MpiChannel>(first_.communicator(), after(kOpenTimeout));
  }
  void abandon() noexcept override { MpiProcess::get().abandon(); }

 private:
  MpiChannel first_;  // of a communicator that is not the program's own
};

std::unique_ptr<backend::Engine> start(const backend::EngineSetup& setup) {
  constexpr const char* kStarting = "starting the engine mpi";
  MpiProcess& mpi = MpiProcess::get();
  mpi.start(setup.num_processes);
  int process = 0, num_processes = 1;
  mpi.call(kStarting, [&] { return MPI_Comm_rank(MPI_COMM_WORLD, &process); });
  mpi.call(kStarting, [&] { return MPI_Comm_size(MPI_COMM_WORLD, &num_processes); });
  if (process != setup.process || num_processes != setup.num_processes)
    throw ContextError(
        detail::concat(kStarting, ": the cluster says that this is process ", setup.process, " of ",
                       setup.num_processes, ", and MPI that it is ", process, " of ", num_processes,
                       ". Start as many processes as the cluster has, in its order."),
        {.operation = kStarting});
  return std::make_unique<MpiEngine>(setup.start_limit);
}

bool make_known() {
  backend::register_engine({.name = "mpi", .is_launched = true, .start = &start});
  return true;
}

}  // namespace
}  // namespace lockstep::engines

// A program that links the static library asks for this name, and so for this file.
extern "C" const bool lockstep_mpi_engine;
const bool lockstep_mpi_engine = lockstep::engines::make_known();
