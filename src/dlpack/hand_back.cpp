#include "dlpack/hand_back.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

namespace lockstep::dlpack {
namespace {

bool is_captured(const StreamRef& stream) { return stream.device_backend().is_capturing(stream.handle()); }

}  // namespace

void hand_back(const StreamRef& next, const StreamRef& last) noexcept try {
  if (next.device_backend().is_closed() || last.device_backend().is_closed()) return;
  const bool is_graph = is_captured(last);
  if (is_captured(next) == is_graph && next.device().kind() == last.device().kind()) {
    next.wait(last);
  } else if (!is_graph) {
    last.device_backend().finish(last.handle());
  }
} catch (const Error&) {  // the streams are gone, and their work with them
}

}  // namespace lockstep::dlpack
