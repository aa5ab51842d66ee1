#include <cstdlib>
#include <exception>
#include <string>

#include <unistd.h>

#include <lockstep/trace.hpp>

#include "detail/concat.hpp"
#include "detail/process.hpp"
#include "detail/warn.hpp"
#include "trace/recording.hpp"

namespace lockstep::detail {

namespace {

struct File {
  std::string name;
  Process process;
};

File* file = nullptr;  // never destroyed: it is read while the process exits

void write_at_exit() {
  if (file->process.is_forked()) return;  // the parent writes the file
  try {
    trace::stop();
    trace::write(file->name);
  } catch (const std::exception& error) {
    warn(concat("LOCKSTEP_TRACE: ", error.what()));
  }
}

}  // namespace

bool start_from_environment() noexcept {
  const char* const name = std::getenv("LOCKSTEP_TRACE");
  if (name == nullptr || *name == '\0') return false;
  try {
    file = new File{name, Process()};
    if (const std::size_t at = file->name.find("%p"); at != std::string::npos)
      file->name.replace(at, 2, std::to_string(getpid()));
    trace::start();
    return std::atexit(write_at_exit) == 0;
  } catch (const std::exception& error) {
    warn(concat("LOCKSTEP_TRACE: ", error.what()));
    return false;
  }
}

}  // namespace lockstep::detail
