#pragma once

#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/stream.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {

/// The tests' first device, a stream of its own that is current, to be captured, and the scope of a strategy.
class CapturedStrategy {
 protected:
  const Device device = TestBackend::device();
  const Stream stream{device};
  const StreamScope on_stream{stream};
  OneDeviceStrategy strategy{device};
  const StrategyScope in_strategy = strategy.scope();
};

}  // namespace lockstep::test
