#include "count/counting.hpp"

#include <cstdlib>
#include <memory>

#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include "exit_status.hpp"

namespace lockstep::bench {
namespace {

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void require_counting() {
  if (find<void()>("vgpu_range_end") == nullptr)
    throw OptionError(
        ExitStatus::not_implemented,
        "--count needs virtual GPUs, which count what they do, and these GPUs are real ones; start "
        "it as 'vgpu-run -n GPUS lockstep_bench ... --backend cuda --count'");
}

Counting::Counting() {
  static int number = 0;
  range_ = "lockstep_bench " + std::to_string(number++);
}

void Counting::begin() const { find<void(const char*)>("vgpu_range_begin")(range_.c_str()); }

void Counting::end() const { find<void()>("vgpu_range_end")(); }

Work Counting::work() const {
  const std::unique_ptr<char, void (*)(void*)> text(find<char*(const char*)>("vgpu_counts")(range_.c_str()),
                                                    std::free);
  const auto counts = nlohmann::json::parse(text.get());
  const auto& total = counts["total"];
  return {
      .sectors = total["sectors_loaded"].get<std::int64_t>() + total["sectors_stored"].get<std::int64_t>(),
      .accesses = total["loads"].get<std::int64_t>() + total["stores"].get<std::int64_t>(),
      .launches = total["launches"],
      .calls = counts["calls"],
      .waits = counts["waits"]};
}

}  // namespace lockstep::bench
