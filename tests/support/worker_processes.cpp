#include "support/worker_processes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child_process.hpp"

namespace lockstep::test {
namespace {

using detail::FileDescriptor;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

bool is_free(int port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::string tf_config(const std::vector<std::string>& addresses, int worker) {
  std::string list;
  for (const std::string& address : addresses) list += (list.empty() ? "\"" : ", \"") + address + '"';
  return "{\"cluster\": {\"worker\": [" + list +
         "]}, \"task\": {\"type\": \"worker\", \"index\": " + std::to_string(worker) + "}}";
}

void set_environment(const WorkerProcessesOptions& options, const std::vector<std::string>& addresses,
                     int worker) {
  for (const char* const name :
       {"TF_CONFIG", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    ::unsetenv(name);
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  const std::string size = std::to_string(addresses.size());
  if (options.launch == Launch::tf_config) set("TF_CONFIG", tf_config(addresses, worker));
  if (options.launch == Launch::torchrun) {
    const std::size_t colon = addresses[0].rfind(':');
    set("RANK", std::to_string(worker));
    set("LOCAL_RANK", std::to_string(worker));
    set("WORLD_SIZE", size);
    set("LOCAL_WORLD_SIZE", size);
    set("MASTER_ADDR", addresses[0].substr(0, colon));
    set("MASTER_PORT", addresses[0].substr(colon + 1));
  }
  for (const std::string& one : options.environment) {
    const std::size_t equals = one.find('=');
    set(one.substr(0, equals).c_str(), one.substr(equals + 1));
  }
}

/// In the child.
[[noreturn]] void run(const std::function<int(int)>& f, int worker) {
  int status = kThrew;
  try {
    status = f(worker);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (...) {
    std::fputs("an exception of unknown type\n", stderr);
  }
  std::fflush(stdout);
  ::_exit(status);
}

}  // namespace

std::vector<std::string> free_addresses(int count) {
  // Below the ports that connections take for themselves.
  std::random_device random;
  std::uniform_int_distribution<int> any_port(10'000, 32'000);
  std::set<int> ports;
  while (static_cast<int>(ports.size()) < count) {
    const int port = any_port(random);
    if (is_free(port)) ports.insert(port);
  }
  std::vector<std::string> addresses;
  for (const int port : ports) addresses.push_back("127.0.0.1:" + std::to_string(port));
  return addresses;
}

WorkerProcesses::WorkerProcesses(int num_workers, const std::function<int(int)>& f,
                                 WorkerProcessesOptions options)
    : options_(std::move(options)),
      end_(Clock::now() + options_.time_limit),
      addresses_(free_addresses(num_workers)),
      workers_(static_cast<std::size_t>(num_workers)) {
  try {
    for (int worker = 0; worker < num_workers; ++worker) start(worker, f);
  } catch (...) {
    kill_all(false);
    throw;
  }
}

WorkerProcesses::WorkerProcesses(int num_workers, const std::vector<std::string>& command,
                                 WorkerProcessesOptions options)
    : WorkerProcesses(
          num_workers,
          [&](int) -> int {
            std::vector<char*> arguments;
            for (const std::string& argument : command)
              arguments.push_back(const_cast<char*>(argument.c_str()));
            arguments.push_back(nullptr);
            ::execvp(arguments[0], arguments.data());
            fail(arguments[0]);
          },
          std::move(options)) {}

WorkerProcesses::~WorkerProcesses() { kill_all(false); }

void WorkerProcesses::start(int worker, const std::function<int(int)>& f) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  FileDescriptor reads(ends[0]), writes(ends[1]);
  std::fflush(nullptr);  // or the child would write it too
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kThrew);
    ::alarm(static_cast<unsigned>(options_.time_limit.count() / 1000 + 2));  // should the parent hang
    // Catch2's handlers would report in the parent's name.
    for (const int number : {SIGINT, SIGILL, SIGFPE, SIGSEGV, SIGTERM, SIGABRT}) ::signal(number, SIG_DFL);
    ::dup2(writes.get(), STDOUT_FILENO);
    ::dup2(writes.get(), STDERR_FILENO);
    set_environment(options_, addresses_, worker);
    run(f, worker);
  }
  ::setpgid(child, child);  // whoever is first
  Worker& it = workers_[static_cast<std::size_t>(worker)];
  it.pid = child;
  it.output = std::move(reads);
  it.process = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!it.process.is_open()) fail("pidfd_open");
}

void WorkerProcesses::signal(int worker, int number) const {
  if (!worker_at(worker).has_ended) ::kill(worker_at(worker).pid, number);
}

bool WorkerProcesses::is_stopped(int worker) const {
  // "pid (name) state ...": the name may have anything in it.
  std::ifstream file("/proc/" + std::to_string(pid(worker)) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != text.npos && text.compare(name_end, 3, ") T") == 0;
}

void WorkerProcesses::read(Worker& worker) {
  std::array<char, 4096> bytes;
  for (;;) {
    pollfd readable{worker.output.get(), POLLIN, 0};
    if (::poll(&readable, 1, 0) <= 0) return;
    const auto size =
        detail::retry_interrupted([&] { return ::read(worker.output.get(), bytes.data(), bytes.size()); });
    if (size <= 0) {
      worker.output = FileDescriptor();
      return;
    }
    worker.result.output.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

void WorkerProcesses::end(Worker& worker) {
  int status = 0;
  detail::retry_interrupted([&] { return ::waitpid(worker.pid, &status, 0); });
  worker.has_ended = true;
  worker.result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  worker.result.left_processes = ::kill(-worker.pid, SIGKILL) == 0;
  if (worker.output.is_open()) read(worker);
}

bool WorkerProcesses::poll() {
  std::vector<pollfd> watched;
  std::vector<Worker*> of;
  for (Worker& worker : workers_) {
    if (worker.has_ended) continue;
    for (const FileDescriptor* const one : {&worker.process, &worker.output}) {
      if (!one->is_open()) continue;
      watched.push_back({one->get(), POLLIN, 0});
      of.push_back(&worker);
    }
  }
  if (watched.empty()) return false;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
  const int ready = rest <= 0 ? 0 : ::poll(watched.data(), watched.size(), static_cast<int>(rest));
  if (ready == 0) {
    kill_all(true);
    return false;
  }
  for (std::size_t i = 0; ready > 0 && i < watched.size(); ++i) {
    Worker& worker = *of[i];
    if (watched[i].revents == 0) continue;
    if (watched[i].fd == worker.process.get()) {
      end(worker);
    } else if (worker.output.is_open()) {
      read(worker);
    }
  }
  return true;
}

void WorkerProcesses::kill_all(bool timed_out) {
  for (Worker& worker : workers_) {
    if (worker.pid < 0 || worker.has_ended) continue;
    ::kill(worker.pid, SIGKILL);
    worker.result.timed_out = timed_out;
    end(worker);
  }
}

bool WorkerProcesses::wait_for_output(int worker, std::string_view text) {
  const Worker& it = worker_at(worker);
  while (it.result.output.find(text) == std::string::npos)
    if (it.has_ended || !poll()) return it.result.output.find(text) != std::string::npos;
  return true;
}

const WorkerResult& WorkerProcesses::wait(int worker) {
  while (!worker_at(worker).has_ended) poll();
  return worker_at(worker).result;
}

std::vector<WorkerResult> WorkerProcesses::wait() {
  while (poll()) continue;
  std::vector<WorkerResult> results;
  for (const Worker& worker : workers_) results.push_back(worker.result);
  return results;
}

}  // namespace lockstep::test
