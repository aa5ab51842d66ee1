#include <cerrno>
#include <csignal>
#include <system_error>

#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/report.hpp>

#include "detail/bounded_text.hpp"
#include "detail/expects.hpp"
#include "detail/ticks.hpp"
#include "trace/call_group.hpp"

namespace lockstep {

namespace {

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ::ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// "2.5", in seconds.
void put_seconds(detail::BoundedText<512>& line, std::uint64_t ns) noexcept {
  line << ns / 1'000'000'000 << "." << ns / 100'000'000 % 10;
}

// Everything that this calls may be called in a signal handler: it reads atomics, and takes no memory or
// lock.
void write_report(int) noexcept {
  const int error = errno;
  const detail::ClockPair now;
  detail::BoundedText<512> line;
  detail::CallGroup::for_each([&](const detail::CallGroup& group) {
    line.clear();
    line << "lockstep: group " << group.number() << " of " << group.num_ranks() << " " << group.member()
         << (group.num_ranks() == 1 ? ":\n" : "s:\n");
    write_all(line.view());
    for (int rank = 0; rank < group.num_ranks(); ++rank) {
      line.clear();
      line << "lockstep:   " << group.labels()[static_cast<std::size_t>(rank)] << ": ";
      detail::CallRecord record;
      if (!group[rank].read_newest(record)) {
        line << "no call\n";
      } else {
        detail::BoundedText<256> call;
        record.put(call);
        line << "call " << record.call << ", " << call.view() << ", " << name(record.state) << ", made ";
        put_seconds(line, detail::ns_since(record.tick, detail::CallGroup::beginning(), now));
        line << " s ago\n";
      }
      write_all(line.view());
    }
  });
  errno = error;
}

}  // namespace

void install_report_signal(int signal) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    LOCKSTEP_EXPECTS(signal != fault, InvalidArgument, "install_report_signal: signal ", signal,
                     ": a fault would come again where the handler returns. Pass another one, as SIGUSR1.");
  struct ::sigaction action {};
  action.sa_handler = write_report;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  const bool is_installed = ::sigaction(signal, &action, nullptr) == 0;
  const int error = errno;
  LOCKSTEP_EXPECTS(is_installed, InvalidArgument, "install_report_signal: signal ", signal, ": ",
                   std::generic_category().message(error),
                   ". Pass one that a program may handle, as SIGUSR1.");
}

}  // namespace lockstep
