#include "engines/gloo/full_mesh.hpp"

#include <cstddef>
#include <exception>
#include <utility>

#include <gloo/transport/context.h>

#include <lockstep/error.hpp>

namespace lockstep::engines {

FullMesh::FullMesh(int process, int num_processes, std::shared_ptr<gloo::transport::Device> device,
                   std::chrono::milliseconds limit)
    : gloo::Context(process, num_processes) {
  setTimeout(limit);
  device_ = std::move(device);
  transportContext_ = device_->createContext(rank, size);
  transportContext_->setTimeout(limit);
  for (int other = 0; other < size; ++other)
    if (other != rank) transportContext_->createPair(other);
}

FullMesh::Addresses FullMesh::own_addresses() {
  Addresses all;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const std::vector<char> bytes = getPair(other)->address().bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

bool FullMesh::connect(const std::function<Addresses(int process)>& addresses_of) {
  try {
    for (int other = 0; other < size && !is_abandoned_; ++other) {
      if (other == rank) continue;
      const Addresses all = addresses_of(other);
      const auto bytes = static_cast<std::ptrdiff_t>(all.size()) / (size - 1);
      const auto first = all.begin() + bytes * (rank > other ? rank - 1 : rank);
      getPair(other)->connect(std::vector<char>(first, first + bytes));
    }
  } catch (const Error&) {  // of addresses_of
    throw;
  } catch (const std::exception&) {  // Gloo's, also of a connection that was closed
    if (!is_abandoned_) throw;
  }
  return !is_abandoned_;
}

void FullMesh::abandon() noexcept {
  is_abandoned_ = true;
  try {
    closeConnections();
  } catch (const std::exception&) {  // one that is closed already
  }
}

}  // namespace lockstep::engines
