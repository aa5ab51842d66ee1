#include "simulation/flatness.hpp"

#include <algorithm>
#include <filesystem>

#include <malloc.h>

#include "detail/concat.hpp"

namespace lockstep::simulation {
namespace {

// Steps in which workers recover, and before a fault that comes by itself.
constexpr int kRecovery = 150, kMargin = 5;

// What is under way when it is looked at: rows that are read ahead, a checkpoint that is written.
constexpr std::ptrdiff_t kMaxBytesOfStretch = 64 << 10, kMaxBytes = 256 << 10;
constexpr std::size_t kMaxUnderWay = 6;

}  // namespace

void Flatness::look(const Plan& plan, int num_done) {
  if (plan.step_time == 0) return;
  const auto fault = std::ranges::find_if(plan.faults, [&](const Fault& f) { return f.at_step > num_done; });
  const auto next = static_cast<std::size_t>(fault - plan.faults.begin());
  const int begin = (next == 0 ? 0 : plan.faults[next - 1].at_step) + kRecovery;
  const bool ends = fault != plan.faults.end() && num_done >= fault->at_step - kMargin;
  if (begin_ && (next != next_ || ends)) {
    if (next == next_ && ends) {
      const Usage now = usage();
      compare(*begin_, now, num_done);
      num_grown_bytes_ +=
          static_cast<std::ptrdiff_t>(now.num_bytes) - static_cast<std::ptrdiff_t>(begin_->num_bytes);
      if (num_grown_bytes_ > kMaxBytes)
        system_.fail(concat("all stretches without a fault together: memory has grown by ", num_grown_bytes_,
                            " bytes"));
      ++num_stretches_;
    }
    begin_.reset();
  } else if (!begin_ && num_done >= begin && !ends) {
    next_ = next;
    begin_ = usage();
    if (!first_) first_ = begin_;
  }
}

Flatness::Usage Flatness::usage() const {
  const struct mallinfo2 memory = ::mallinfo2();
  Usage usage{.num_bytes = memory.uordblks + memory.hblkhd, .num_threads = system_.num_threads()};
  for (const auto& process : system_.processes())
    if (!process->is_dead)
      usage.num_descriptors += network_.num_descriptors(*process) + process->files.size();
  for (const auto& entry : std::filesystem::recursive_directory_iterator("."))
    usage.num_files += entry.is_regular_file();
  return usage;
}

void Flatness::compare(const Usage& before, const Usage& now, int step) const {
  const auto expect = [&](const char* what, std::size_t from, std::size_t to, std::size_t most) {
    if (to > from + most)
      system_.fail(concat("step ", step, ": ", what, " have grown from ", from, " to ", to));
  };
  expect("bytes of memory", before.num_bytes, now.num_bytes, kMaxBytesOfStretch);
  for (const Usage* const earlier : {&before, &*first_}) {
    expect("threads", earlier->num_threads, now.num_threads, kMaxUnderWay);
    expect("descriptors", earlier->num_descriptors, now.num_descriptors, kMaxUnderWay);
    expect("files", earlier->num_files, now.num_files, kMaxUnderWay);
  }
}

std::string Flatness::describe() const {
  return concat("stretches ", num_stretches_, " grown_bytes ", std::max<std::ptrdiff_t>(num_grown_bytes_, 0),
                " threads ", first_ ? first_->num_threads : 0, " descriptors ",
                first_ ? first_->num_descriptors : 0);
}

}  // namespace lockstep::simulation
