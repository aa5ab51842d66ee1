#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "collectives/rendezvous.hpp"

namespace lockstep::test {

inline detail::Rendezvous make_rendezvous(int n) {
  std::vector<std::string> labels;
  for (int i = 0; i < n; ++i)
    labels.push_back("replica " + std::to_string(i) + " (CPU:" + std::to_string(i) + ")");
  return detail::Rendezvous(std::move(labels));
}

/// Meets, and returns the message of what it threw; "released" for Released, "" for nothing.
inline std::string outcome(detail::Rendezvous& rendezvous, int rank,
                           std::string_view operation = "all_reduce(sum)",
                           std::chrono::milliseconds timeout = {},
                           const detail::Rendezvous::Check& check = {}) {
  try {
    rendezvous.meet(rank, {operation}, check, timeout);
  } catch (const detail::Released&) {
    return "released";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::test
