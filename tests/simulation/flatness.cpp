#include "simulation/flatness.hpp"

#include <algorithm>
#include <filesystem>

#include <malloc.h>

#include "detail/concat.hpp"

namespace lockstep::simulation {
namespace {

using detail::concat;

// Steps after a fault: pools and caches reach what they need at most, and are looked at only then.
constexpr int kRecovery = 900;
constexpr int kMargin = 5;  // steps before the next fault, which may come early

// What is under way when it is looked at: rows that are read ahead, a checkpoint that is written.
constexpr std::size_t kMaxBytes = 48 << 10, kMaxUnderWay = 6;
// The simulation keeps ended threads, and what the C library has for each.
constexpr std::size_t kBytesPerEndedThread = 1200;

}  // namespace

void Flatness::look(const Plan& plan, int num_done) {
  if (!plan.is_long) return;
  const auto fault = std::ranges::find_if(plan.faults, [&](const Fault& f) { return f.at_step > num_done; });
  const int begin = (fault == plan.faults.begin() ? 0 : std::prev(fault)->at_step) + kRecovery;
  const int end = (fault == plan.faults.end() ? plan.num_steps : fault->at_step) - kMargin;
  if (num_done < begin) {
    begin_.reset();
  } else if (num_done < end && !begin_) {
    begin_ = usage();
    if (!first_) first_ = begin_;
  } else if (num_done >= end && begin_) {
    compare(*begin_, usage(), num_done);
    begin_.reset();
    ++num_stretches_;
  }
}

Flatness::Usage Flatness::usage() const {
  const struct mallinfo2 memory = ::mallinfo2();
  const std::size_t num_bytes = memory.uordblks + memory.hblkhd;
  Usage usage{
      .num_bytes = num_bytes - std::min(num_bytes, kBytesPerEndedThread * system_.num_ended_threads()),
      .num_threads = system_.num_threads()};
  for (const auto& process : system_.processes())
    if (!process->is_dead)
      usage.num_descriptors += network_.num_descriptors(*process) + process->files.size();
  for (const auto& entry : std::filesystem::recursive_directory_iterator("."))
    usage.num_files += entry.is_regular_file();
  return usage;
}

void Flatness::compare(const Usage& before, const Usage& now, int step) {
  const auto expect = [&](const char* what, std::size_t from, std::size_t to, std::size_t most) {
    if (to > from + most)
      system_.fail(concat("step ", step, ": ", what, " have grown from ", from, " to ", to));
  };
  expect("bytes of memory", before.num_bytes, now.num_bytes, kMaxBytes);
  for (const Usage& earlier : {before, *first_}) {
    expect("threads", earlier.num_threads, now.num_threads, kMaxUnderWay);
    expect("descriptors", earlier.num_descriptors, now.num_descriptors, kMaxUnderWay);
    expect("files", earlier.num_files, now.num_files, kMaxUnderWay);
  }
  if (now.num_bytes > before.num_bytes) num_grown_bytes_ += now.num_bytes - before.num_bytes;
}

std::string Flatness::describe() const {
  return concat("stretches ", num_stretches_, " grown_bytes ", num_grown_bytes_);
}

}  // namespace lockstep::simulation
