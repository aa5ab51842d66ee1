#include "usage.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include <malloc.h>
#include <unistd.h>

namespace lockstep::soak {
namespace {

std::int64_t num_entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

std::int64_t num_lines(const char* path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

/// The least of each: what is held at a moment comes and goes.
Usage least(std::span<const Usage> usages) {
  Usage least = usages.front();
  for (const Usage& usage : usages) {
    least.resident_kib = std::min(least.resident_kib, usage.resident_kib);
    least.num_threads = std::min(least.num_threads, usage.num_threads);
    least.num_descriptors = std::min(least.num_descriptors, usage.num_descriptors);
    least.num_mappings = std::min(least.num_mappings, usage.num_mappings);
  }
  return least;
}

std::string grown(const char* what, std::int64_t from, std::int64_t to, std::int64_t allowed) {
  if (to <= from + allowed) return "";
  return std::string(what) + " from " + std::to_string(from) + " to " + std::to_string(to) + "; ";
}

}  // namespace

Usage Usage::now() {
  malloc_trim(0);
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return {.resident_kib = resident * (sysconf(_SC_PAGESIZE) / 1024),
          .num_threads = num_entries("/proc/self/task"),
          .num_descriptors = num_entries("/proc/self/fd"),
          .num_mappings = num_lines("/proc/self/maps")};
}

std::string UsageHistory::growth() const {
  const std::size_t quarter = usages_.size() / 4;
  if (quarter == 0) return "too few lives to compare";
  const Usage before = least(std::span(usages_).subspan(quarter, quarter));
  const Usage after = least(std::span(usages_).last(quarter));
  return grown("resident KiB", before.resident_kib, after.resident_kib, 512 + before.resident_kib / 100) +
         grown("threads", before.num_threads, after.num_threads, 0) +
         grown("descriptors", before.num_descriptors, after.num_descriptors, 0) +
         grown("mappings", before.num_mappings, after.num_mappings, 8);
}

}  // namespace lockstep::soak
