#include "trace/region.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <lockstep/trace.hpp>

#include "trace/span.hpp"

namespace lockstep {

namespace detail {

namespace {
constinit thread_local RegionPath own_path;
}  // namespace

RegionPath& RegionPath::own() noexcept { return own_path; }

void RegionPath::append(std::string_view name) noexcept {
  const auto add = [this](std::string_view part) {
    part = part.substr(part.size() - std::min(part.size(), kMaxBytes));
    const std::size_t kept = std::min(size, kMaxBytes - part.size());
    std::memmove(text.data(), text.data() + size - kept, kept);
    std::memcpy(text.data() + kept, part.data(), part.size());
    size = kept + part.size();
  };
  if (size != 0) add("/");
  add(name);
}

}  // namespace detail

struct trace::Region::State {
  State(std::string_view name)
      : outer(detail::RegionPath::own()),
        span(detail::SpanKind::region,
             detail::Span::is_anyone_listening() ? detail::lasting_name(name) : std::string_view()) {}

  const detail::RegionPath outer;
  const detail::Span span;
};

trace::Region::Region(std::string_view name) {
  static_assert(sizeof(State) <= sizeof state_ && alignof(State) <= alignof(std::max_align_t));
  new (state_) State(name);
  detail::RegionPath::own().append(name);
}

trace::Region::~Region() {
  State& state = *std::launder(reinterpret_cast<State*>(state_));
  detail::RegionPath::own() = state.outer;
  state.~State();
}

}  // namespace lockstep
