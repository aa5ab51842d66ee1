#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

namespace lockstep::test {

/// A group that only says who is who.
class FixedGroup : public backend::ProcessGroup {
 public:
  FixedGroup(int process, int num_processes) : process_(process), num_processes_(num_processes) {}

  int num_processes() const noexcept override { return num_processes_; }
  int process() const noexcept override { return process_; }
  const std::string& label(int) const override { return label_; }
  int host(int process) const noexcept override { return process; }
  std::vector<std::string> all_gather(std::string_view, std::string) override {
    throw std::logic_error("this group does not communicate");
  }
  std::unique_ptr<backend::Channel> open_channel() override {
    throw std::logic_error("this group does not communicate");
  }

 private:
  int process_, num_processes_;
  std::string label_ = "a worker";
};

}  // namespace lockstep::test
