#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <lockstep/version.hpp>

#include "measure.hpp"

namespace lockstep::hardware {
namespace {

struct Entry {
  const char* name;
  void (*run)(Section& section);
  bool has_shares;  // of the copy rate
};

constexpr Entry kSections[] = {
    {"semantics", semantics, false},
    {"blocking", blocking, false},
#if LOCKSTEP_HAS_NCCL
    {"nccl", nccl, false},
#endif
    {"host_costs", host_costs, false},
    {"copies", copies, true},
    {"elementwise", elementwise, true},
    {"reductions", reductions, true},
};

int usage() {
  std::fputs(
      "usage: lockstep_hardware --list | SECTION [BYTES ROUNDS VIRTUAL]\n"
      "BYTES: of large tensors [256 MiB]. ROUNDS: whose median counts [9]. VIRTUAL: devices that GPU:0 is "
      "split "
      "into [1].\n",
      stderr);
  return 2;
}

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--list") {
    for (const Entry& entry : kSections) std::puts(entry.name);
    return 0;
  }
  Settings settings;
  if (argc > 2) settings.bytes = std::atoll(argv[2]);
  if (argc > 3) settings.rounds = std::atoi(argv[3]);
  for (const Entry& entry : kSections) {
    if (name != entry.name) continue;
    Section section(entry.name, settings);
    try {
      if (argc > 4) DeviceManager::instance().set_virtual_devices(kGpu, std::atoi(argv[4]));
      if (entry.has_shares) section.measure_copy_rate();
      entry.run(section);
    } catch (const std::exception& error) {
      section.finding("the section's end", std::string("FAULT: ") + error.what());
      return 1;
    }
    return 0;
  }
  return usage();
}

}  // namespace
}  // namespace lockstep::hardware

int main(int argc, char** argv) { return lockstep::hardware::run(argc, argv); }
