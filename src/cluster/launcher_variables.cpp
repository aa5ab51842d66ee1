#include "cluster/launcher_variables.hpp"

#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::detail {

const std::string* find_variable(const cluster::EnvironmentVariables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

std::string LauncherVariables::quoted(std::string_view name) const {
  const std::string* const value = find(name);
  return concat(name, value ? concat(" is ", in_quotes(*value)) : " is not set");
}

void LauncherVariables::refuse(std::string_view name, std::string_view reason) const {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat("from_environment (", launcher_, "): ", quoted(name), reason.empty() ? "" : ": ", reason,
             ". Start the program with ", launcher_, ", or set or unset all of its variables."));
}

void LauncherVariables::expect_agreement(bool condition, std::string_view name, std::string_view other,
                                         std::string_view rule) const {
  if (!condition) refuse(name, concat("it contradicts that ", quoted(other), ", as ", rule));
}

const std::string& LauncherVariables::text(std::string_view name) const {
  const std::string* const value = find(name);
  if (!value) refuse(name, "");
  return *value;
}

int LauncherVariables::number(std::string_view name, int least, int most) const {
  const std::optional<int> value = parse_number(text(name));
  if (!value || *value < least || *value > most)
    refuse(name,
           concat("it is not a whole number from ", std::to_string(least), " to ", std::to_string(most)));
  return *value;
}

std::optional<int> LauncherVariables::find_number(std::string_view name, int least, int most) const {
  return find(name) ? std::optional(number(name, least, most)) : std::nullopt;
}

}  // namespace lockstep::detail
