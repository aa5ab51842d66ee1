#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pthread.h>

#include "simulation/system/random.hpp"

/// An operating system for several "processes" that are groups of threads of this one: scheduling, time,
/// sockets and files follow from a seed. The functions of calls_*.cpp, which this program has in place of the
/// C library's, come here.
namespace lockstep::simulation {

/// Nanoseconds since the simulation began.
using Time = std::int64_t;
constexpr Time kNever = INT64_MAX;
constexpr Time kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;

struct Process {
  int number = 0;
  std::string host{};  ///< Its address.
  bool is_dead = false, is_paused = false;
  bool has_full_disk = false;
  std::set<int> files{};  ///< Real descriptors, which a kill closes.
};

struct Thread {
  enum class State { runnable, waiting, ended };

  int number = 0;
  Process* process = nullptr;
  State state = State::runnable;
  const void* queue = nullptr;  ///< What it waits for; null: time alone.
  const char* call = "";        ///< In which it waits.
  Time deadline = kNever;
  bool was_woken = false;
  std::uint64_t priority = 0;
  int num_shared_locks =
      0;  ///< Of mutexes that all processes share here: it is not killed while it holds one.
  pthread_t handle{};
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  std::atomic<std::uint32_t> baton{0};  ///< 1: it may run.
};

/// Exists once, in a process that ends with it. One thread runs at a time and may call this; it goes on until
/// a call hands over.
class System {
 public:
  /// The calling thread becomes the first one, of process 0, which is never killed.
  /// @param on_failure  is called with a text, and must end the process.
  System(std::uint64_t seed, std::function<void(const std::string&)> on_failure);

  /// Null outside of a simulation.
  static System* current() noexcept { return current_; }
  /// The calling thread; null: it is none of the simulation's.
  static Thread* self() noexcept { return self_; }

  Time now() const noexcept { return now_; }
  Random& random() noexcept { return random_; }
  Random& random_of_faults() noexcept { return random_of_faults_; }

  /// A call that takes so long; another thread may run meanwhile.
  void pass(Time duration);
  /// Another thread runs, if there is one.
  void yield(Time duration);
  /// Returns when woken, or false at the deadline.
  bool wait(const void* queue, const char* call, Time deadline = kNever);
  void sleep_until(Time time) { wait(nullptr, "sleep", time); }
  void wake_all(const void* queue);
  void wake_one(const void* queue);
  /// Calls f then. It must not wait.
  void at(Time time, std::function<void()> f);

  Process& add_process(std::string host);
  Process& process() noexcept { return *self_->process; }
  /// Starts a thread that belongs to the process. @return its handle.
  Thread& start_thread(Process& process, void* (*start)(void*), void* argument,
                       const pthread_attr_t* attributes);
  Thread* find_thread(pthread_t handle);
  bool has_ended(const Process& process) const;
  std::size_t num_threads() const noexcept { return alive_.size(); }
  std::size_t num_ended_threads() const noexcept { return threads_.size() - alive_.size(); }
  const std::vector<std::unique_ptr<Process>>& processes() const noexcept { return processes_; }
  /// Its threads do not run any more. Waits until none holds what other processes need.
  void kill(Process& process);
  void set_paused(Process& process, bool is_paused);
  /// Called for a process that is killed.
  void on_kill(std::function<void(Process&)> f) { on_kill_.push_back(std::move(f)); }

  /// What has happened, for the hash, and the log where it is on.
  void note(std::string_view text);
  /// In notes "~" stands for it: a folder's name differs from run to run.
  void hide(std::string text) { hidden_ = std::move(text); }
  void mix(std::uint64_t value) noexcept { hash_ = (hash_ ^ value) * 0x100000001b3; }
  std::uint64_t hash() const noexcept { return hash_; }
  void set_verbose(bool is_verbose) noexcept { is_verbose_ = is_verbose; }
  bool is_verbose() const noexcept { return is_verbose_; }
  void set_time_limit(Time limit) noexcept { time_limit_ = limit; }

  /// Ends the simulation.
  [[noreturn]] void fail(const std::string& text);
  /// Where each thread waits.
  std::string describe_threads() const;
  std::uint64_t num_switches() const noexcept { return num_switches_; }

 private:
  static void* run_thread(void* thread);
  static void end_thread(void* thread);
  void reschedule();
  Thread* choose();
  Thread& prefer(const std::vector<Thread*>& eligible);
  void run_due();
  void hand_over(Thread& next);
  static void await_baton(Thread& thread);

  static System* current_;
  static thread_local Thread* self_;

  Random random_, random_of_faults_;
  const std::function<void(const std::string&)> on_failure_;
  const std::uint64_t calls_per_switch_;
  const bool has_priorities_;  // else all threads are alike
  Time now_ = 0, next_event_ = kNever, time_limit_ = kNever;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> events_{};
  std::uint64_t num_events_ = 0, num_switches_ = 0, hash_ = 0xcbf29ce484222325;
  std::vector<std::unique_ptr<Process>> processes_{};
  std::vector<std::unique_ptr<Thread>> threads_{};  // also those that have ended
  std::vector<Thread*> alive_{}, eligible_{};
  std::map<pthread_t, Thread*> by_handle_{};
  std::vector<std::function<void(Process&)>> on_kill_{};
  pthread_key_t ends_{};
  std::string hidden_{};  // empty: nothing
  bool is_verbose_ = false;
};

}  // namespace lockstep::simulation
