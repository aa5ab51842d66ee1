#include <algorithm>
#include <atomic>
#include <ostream>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep {
namespace {

using detail::in_quotes;

std::optional<DeviceKind> parse_kind(std::string_view text) {
  if (equals_ignoring_case(text, "cpu")) return DeviceKind::cpu;
  if (equals_ignoring_case(text, "gpu") || equals_ignoring_case(text, "cuda")) return DeviceKind::gpu;
  return {};
}

bool is_job_name(std::string_view text) {
  return !text.empty() && is_letter_ascii(text.front()) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter_ascii(c) || is_digit_ascii(c) || c == '_';
  });
}

// The parts of a name; each may occur once.
struct Parts {
  std::optional<DeviceKind> kind;
  std::optional<int> index, replica, task;
  std::optional<std::string> job;
};

// Reads "KIND" or "KIND:k". @return the problem; empty if there is none.
std::string read_kind_and_index(std::string_view text, Parts& parts) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::optional<DeviceKind> kind = parse_kind(name);
  if (!kind) return in_quotes(name) + " is not a kind of device";
  if (parts.kind) return "it names two devices";
  parts.kind = kind;
  parts.index = colon == text.npos ? 0 : parse_number(text.substr(colon + 1));
  if (!parts.index) return in_quotes(text.substr(colon + 1)) + " is not an index";
  return {};
}

std::string read_number(std::string_view key, std::string_view text, std::optional<int>& number) {
  if (number) return detail::concat("it has two ", key, "s");
  number = parse_number(text);
  return number ? "" : detail::concat(in_quotes(text), " is not a number of a ", key);
}

// Reads the text between two slashes. @return the problem; empty if there is none.
std::string read_component(std::string_view text, Parts& parts) {
  const std::size_t colon = text.find(':');
  const std::string_view key = text.substr(0, colon);
  if (colon != text.npos) {
    const std::string_view value = text.substr(colon + 1);
    if (equals_ignoring_case(key, "device")) return read_kind_and_index(value, parts);
    if (equals_ignoring_case(key, "replica")) return read_number("replica", value, parts.replica);
    if (equals_ignoring_case(key, "task")) return read_number("task", value, parts.task);
    if (equals_ignoring_case(key, "job")) {
      if (parts.job) return "it has two jobs";
      if (!is_job_name(value)) return in_quotes(value) + " is not the name of a job";
      parts.job = value;
      return {};
    }
  }
  return read_kind_and_index(text, parts);
}

// Reads an empty text, a kind with an index, or any number of components, each after a slash.
std::string read(std::string_view text, Parts& parts) {
  if (!text.empty() && text.front() != '/') return read_kind_and_index(text, parts);
  while (!text.empty()) {
    text.remove_prefix(1);
    const std::size_t slash = std::min(text.find('/'), text.size());
    if (std::string problem = read_component(text.substr(0, slash), parts); !problem.empty()) return problem;
    text.remove_prefix(slash);
  }
  return {};
}

}  // namespace

std::string_view name(DeviceKind kind) { return kind == DeviceKind::cpu ? "CPU" : "GPU"; }

Device::Device(DeviceKind kind, int index) : kind_(kind), index_(index) {
  LOCKSTEP_EXPECTS(index >= 0, InvalidArgument, "Device: index ", index, " of a ", name(kind),
                   " is negative. Count devices of a kind from 0.");
}

Device::Device(std::string_view text) {
  Parts parts;
  const std::string problem = read(text, parts);
  LOCKSTEP_EXPECTS(problem.empty(), InvalidArgument, "Device: ", in_quotes(text),
                   " is not the name of a device: ", problem,
                   ". Write it as GPU:0, /cpu:1, cuda:0, /device:GPU:0 or /job:worker/task:1/device:GPU:0.");
  kind_ = parts.kind.value_or(DeviceKind::cpu);
  index_ = parts.index.value_or(0);
  replica_ = parts.replica.value_or(0);
  task_ = parts.task.value_or(0);
  if (parts.job) job_ = *parts.job;
}

std::string Device::canonical_name() const {
  return detail::concat("/job:", job_, "/replica:", replica_, "/task:", task_, "/device:", name(kind_), ":",
                        index_);
}

std::string Device::to_string() const {
  return is_local() ? detail::concat(name(kind_), ":", index_) : canonical_name();
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.to_string(); }

// Not a static variable: a fork would wait for ever if another thread were initialising it.
const Device& detail::cpu_0() {
  static constinit std::atomic<const Device*> kept{nullptr};
  const Device* device = kept.load(std::memory_order_acquire);
  if (device == nullptr) {
    const auto* const made = new Device();
    if (kept.compare_exchange_strong(device, made, std::memory_order_acq_rel))
      device = made;
    else
      delete made;
  }
  return *device;
}

}  // namespace lockstep
