#pragma once

#include <lockstep/error.hpp>

#pragma GCC visibility push(default)

namespace lockstep::readers {

/// A record of a file is wrong, but those behind it can be read. After this exception of a reader a pass goes
/// on with the next record, after any other one with the next file.
class BadRecord : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

}  // namespace lockstep::readers

#pragma GCC visibility pop
