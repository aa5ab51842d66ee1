// The settings from the environment.
#include "runtime/config.hpp"

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include <unistd.h>

namespace vgpu::rt {

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

bool flag(const char* name, bool fallback) {
  const char* value = variable(name);
  return value ? std::strcmp(value, "0") != 0 : fallback;
}

std::uint64_t number(const char* name, std::uint64_t fallback) {
  const char* value = variable(name);
  if (!value) return fallback;
  char* end = nullptr;
  const std::uint64_t parsed = std::strtoull(value, &end, 0);
  if (*end) {
    std::fprintf(stderr, "vgpu: %s=%s is not a number\n", name, value);
    std::exit(2);
  }
  return parsed;
}

template <class T>
T chosen(const char* name, const char* value, const std::vector<std::pair<std::string, T>>& choices) {
  std::string names;
  for (const auto& [word, meaning] : choices) {
    if (word == value) return meaning;
    names += (names.empty() ? "" : ", ") + word;
  }
  std::fprintf(stderr, "vgpu: %s=%s is none of %s\n", name, value, names.c_str());
  std::exit(2);
}

template <class T>
T choice(const char* name, const std::vector<std::pair<std::string, T>>& choices, T fallback) {
  const char* value = variable(name);
  return value ? chosen(name, value, choices) : fallback;
}

// What is separated by commas.
template <class T, class Parse>
std::vector<T> list(const char* name, std::vector<T> fallback, const Parse& parse) {
  const char* value = variable(name);
  if (!value) return fallback;
  std::vector<T> items;
  std::stringstream words(value);
  for (std::string word; std::getline(words, word, ',');) items.push_back(parse(word));
  return items;
}

int version(const char* name, const std::string& text, int of_major, int of_minor) {
  int major = 0, minor = 0;
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2) {
    std::fprintf(stderr, "vgpu: %s=%s is not a version such as 9.0\n", name, text.c_str());
    std::exit(2);
  }
  return major * of_major + minor * of_minor;
}

Config::Strict read_strict() {
  Config::Strict strict;
  const std::pair<std::string, bool*> rules[] = {
      {"graph-memory", &strict.graph_memory},           {"lazy-loading", &strict.lazy_loading},
      {"pool-dependencies", &strict.pool_dependencies}, {"allocation-waits", &strict.allocation_waits},
      {"handle-reuse", &strict.handle_reuse},           {"current-device", &strict.current_device}};
  const char* text = variable("VGPU_STRICT");
  std::stringstream list(text ? text : "");
  for (std::string word; std::getline(list, word, ',');) {
    bool known = word == "all";
    std::string names = "all";
    for (const auto& [name, rule] : rules) {
      if (word == "all" || word == name) *rule = known = true;
      names += ", " + name;
    }
    if (known) continue;
    std::fprintf(stderr, "vgpu: VGPU_STRICT: %s is none of %s\n", word.c_str(), names.c_str());
    std::exit(2);
  }
  return strict;
}

}  // namespace

Config read_config() {
  Config c;
  c.devices = static_cast<int>(number("VGPU_DEVICES", 4));
  if (c.devices < 0 || c.devices > 64) {
    std::fprintf(stderr, "vgpu: VGPU_DEVICES must be between 0 and 64\n");
    std::exit(2);
  }
  c.capabilities = list<int>("VGPU_CC", c.capabilities,
                             [](const std::string& word) { return version("VGPU_CC", word, 10, 1); });
  using Mode = Config::Mode;
  c.modes = list<Mode>("VGPU_COMPUTE_MODE", c.modes, [](const std::string& word) {
    return chosen<Mode>("VGPU_COMPUTE_MODE", word.c_str(),
                        {{"default", Mode::normal},
                         {"exclusive", Mode::exclusive},
                         {"taken", Mode::taken},
                         {"prohibited", Mode::prohibited}});
  });
  if (const char* driver = variable("VGPU_DRIVER")) c.driver = version("VGPU_DRIVER", driver, 1000, 10);
  c.fabric_manager = flag("VGPU_FABRIC_MANAGER", true);
  c.memory_pools = flag("VGPU_POOLS", true);
  c.sms = static_cast<int>(number("VGPU_SMS", 132));
  c.memory = number("VGPU_MEMORY_MIB", 2048) << 20;
  c.seed = number("VGPU_SEED", 1);
  using Link = Config::Link;
  using Schedule = Config::Schedule;
  c.link = choice<Link>("VGPU_LINK", {{"none", Link::none}, {"pcie", Link::pcie}, {"nvlink", Link::nvlink}},
                        c.link);
  c.schedule = choice<Schedule>(
      "VGPU_SCHEDULE", {{"random", Schedule::random}, {"eager", Schedule::eager}, {"fifo", Schedule::fifo}},
      c.schedule);
  c.deadlock_ms = static_cast<unsigned>(number("VGPU_DEADLOCK_MS", 2000));
  c.idle_ms = static_cast<unsigned>(number("VGPU_IDLE_MS", 100));
  c.abort_on_deadlock = flag("VGPU_ABORT_ON_DEADLOCK", false);
  c.leak_check = flag("VGPU_LEAKCHECK", false);
  c.race_check = flag("VGPU_RACECHECK", false);
  c.strict = read_strict();
  c.lazy_memcpy = flag("VGPU_LAZY_MEMCPY", false);
  if (const char* file = variable("VGPU_STATS")) {
    c.counts_file = file;
    if (const auto at = c.counts_file.find("%p"); at != std::string::npos)
      c.counts_file.replace(at, 2, std::to_string(getpid()));
  }
  if (const char* trace = variable("VGPU_TRACE")) {
    if (!std::strcmp(trace, "1"))
      c.trace = stderr;
    else if (std::strcmp(trace, "0")) {
      c.trace = std::fopen(trace, "ae");
      if (!c.trace) std::fprintf(stderr, "vgpu: cannot open trace file %s\n", trace);
    }
  }
  return c;
}

std::vector<FailRule> read_fail_rules() {
  const char* text = variable("VGPU_FAIL");
  std::vector<FailRule> rules;
  if (!text) return rules;
  // name:n[+][=error], separated by commas
  std::string all = text;
  std::size_t at = 0;
  while (at < all.size()) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    std::string part = all.substr(at, end - at);
    at = end + 1;
    if (part.empty()) continue;
    FailRule rule;
    if (const auto equals = part.find('='); equals != std::string::npos) {
      rule.error = part.substr(equals + 1);
      part.resize(equals);
    }
    const auto colon = part.find(':');
    rule.name = part.substr(0, colon);
    std::string count = colon == std::string::npos ? "1" : part.substr(colon + 1);
    if (!count.empty() && count.back() == '+') {
      rule.onwards = true;
      count.pop_back();
    }
    rule.at = std::strtoull(count.c_str(), nullptr, 10);
    if (rule.at == 0) {
      std::fprintf(stderr, "vgpu: VGPU_FAIL: '%s' needs a call number from 1\n", rule.name.c_str());
      std::exit(2);
    }
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace vgpu::rt
