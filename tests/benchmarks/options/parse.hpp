#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "options/options.hpp"

namespace lockstep::bench {

inline const std::vector<Traits> kOperations{
    {.name = "all_reduce", .reduces = true},
    {.name = "broadcast", .has_root = true},
    {.name = "all_gather"},
    {.name = "run", .is_strategy = true, .has_size = false},
    {.name = "input", .is_strategy = true, .has_size = false, .alone = "it is the only one"},
    {.name = "update", .is_strategy = true, .is_floating = true},
    {.name = "axis_reduce", .reduces = true, .is_strategy = true, .has_shape = true, .floor = "a loop"},
    {.name = "batch_reduce", .reduces = true, .is_strategy = true, .has_size_list = true}};

/// The options of a command line of flags; they are all_reduce's unless they begin with another operation.
inline Options parse(const std::string& flags, const std::map<std::string, std::string>& environment = {},
                     const Launch& launch = {}) {
  std::vector<std::string> arguments;
  const std::string first = flags.substr(0, flags.find(' '));
  if (std::ranges::find(kOperations, first, &Traits::name) == kOperations.end())
    arguments.emplace_back("all_reduce");
  std::istringstream words(flags);
  for (std::string word; words >> word;) arguments.push_back(word);
  const auto variable = [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  return parse_options(arguments, kOperations, variable, launch);
}

struct Refusal {
  int status = 0;
  std::string message;
};

/// How parse() is refused; status 0: it is not.
inline Refusal refusal(const std::string& flags, const std::map<std::string, std::string>& environment = {},
                       const Launch& launch = {}) {
  try {
    parse(flags, environment, launch);
  } catch (const OptionError& error) {
    return {static_cast<int>(error.status()), error.what()};
  }
  return {};
}

}  // namespace lockstep::bench
