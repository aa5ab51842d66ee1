// Threads, mutexes and condition variables, in place of the C library's.
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation/system/clock.hpp"
#include "simulation/system/files.hpp"
#include "simulation/system/real.hpp"
#include "simulation/system/system.hpp"

using namespace lockstep::simulation;

extern "C" char __data_start, _end;  // of the program's static storage

namespace {

constexpr Time kLockTime = 50;
constexpr Time kThreadTime = 20 * kMicrosecond;
constexpr std::uint64_t kCallsPerSpuriousWakeup = 64;

bool is_shared(const void* object) {
  const auto* const at = static_cast<const char*>(object);
  return &__data_start <= at && at < &_end;
}

// A simulated mutex keeps its owner's number where the C library does, so that an initialiser frees both.
int& owner(pthread_mutex_t* mutex) { return mutex->__data.__owner; }
int own_number() { return System::self()->number + 1; }
bool is_recursive(const pthread_mutex_t* mutex) {
  return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

bool take(pthread_mutex_t* mutex) {
  if (owner(mutex) == own_number() && is_recursive(mutex)) {
    ++mutex->__data.__count;
    return true;
  }
  if (owner(mutex) != 0) return false;
  owner(mutex) = own_number();
  mutex->__data.__count = 1;
  if (is_shared(mutex)) ++System::self()->num_shared_locks;
  return true;
}

int lock(pthread_mutex_t* mutex, Time deadline) {
  System& system = *System::current();
  system.pass(kLockTime);
  while (!take(mutex))
    if (!system.wait(mutex, "the lock of a mutex", deadline) && deadline <= system.now()) return ETIMEDOUT;
  return 0;
}

void release(pthread_mutex_t* mutex) {
  if (--mutex->__data.__count > 0) return;
  owner(mutex) = 0;
  if (is_shared(mutex)) --System::self()->num_shared_locks;
  System::current()->wake_all(mutex);
}

int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex, Time deadline) {
  System& system = *System::current();
  release(mutex);
  if (system.random().once_in(kCallsPerSpuriousWakeup)) {
    system.yield(kMicrosecond);
    while (!take(mutex)) system.wait(mutex, "the lock of a mutex");
    return 0;
  }
  const bool was_woken = system.wait(condition, "a condition variable", deadline);
  while (!take(mutex)) system.wait(mutex, "the lock of a mutex");
  return was_woken ? 0 : ETIMEDOUT;
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (System::self() == nullptr) return REAL(pthread_create)(handle, attributes, start, argument);
  System& system = *System::current();
  system.pass(kThreadTime);
  *handle = system.start_thread(system.process(), start, argument, attributes).handle;
  return 0;
}

int pthread_join(pthread_t handle, void** result) {
  Thread* const thread = System::self() == nullptr ? nullptr : System::current()->find_thread(handle);
  if (thread == nullptr) return REAL(pthread_join)(handle, result);
  while (thread->state != Thread::State::ended) System::current()->wait(thread, "the join of a thread");
  if (result != nullptr) *result = nullptr;
  return 0;
}

int pthread_detach(pthread_t handle) noexcept {
  return System::self() == nullptr ? REAL(pthread_detach)(handle) : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return System::self() == nullptr ? REAL(pthread_mutex_lock)(mutex) : lock(mutex, kNever);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (System::self() == nullptr) return REAL(pthread_mutex_trylock)(mutex);
  System::current()->pass(kLockTime);
  return take(mutex) ? 0 : EBUSY;
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) noexcept {
  return System::self() == nullptr ? REAL(pthread_mutex_timedlock)(mutex, time)
                                   : lock(mutex, since_begin(*time));
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* time) noexcept {
  return System::self() == nullptr ? REAL(pthread_mutex_clocklock)(mutex, clock, time)
                                   : lock(mutex, since_begin(*time));
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (System::self() == nullptr) return REAL(pthread_mutex_unlock)(mutex);
  release(mutex);
  System::current()->pass(kLockTime);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return System::self() == nullptr ? REAL(pthread_cond_wait)(condition, mutex)
                                   : wait_for(condition, mutex, kNever);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  return System::self() == nullptr ? REAL(pthread_cond_timedwait)(condition, mutex, time)
                                   : wait_for(condition, mutex, since_begin(*time));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* time) {
  return System::self() == nullptr ? REAL(pthread_cond_clockwait)(condition, mutex, clock, time)
                                   : wait_for(condition, mutex, since_begin(*time));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (System::self() == nullptr) return REAL(pthread_cond_signal)(condition);
  System::current()->wake_one(condition);
  System::current()->pass(kLockTime);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (System::self() == nullptr) return REAL(pthread_cond_broadcast)(condition);
  System::current()->wake_all(condition);
  System::current()->pass(kLockTime);
  return 0;
}

int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  return System::self() == nullptr ? REAL(pthread_cond_destroy)(condition) : 0;
}

// As the C library has it: 0, then 1 while the function runs, then 2.
int pthread_once(pthread_once_t* once, void (*function)(void)) {
  if (System::self() == nullptr) return REAL(pthread_once)(once, function);
  System& system = *System::current();
  while ((*once & 1) != 0) system.wait(once, "pthread_once");
  if (*once == 2) return 0;
  *once = 1;
  ++System::self()->num_shared_locks;
  try {
    function();
  } catch (...) {
    *once = 0;
    --System::self()->num_shared_locks;
    system.wake_all(once);
    throw;
  }
  *once = 2;
  --System::self()->num_shared_locks;
  system.wake_all(once);
  return 0;
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (System::self() == nullptr || number != SYS_futex)
    return REAL(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                         arguments[5]);
  System& system = *System::current();
  const auto* const word = reinterpret_cast<const std::atomic<std::uint32_t>*>(arguments[0]);
  const void* const place = (arguments[1] & FUTEX_PRIVATE_FLAG) != 0 ? word : shared_place(word);
  const long operation = arguments[1] & FUTEX_CMD_MASK;
  system.pass(kLockTime);
  if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
    arguments[2] == 1 ? system.wake_one(place) : system.wake_all(place);
    return 0;
  }
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
    system.fail("a futex operation is not simulated");
  if (word->load() != static_cast<std::uint32_t>(arguments[2])) {
    errno = EAGAIN;
    return -1;
  }
  const auto* const time = reinterpret_cast<const timespec*>(arguments[3]);
  Time deadline = kNever;
  if (time != nullptr)
    deadline = operation == FUTEX_WAIT ? system.now() + duration(*time) : since_begin(*time);
  if (system.wait(place, "a futex", deadline)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

}  // extern "C"
