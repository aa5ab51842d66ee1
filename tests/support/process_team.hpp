#pragma once

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::test {

/// Memory that the forks of a process share with it, for a T of plain data.
template <class T>
class SharedWithForks {
 public:
  SharedWithForks()
      : data_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                  T()) {}
  ~SharedWithForks() { ::munmap(data_, sizeof(T)); }
  SharedWithForks(const SharedWithForks&) = delete;
  SharedWithForks& operator=(const SharedWithForks&) = delete;

  T* operator->() const noexcept { return data_; }

 private:
  T* data_;
};

/// Forks that each call f(process), and what became of them. All are ended and reaped before this goes.
class ProcessTeam {
 public:
  ProcessTeam(int num_processes, const std::function<void(int process)>& f) {
    for (int process = 0; process < num_processes && process < kMost; ++process) {
      const pid_t child = ::fork();
      if (child == 0) run(process, f);
      children_.push_back(child);
    }
  }
  ~ProcessTeam() {
    for (int process = 0; process < static_cast<int>(children_.size()); ++process) {
      if (children_[process] > 0) ::kill(children_[process], SIGKILL);
      wait(process);
    }
  }
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  pid_t id(int process) const { return children_.at(process); }

  /// Waits for the end of one: "" where f has returned, else what it threw, or "signal 9".
  std::string wait(int process) {
    if (children_[process] > 0) {
      int status = 0;
      while (::waitpid(children_[process], &status, 0) < 0 && errno == EINTR) {
      }
      children_[process] = -1;
      ends_.resize(children_.size());
      if (WIFSIGNALED(status))
        ends_[process] = "signal " + std::to_string(WTERMSIG(status));
      else if (WEXITSTATUS(status) != 0)
        ends_[process] = "threw: " + std::string(reports_->text[process]);
    }
    return ends_[process];
  }
  std::vector<std::string> wait_for_all() {
    std::vector<std::string> ends;
    for (int process = 0; process < static_cast<int>(children_.size()); ++process)
      ends.push_back(wait(process));
    return ends;
  }

 private:
  static constexpr int kMost = 8;
  struct Reports {
    char text[kMost][1000];
  };

  [[noreturn]] void run(int process, const std::function<void(int)>& f) {
    ::alarm(120);  // one that hangs ends by a signal
    try {
      f(process);
      ::_exit(0);
    } catch (const std::exception& error) {
      std::strncpy(reports_->text[process], error.what(), sizeof reports_->text[process] - 1);
    }
    ::_exit(1);
  }

  SharedWithForks<Reports> reports_;
  std::vector<pid_t> children_;
  std::vector<std::string> ends_;
};

}  // namespace lockstep::test
