#pragma once

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <sys/wait.h>

namespace lockstep::bench {

struct Ended {
  int status = -1;     ///< -1: a signal ended it.
  std::string output;  ///< Errors included.
};

/// Runs a command of the shell to its end.
inline Ended run_command(const std::string& command) {
  std::FILE* const pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen has failed");
  Ended ended;
  std::array<char, 4096> text{};
  while (const std::size_t size = std::fread(text.data(), 1, text.size(), pipe))
    ended.output.append(text.data(), size);
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

}  // namespace lockstep::bench
