#include "support/test_backend.hpp"

namespace lockstep::test {

const DeviceKind TestBackend::kKind = DeviceKind::cpu;

}  // namespace lockstep::test
