#include "engines/mpi/mpi_process.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/immortal.hpp"
#include "detail/parking.hpp"

namespace lockstep::engines {
namespace {

constexpr const char* kStarting = "starting the engine mpi";

// Launchers of MPI programs set one of these: Open MPI's and those with PMIx, as srun, and those with PMI.
bool is_launched() {
  return std::ranges::any_of(std::array{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) return detail::concat("error ", error);
  return {text, static_cast<std::size_t>(length)};
}

bool is_finalized() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  return is_finalized != 0;
}

template <class Kind>
[[noreturn]] void raise(std::string_view operation, const std::string& what) {
  throw Kind(detail::concat(operation, what), {.operation = std::string(operation)});
}

}  // namespace

MpiProcess& MpiProcess::get() { return detail::immortal<MpiProcess>(); }

bool MpiProcess::is_usable() const noexcept {
  return !has_failed_.load(std::memory_order_acquire) && !has_ended_.load(std::memory_order_seq_cst) &&
         !is_finalized();
}

void MpiProcess::start(int num_processes) {
  const std::lock_guard lock(mutex_);
  if (has_failed_.load(std::memory_order_acquire))
    raise<ContextError>(kStarting,
                        ": a call of MPI's has failed in this process, after which MPI cannot be used. "
                        "Start the processes again.");
  if (is_finalized())
    raise<ContextError>(kStarting,
                        ": the program has ended MPI. Call MPI_Finalize after the last use of lockstep.");
  if (is_started_) return;
  int was_started = 0;
  const auto check = [this](int error) {
    if (error != MPI_SUCCESS) fail(kStarting, error);
  };
  check(MPI_Initialized(&was_started));
  int level = MPI_THREAD_SINGLE;
  if (was_started != 0) {
    check(MPI_Query_thread(&level));
  } else {
    if (num_processes > 1 && !is_launched())
      raise<Unsupported>(
          kStarting,
          detail::concat(": no launcher of MPI has started this process. Start the program with mpirun -np ",
                         num_processes, " or srun --mpi=pmix, or use the engine gloo."));
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
    std::atexit([] { get().end(); });
  }
  if (level < MPI_THREAD_SERIALIZED)
    raise<ContextError>(kStarting, was_started != 0
                                       ? ": the program has started MPI for one thread. Start it by "
                                         "MPI_Init_thread with MPI_THREAD_MULTIPLE."
                                       : ": this MPI was built for one thread. Install one for several.");
  has_many_threads_ = level == MPI_THREAD_MULTIPLE;
  pid_ = ::getpid();
  is_started_ = true;
}

void MpiProcess::fail(std::string_view operation, int error) {
  abandon();
  raise<CollectiveAborted>(
      operation, detail::concat(" by the engine mpi: MPI says: ", text_of(error), ". Start the job again."));
}

void MpiProcess::wait(std::string_view operation, MPI_Request& request, std::string_view missing,
                      const FirstCause& cause, backend::Deadline deadline) {
  using std::chrono::steady_clock;
  // As in Parking: spinning, then yielding, which costs nobody anything; sleeping where it is long anyway.
  constexpr std::chrono::microseconds kSpinTime{10}, kYieldTime{10'000}, kSleepTime{50};
  const steady_clock::time_point begin = steady_clock::now();
  for (;;) {
    int is_done = 0;
    call(operation, [&] { return MPI_Test(&request, &is_done, MPI_STATUS_IGNORE); });
    if (is_done != 0) return;
    const steady_clock::time_point now = steady_clock::now();
    cause.raise_if_set(operation, "mpi");
    if (!is_usable())
      raise<CollectiveAborted>(operation,
                               " by the engine mpi: another call of MPI's has failed. Start the job again.");
    if (deadline && now >= *deadline)
      raise<CollectiveTimeout>(operation,
                               detail::concat(" by the engine mpi: ", missing,
                                              " did not come within the time limit. See what it does, or "
                                              "allow for more time."));
    if (now - begin > kYieldTime)
      std::this_thread::sleep_for(kSleepTime);
    else if (now - begin > kSpinTime)
      std::this_thread::yield();
    else
      detail::relax();
  }
}

// Waits for the other processes' ends, which call it too.
void MpiProcess::end() noexcept {
  if (::getpid() != pid_) return;  // a fork, whose parent goes on with MPI
  has_ended_.store(true, std::memory_order_seq_cst);
  if (has_failed_.load(std::memory_order_acquire) || num_uses_.load(std::memory_order_seq_cst) != 0) return;
  if (!is_finalized()) MPI_Finalize();
}

}  // namespace lockstep::engines
