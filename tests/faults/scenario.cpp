#include "faults/scenario.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <typeinfo>

#include <cxxabi.h>
#include <netdb.h>
#include <unistd.h>

#include <lockstep/error.hpp>

#include "faults/failing_calls.hpp"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Begins each line of a worker whose calls do not fail.
const char* margin = "";

bool fault(const std::string& what) {
  std::printf("%sFAULT: %s\n", margin, what.c_str());
  return false;
}

/// NAME of LOCKSTEP_FAIL=NAME:NUMBER:ERROR.
std::string failing_name() {
  const char* const text = std::getenv("LOCKSTEP_FAIL");
  const std::string whole = text == nullptr ? "" : text;
  return whole.substr(0, whole.find(':'));
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Whether a call's failure says nothing of a place.
bool is_placeless(std::string_view name) {
  for (const std::string_view other :
       {"new", "malloc", "calloc", "realloc", "posix_memalign", "pthread_create", "eventfd", "getrandom",
        "sigaction", "sysconf", "setenv", "poll"})
    if (name == other) return true;
  return name.starts_with("hwloc");
}

bool is_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const OutOfMemory*>(&error) != nullptr || contains(error.what(), "std::bad_alloc");
}

/// What the system says of the error.
std::string reason_of(std::string_view name, int error) {
  if (error == ECONNRESET || error == EPIPE) return "closed";  // by the peer
  if (name == "dlopen") return "an injected failure";
  if (name == "getaddrinfo" || name == "getnameinfo") return ::gai_strerror(error);
  return std::generic_category().message(error);
}

/// Whether the exception is one that may come, and says enough.
bool is_right(const std::exception& error, const Scenario& scenario) {
  const std::string text = text_of(error), name = failing_name();
  const bool is_named = !scenario.culprit.empty() && (contains(text, "worker " + scenario.culprit) ||
                                                      contains(text, "replica " + scenario.culprit) ||
                                                      contains(text, "process " + scenario.culprit));
  // MPI knows no names, and what has failed first is told by the call that did.
  if (name.starts_with("MPI_"))
    return (dynamic_cast<const Error*>(&error) != nullptr && (is_named || contains(text, "engine mpi"))) ||
           fault("neither MPI nor the worker is named: " + text);
  if (!scenario.culprit.empty())
    return (dynamic_cast<const Error*>(&error) != nullptr && is_named) ||
           fault("whose failure it is, is missing: " + text);
  if (FailingCalls::num_injected() == 0) return fault("an exception without a failure: " + text);
  const int code = FailingCalls::error();
  if (FailingCalls::must_be_repeated()) return fault("a call that must be repeated is not: " + text);
  if (is_of_memory(error) && (code == ENOMEM || code == EAI_MEMORY)) return true;
  if (dynamic_cast<const Error*>(&error) == nullptr)
    return fault("not one of the library's exceptions: " + text);
  // Gloo tells where it failed.
  if (contains(text, "enforce fail")) return true;
  // A time limit tells who has not come; what kept them may be any of the calls that were repeated.
  const bool is_time_limit = dynamic_cast<const CollectiveTimeout*>(&error) != nullptr;
  // std::filesystem goes on after a stat that fails, and may meet another reason.
  if (name != "stat" && !is_time_limit && !contains(text, reason_of(name, code)))
    return fault("the reason is missing: " + text);
  if (is_placeless(name)) return true;
  for (const std::string& place : scenario.places)
    if (contains(text, place)) return true;
  return fault("the place is missing: " + text);
}

std::size_t count(const char* folder) {
  std::size_t number = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    static_cast<void>(entry);
    ++number;
  }
  return number;
}

struct Left {
  std::size_t descriptors = count("/proc/self/fd"), threads = count("/proc/self/task");
};

bool leaves_no_more(std::size_t num_kept) {
  Left left;
  const char* const text = std::getenv("LOCKSTEP_FAULTS_LEFT");
  std::size_t descriptors = 0, threads = 0;
  const bool is_known =
      text != nullptr && std::sscanf(text, "%zu descriptors, %zu threads", &descriptors, &threads) == 2;
  for (int i = 0; i < 100 && is_known && (left.descriptors > descriptors || left.threads > threads); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    left = {};
  }
  std::printf("%sleft: %zu descriptors, %zu threads\n", margin, left.descriptors, left.threads);
  // Workers who do not know that they are on one host meet by Gloo, whose connections stay.
  const std::string name = failing_name();
  if (name == "gethostname" || name == "fopen64" || name == "read") return true;
  if (name == "new" || name == "pthread_create") descriptors += num_kept;
  if (!is_known || (left.descriptors <= descriptors && left.threads <= threads)) return true;
  std::string open;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    open += " " + fs::read_symlink(entry.path(), ignored).string();
  }
  return fault("more is left than " + std::string(text) + ":" + open);
}

template <class F>
bool passes(const char* what, const F& function) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    return fault(what + text_of(error));
  }
}

}  // namespace

std::string text_of(const std::exception& error) {
  int status = 0;
  char* const name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
  std::string text = std::string(name == nullptr ? typeid(error).name() : name) + ": " + error.what();
  std::free(name);
  return text;
}

int run_scenario(const Scenario& scenario) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  if (!scenario.culprit.empty()) margin = "  the other worker: ";
  bool is_good = true, has_failed = false;
  std::exception_ptr thrown;
  try {
    std::optional<FailingCalls> failing;
    if (scenario.culprit.empty()) failing.emplace();
    scenario.attempt();
  } catch (...) {
    thrown = std::current_exception();
  }
  try {
    if (thrown) std::rethrow_exception(thrown);
    std::printf("%suntouched\n", margin);
  } catch (const std::exception& error) {
    has_failed = true;
    std::printf("%s%s\n", margin, text_of(error).c_str());
    is_good = is_right(error, scenario);
  }
  is_good = passes("the state afterwards: ", [&] { scenario.check(has_failed); }) && is_good;
  if (scenario.await_others) {
    FailingCalls::write_trace();
    std::printf("%sleft: the end\n", margin);
    scenario.await_others();
    if (has_failed || !is_good) std::_Exit(is_good ? 0 : 1);  // MPI's end would wait for the others' end
    return 0;
  }
  is_good = passes("without failures: ", scenario.attempt) && is_good;
  is_good = passes("the state without failures: ", [&] { scenario.check(false); }) && is_good;
  thrown = nullptr;
  FailingCalls::write_trace();
  is_good = leaves_no_more(scenario.num_kept) && is_good;
  return is_good ? 0 : 1;
}

}  // namespace lockstep::test
