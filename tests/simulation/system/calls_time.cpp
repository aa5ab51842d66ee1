// Clocks, also the processor's, sleep, and what a process knows of itself, in place of the C library's and
// the processor's.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "simulation/system/clock.hpp"
#include "simulation/system/real.hpp"
#include "simulation/system/system.hpp"

using namespace lockstep::simulation;

namespace {

constexpr Time kLookTime = 100;  // of a look at the clock: loops that look until it is late end
constexpr Time kYieldTime = 20 * kMicrosecond;
constexpr int kFirstPid = 1000;

#if defined(__x86_64__)
/// Answers an rdtsc, which the system refuses. Any other fault is one.
void answer_rdtsc(int signal, siginfo_t*, void* context) {
  constexpr unsigned char kRdtsc[] = {0x0f, 0x31};
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const void* const instruction = reinterpret_cast<const void*>(registers[REG_RIP]);
  if (System::current() == nullptr || std::memcmp(instruction, kRdtsc, sizeof kRdtsc) != 0) {
    std::signal(signal, SIG_DFL);
    return;
  }
  const auto now = static_cast<std::uint64_t>(System::current()->now());
  registers[REG_RAX] = static_cast<greg_t>(now & 0xffff'ffff);
  registers[REG_RDX] = static_cast<greg_t>(now >> 32);
  registers[REG_RIP] += sizeof kRdtsc;
}
#endif

}  // namespace

void lockstep::simulation::take_clock_of_processor() {
#if defined(__x86_64__)
  struct sigaction action {};
  action.sa_sigaction = &answer_rdtsc;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
#endif
}

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (System::self() == nullptr) return REAL(clock_gettime)(clock, time);
  System::current()->pass(kLookTime);
  *time = shown(System::current()->now());
  return 0;
}

time_t time(time_t* time) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

int nanosleep(const timespec* time, timespec* rest) {
  if (System::self() == nullptr) return REAL(nanosleep)(time, rest);
  System& system = *System::current();
  system.sleep_until(system.now() + duration(*time));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (System::self() == nullptr) return REAL(clock_nanosleep)(clock, flags, time, rest);
  System& system = *System::current();
  system.sleep_until((flags & TIMER_ABSTIME) != 0 ? since_begin(*time) : system.now() + duration(*time));
  return 0;
}

int usleep(useconds_t time) {
  const timespec as_timespec{time / 1'000'000, static_cast<long>(time % 1'000'000) * 1'000};
  return nanosleep(&as_timespec, nullptr);
}

int sched_yield() noexcept {
  if (System::self() == nullptr) return REAL(sched_yield)();
  System::current()->yield(kYieldTime);
  return 0;
}

// Where there is one core, threads that wait for others do not spin.
int get_nprocs() noexcept { return 1; }

pid_t getpid() noexcept {
  return System::self() == nullptr ? REAL(getpid)() : kFirstPid + System::current()->process().number;
}

int gethostname(char* name, size_t size) noexcept {
  if (System::self() == nullptr) return REAL(gethostname)(name, size);
  std::strncpy(name, System::current()->process().host.c_str(), size);
  return 0;
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  if (System::self() == nullptr) return REAL(getrandom)(buffer, size, flags);
  for (size_t i = 0; i < size; ++i)
    static_cast<unsigned char*>(buffer)[i] = static_cast<unsigned char>(System::current()->random().next());
  return static_cast<ssize_t>(size);
}

/// std::random_device::operator(), which would ask the processor.
unsigned lockstep_random_device(void* device) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned lockstep_random_device(void*) {
  static Random before(0);
  return static_cast<unsigned>(System::self() == nullptr ? before.next()
                                                         : System::current()->random().next());
}

}  // extern "C"
