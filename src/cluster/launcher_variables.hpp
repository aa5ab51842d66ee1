#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/cluster/environment.hpp>

namespace lockstep::detail {

/// A variable's value; nothing if it is not set, or set to nothing or to blanks.
const std::string* find_variable(const cluster::EnvironmentVariables& variables, std::string_view name);

/// The variables that a launcher sets, with errors that name it, them and their values.
class LauncherVariables {
 public:
  LauncherVariables(const cluster::EnvironmentVariables& variables, std::string_view launcher)
      : variables_(variables), launcher_(launcher) {}

  const std::string* find(std::string_view name) const { return find_variable(variables_, name); }
  /// The first of two that is set, else the second.
  std::string_view first_set(std::string_view first, std::string_view second) const {
    return find(first) ? first : second;
  }
  /// @throws InvalidArgument  it is not set.
  const std::string& text(std::string_view name) const;
  /// @throws InvalidArgument  it is not set, or neither a host's name nor an address of IPv4 or IPv6.
  const std::string& host(std::string_view name) const;
  /// @throws InvalidArgument  it is not set, no whole number, or not in [least, most].
  int number(std::string_view name, int least, int most) const;
  /// Nothing if it is not set. @throws InvalidArgument  as number.
  std::optional<int> find_number(std::string_view name, int least, int most) const;

  /// @throws InvalidArgument  always: the variable, its value, and what is wrong with it.
  [[noreturn]] void refuse(std::string_view name, std::string_view reason) const;
  /// Unless `condition`. @throws InvalidArgument  names both variables and their values.
  void expect_agreement(bool condition, std::string_view name, std::string_view other,
                        std::string_view rule) const;

 private:
  std::string quoted(std::string_view name) const;

  const cluster::EnvironmentVariables& variables_;
  std::string launcher_;
};

}  // namespace lockstep::detail
