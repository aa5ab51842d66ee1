#pragma once

#include <cstdio>
#include <string>

#include <unistd.h>

namespace lockstep::test {

/// The text that f writes to the standard error stream, by any means.
template <class F>
std::string captured_stderr(F&& f) {
  std::FILE* const file = std::tmpfile();
  std::fflush(stderr);
  const int kept = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  struct Restore {
    int kept;
    void now() {
      if (kept < 0) return;
      std::fflush(stderr);
      dup2(kept, STDERR_FILENO);
      close(kept);
      kept = -1;
    }
    ~Restore() { now(); }
  } restore{kept};
  f();
  restore.now();
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace lockstep::test
