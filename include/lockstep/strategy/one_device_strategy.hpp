#pragma once

#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// One replica on one device: every reduction without an axis is the identity.
class OneDeviceStrategy : public Strategy {
 public:
  /// @throws InvalidArgument  a bad name. @throws NotFound  there is no such device.
  explicit OneDeviceStrategy(const Device& device);
};

}  // namespace lockstep

#pragma GCC visibility pop
