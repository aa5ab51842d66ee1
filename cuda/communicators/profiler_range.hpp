#pragma once

#include <array>
#include <string_view>

#include <nvtx3/nvToolsExt.h>

#include <lockstep/backend/group_call.hpp>

namespace lockstep::cuda {

/// An NVTX range of the thread, around what a collective enqueues: named by the caller's label, or by the
/// operation. Does next to nothing where no profiler listens.
class [[nodiscard]] ProfilerRange {
 public:
  explicit ProfilerRange(const backend::GroupCall& group) {
    std::array<char, 128> text{};  // NVTX takes text that ends with 0
    const std::string_view name = group.label.empty() ? group.operation : group.label;
    name.copy(text.data(), text.size() - 1);
    nvtxRangePushA(text.data());
  }
  ~ProfilerRange() { nvtxRangePop(); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace lockstep::cuda
