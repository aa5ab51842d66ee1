#pragma once

#include <cstdint>

namespace lockstep::test {

/// Shorter copies are not counted: they may be of C++ objects, or the messages by which replicas exchange
/// small values.
inline constexpr std::int64_t kLeastCopy = 4096;

/// How many bytes memcpy and memmove have copied in blocks of kLeastCopy bytes and more, called by the
/// program or by a shared library, on all threads. Link num_copies.cpp.
std::int64_t num_copied_bytes();

}  // namespace lockstep::test
