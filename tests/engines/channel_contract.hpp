#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <lockstep/backend/process_group.hpp>

/// What every engine's channels must do. Each process of a group calls the same case; it throws where
/// something is wrong.
namespace lockstep::test {

struct ChannelCase {
  int process = 0;
  int num_processes = 1;
  std::function<std::unique_ptr<backend::Channel>()> open_channel;
};

struct NamedChannelCase {
  const char* name;
  void (*run)(const ChannelCase&);
  bool fails_group;  ///< An engine may refuse further channels in these processes.
};

const std::vector<NamedChannelCase>& channel_contract();

/// Throws std::logic_error with the name of what does not hold.
void expect(bool condition, const char* what);

}  // namespace lockstep::test
