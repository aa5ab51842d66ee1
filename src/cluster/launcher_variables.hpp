#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/cluster/environment.hpp>

namespace lockstep::detail {

/// A variable's value; null if it is not set or blank.
const std::string* find_variable(const cluster::EnvironmentVariables& variables, std::string_view name);

/// The variables that a launcher sets. Errors name the launcher, the variables and their values.
class LauncherVariables {
 public:
  LauncherVariables(const cluster::EnvironmentVariables& variables, std::string_view launcher)
      : variables_(variables), launcher_(launcher) {}

  const std::string* find(std::string_view name) const { return find_variable(variables_, name); }
  /// The first of two variables if it is set, else the second.
  std::string_view first_set(std::string_view first, std::string_view second) const {
    return find(first) ? first : second;
  }
  /// @throws InvalidArgument  the variable is not set.
  const std::string& text(std::string_view name) const;
  /// @throws InvalidArgument  the variable is not set, or is neither a host name nor an IPv4 or IPv6 address.
  const std::string& host(std::string_view name) const;
  /// @throws InvalidArgument  the variable is not set, is not a whole number, or is not in [least, most].
  int number(std::string_view name, int least, int most) const;
  /// Nothing if the variable is not set. @throws InvalidArgument  as number.
  std::optional<int> find_number(std::string_view name, int least, int most) const;

  /// @throws InvalidArgument  always, with the variable, its value, and the reason.
  [[noreturn]] void refuse(std::string_view name, std::string_view reason) const;
  /// Throws unless `condition` holds. @throws InvalidArgument  names both variables and their values.
  void expect_agreement(bool condition, std::string_view name, std::string_view other,
                        std::string_view rule) const;

 private:
  std::string quoted(std::string_view name) const;

  const cluster::EnvironmentVariables& variables_;
  std::string launcher_;
};

/// Whether "host:port" is what MASTER_ADDR and MASTER_PORT say.
bool is_master_address(std::string_view address, const cluster::EnvironmentVariables& variables);

/// ", which this program does not have. Build lockstep with ...", of an engine.
std::string how_to_build(const std::string& engine);

/// The engine that carries data between hosts, by LOCKSTEP_ENGINE and what has started the processes.
/// @param has_address  of worker 0.
/// @throws InvalidArgument  LOCKSTEP_ENGINE names none. @throws Unsupported  this program does not have it.
std::string engine_for(const cluster::EnvironmentVariables& variables, bool has_address);

}  // namespace lockstep::detail
