#include "simulation/system/system.hpp"

#include <algorithm>
#include <cstdio>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation/system/clock.hpp"
#include "simulation/system/real.hpp"

namespace lockstep::simulation {
namespace {

constexpr Time kSwitchTime = 2 * kMicrosecond;
constexpr std::uint64_t kChoicesPerPriority = 16;

void wait_on(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  REAL(syscall)(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& word) {
  REAL(syscall)(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

System* System::current_ = nullptr;
thread_local Thread* System::self_ = nullptr;

System::System(std::uint64_t seed, std::function<void(const std::string&)> on_failure)
    : random_(seed),
      random_of_faults_(~seed),
      on_failure_(std::move(on_failure)),
      calls_per_switch_(std::uint64_t{2} << random_.below(5)),
      has_priorities_(random_.once_in(2)) {
  pthread_key_create(&ends_, &end_thread);
  threads_.push_back(std::make_unique<Thread>());
  Thread& first = *threads_.front();
  first.process = &add_process("10.0.0.250");
  first.handle = pthread_self();
  alive_.push_back(&first);
  by_handle_[first.handle] = &first;
  current_ = this;
  self_ = &first;
  take_clock_of_processor();
}

void System::pass(Time duration) {
  now_ += duration;
  if (now_ >= next_event_ || random_.once_in(calls_per_switch_)) reschedule();
}

void System::yield(Time duration) {
  now_ += duration;
  reschedule();
}

bool System::wait(const void* queue, const char* call, Time deadline) {
  Thread& self = *self_;
  self.queue = queue;
  self.call = call;
  self.deadline = deadline;
  self.was_woken = false;
  self.state = Thread::State::waiting;
  reschedule();
  return self.was_woken;
}

void System::wake_all(const void* queue) {
  for (Thread* const thread : alive_) {
    if (thread->state != Thread::State::waiting || thread->queue != queue) continue;
    thread->state = Thread::State::runnable;
    thread->was_woken = true;
  }
}

void System::wake_one(const void* queue) {
  std::vector<Thread*> waiting;
  for (Thread* const thread : alive_)
    if (thread->state == Thread::State::waiting && thread->queue == queue) waiting.push_back(thread);
  if (waiting.empty()) return;
  Thread& one = *waiting[random_.below(waiting.size())];
  one.state = Thread::State::runnable;
  one.was_woken = true;
}

void System::at(Time time, std::function<void()> f) {
  events_.emplace(std::pair(time, num_events_++), std::move(f));
  next_event_ = events_.begin()->first.first;
}

void System::run_due() {
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    const auto f = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    f();
  }
  next_event_ = events_.empty() ? kNever : events_.begin()->first.first;
  for (Thread* const thread : alive_)
    if (thread->state == Thread::State::waiting && thread->deadline <= now_)
      thread->state = Thread::State::runnable;
}

// With priorities some threads run late for a while: orders that no draw among all of them gives.
Thread& System::prefer(const std::vector<Thread*>& eligible) {
  if (!has_priorities_) return *eligible[random_.below(eligible.size())];
  Thread& first = **std::ranges::max_element(eligible, {}, &Thread::priority);
  if (random_.once_in(kChoicesPerPriority)) first.priority = random_.next();
  return first;
}

Thread* System::choose() {
  for (;;) {
    run_due();
    eligible_.clear();
    Time next = next_event_;
    for (Thread* const thread : alive_) {
      if (thread->state == Thread::State::waiting) next = std::min(next, thread->deadline);
      if (thread->state == Thread::State::runnable && !thread->process->is_paused)
        eligible_.push_back(thread);
    }
    if (!eligible_.empty()) return &prefer(eligible_);
    if (next == kNever) fail("deadlock: nothing will ever happen");
    now_ = std::max(now_, next);
    if (now_ > time_limit_) fail("the simulation has not ended within its limit of virtual time");
  }
}

void System::reschedule() {
  Thread& self = *self_;
  if (now_ > time_limit_) fail("the simulation has not ended within its limit of virtual time");
  Thread& next = *choose();
  if (&next == &self) return;
  now_ += kSwitchTime;
  hand_over(next);
  await_baton(self);
}

void System::hand_over(Thread& next) {
  ++num_switches_;
  mix(static_cast<std::uint64_t>(now_) << 16 | static_cast<std::uint64_t>(next.number));
  next.baton.store(1);
  wake(next.baton);
}

void System::await_baton(Thread& thread) {
  while (thread.baton.exchange(0) == 0) wait_on(thread.baton, 0);
}

Process& System::add_process(std::string host) {
  processes_.push_back(std::make_unique<Process>());
  processes_.back()->number = static_cast<int>(processes_.size()) - 1;
  processes_.back()->host = std::move(host);
  return *processes_.back();
}

Thread& System::start_thread(Process& process, void* (*start)(void*), void* argument,
                             const pthread_attr_t* attributes) {
  threads_.push_back(std::make_unique<Thread>());
  Thread& thread = *threads_.back();
  thread.number = static_cast<int>(threads_.size()) - 1;
  thread.process = &process;
  thread.priority = random_.next();
  thread.start = start;
  thread.argument = argument;
  if (REAL(pthread_create)(&thread.handle, attributes, &run_thread, &thread) != 0)
    fail("the machine has no more threads");
  by_handle_[thread.handle] = &thread;
  alive_.push_back(&thread);
  return thread;
}

void* System::run_thread(void* thread) {
  self_ = static_cast<Thread*>(thread);
  await_baton(*self_);
  pthread_setspecific(current_->ends_, thread);
  return self_->start(self_->argument);
}

// After the destructors of thread_local objects. The thread does not go on, so that what the C library does
// at its end comes in no order of chance.
void System::end_thread(void* thread) {
  Thread& self = *static_cast<Thread*>(thread);
  self.state = Thread::State::ended;
  std::erase(current_->alive_, &self);
  current_->wake_all(&self);
  current_->hand_over(*current_->choose());
  for (;;) await_baton(self);
}

Thread* System::find_thread(pthread_t handle) {
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() ? nullptr : found->second;
}

bool System::has_ended(const Process& process) const {
  return std::ranges::none_of(alive_, [&](const Thread* thread) { return thread->process == &process; });
}

void System::kill(Process& process) {
  if (process.is_dead) return;
  const auto holds_shared = [&] {
    return std::ranges::any_of(alive_, [&](const Thread* thread) {
      return thread->process == &process && thread->num_shared_locks > 0;
    });
  };
  while (holds_shared()) {
    process.is_paused = false;
    yield(kMicrosecond);
  }
  process.is_dead = true;
  std::erase_if(alive_, [&](Thread* thread) {
    if (thread->process != &process) return false;
    thread->state = Thread::State::ended;
    return true;
  });
  for (const auto& f : on_kill_) f(process);
  for (const int file : process.files) REAL(close)(file);
  process.files.clear();
}

void System::set_paused(Process& process, bool is_paused) { process.is_paused = is_paused; }

void System::note(std::string_view said) {
  std::string text(said);
  for (std::size_t at = 0; !hidden_.empty() && (at = text.find(hidden_)) != text.npos;)
    text.replace(at, hidden_.size(), "~");
  for (const char c : text) mix(static_cast<unsigned char>(c));
  if (!is_verbose_) return;
  char begin[64];
  const int size = std::snprintf(
      begin, sizeof begin,
      "%12.6f ms  process %d, thread %d: ", static_cast<double>(now_) / static_cast<double>(kMillisecond),
      self_ == nullptr ? -1 : self_->process->number, self_ == nullptr ? -1 : self_->number);
  std::string line(begin, static_cast<std::size_t>(size));
  line += text;
  line += '\n';
  static_cast<void>(!REAL(write)(STDOUT_FILENO, line.data(), line.size()));
}

void System::fail(const std::string& text) {
  on_failure_(text + "\n" + describe_threads());
  ::_exit(1);
}

std::string System::describe_threads() const {
  std::string text;
  for (const Thread* const thread : alive_) {
    text += "  process " + std::to_string(thread->process->number) +
            (thread->process->is_paused ? " (paused)" : "") + ", thread " + std::to_string(thread->number) +
            ": ";
    text += thread->state == Thread::State::waiting ? std::string("waits in ") + thread->call : "runs";
    if (thread->state == Thread::State::waiting && thread->deadline != kNever)
      text += " until " + std::to_string(thread->deadline / kMillisecond) + " ms";
    text += '\n';
  }
  return text;
}

}  // namespace lockstep::simulation
