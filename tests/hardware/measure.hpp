#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include <lockstep/lockstep.hpp>

/// lockstep_hardware: what only a GPU can tell, in sections that are run one by one, so that each can have a
/// time limit of its own. It prints lines of fields that tabs separate, which table.py reads:
///
///     section  what  value  unit  share    a figure: of the copy rate, where bytes are moved, else "-"
///     section  what  text                  a finding; in capitals where something is wrong
namespace lockstep::hardware {

inline const Device kGpu("GPU:0");

struct Settings {
  std::int64_t bytes = std::int64_t{256} << 20;  ///< Of a large tensor.
  int rounds = 9;                                ///< Whose median counts.
};

/// A section of one name.
class Section {
 public:
  Section(std::string_view name, const Settings& settings) : name_(name), settings_(settings) {}

  std::int64_t bytes() const { return settings_.bytes; }
  const Settings& settings() const { return settings_; }

  /// Measures the rate of a copy within the device's memory, the faster of two ways. Shares are of this rate.
  void measure_copy_rate();

  /// Prints the median time on the device of a call that enqueues work on `stream`, and its share of the copy
  /// rate.
  /// @param moved_bytes  the bytes that the work must read and write.
  void device_time(std::string_view what, const StreamRef& stream, double moved_bytes,
                   const std::function<void(int)>& call, int calls_per_round = 10);
  /// Prints the median time that a call, which only enqueues, takes of the host. @param wait  after each
  /// round.
  void host_time(std::string_view what, const std::function<void()>& call, const std::function<void()>& wait,
                 int calls_per_round = 200);
  void finding(std::string_view what, std::string_view text) const;

 private:
  double device_us(const StreamRef& stream, const std::function<void(int)>& call, int calls_per_round) const;
  void figure(std::string_view what, double us, double moved_bytes) const;

  std::string_view name_;
  Settings settings_;
  double copy_rate_ = 0;  // bytes per microsecond, read and written
};

/// Checks a call of the CUDA runtime that the library does not make.
/// @throws std::runtime_error  names the call and the error.
void check(cudaError_t status, const char* call);

void blocking(Section& section);
void copies(Section& section);
void elementwise(Section& section);
void host_costs(Section& section);
void nccl(Section& section);
void reductions(Section& section);
void semantics(Section& section);

}  // namespace lockstep::hardware
