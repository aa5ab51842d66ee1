#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

/// What a program does while calls fail, and what must hold afterwards.
struct Scenario {
  /// Everything that the scenario is about, from the beginning, so that it can be done again. Calls fail in
  /// it.
  std::function<void()> attempt{};
  /// Whether the state is as before, or as the exception says. @throws std::exception  it is not.
  std::function<void(bool has_failed)> check = [](bool) {};
  /// What a message may name as the place of a failure: folders, addresses.
  std::vector<std::string> places{};
  /// The number of the worker, and replica, in whose process calls fail. Empty: they fail in this one.
  std::string culprit{};
  /// Set where a process can use the library once only: waits for the others before its end.
  std::function<void()> await_others{};
  /// Descriptors that another library keeps where it has no memory or no thread.
  std::size_t num_kept = 0;
};

/// Runs the scenario once with calls that fail, as the environment says, and once without. Says "untouched",
/// or which exception came, and "left: …", what the process still has open; then LOCKSTEP_FAULTS_LEFT may say
/// how much that is without failures.
///
/// @return the program's exit status; 1 after "FAULT: …": an exception that is not the library's, or does not
/// name what failed; a call that was cut short or interrupted and is not repeated; a state that `check`
/// refuses; a failure in the second run; more descriptors or threads than without failures.
int run_scenario(const Scenario& scenario);

/// The exception's type, demangled, and its message.
std::string text_of(const std::exception& error);

}  // namespace lockstep::test
