#include "engines/mpi/mpi_channel.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"

namespace lockstep::engines {
namespace {

// How long processes wait for each other when they open a channel, which they do at the same time.
constexpr std::chrono::seconds kOpenTimeout{60};

// MPI counts in int. Far less than that loses nothing.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

/// Calls f(piece) for the pieces of `bytes` that MPI is given one by one.
template <class Byte, class F>
void for_each_piece(std::span<Byte> bytes, const F& f) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kPieceBytes, bytes.size())))
    f(bytes.first(std::min(kPieceBytes, bytes.size())));
}

template <class Byte>
int count_of(std::span<Byte> piece) {
  return static_cast<int>(piece.size());
}

}  // namespace

MpiChannel::MpiChannel(MPI_Comm parent) {
  MpiProcess& mpi = MpiProcess::get();
  constexpr const char* kOpening = "opening a channel";
  call(kOpening, std::chrono::steady_clock::now() + kOpenTimeout, [&] {
    begin(kOpening, -1, [&](MPI_Request* request) { return MPI_Comm_idup(parent, &communicator_, request); });
  });
  mpi.call(kOpening, [&] { return MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN); });
  mpi.call(kOpening, [&] { return MPI_Comm_rank(communicator_, &process_); });
  mpi.call(kOpening, [&] { return MPI_Comm_size(communicator_, &num_processes_); });
}

MpiChannel::~MpiChannel() {
  const MpiProcess::Use use;
  if (!MpiProcess::get().is_usable()) return;
  try {
    MpiProcess::get().call("closing a channel", [&] { return MPI_Comm_free(&communicator_); });
  } catch (const Error&) {  // nobody is left to hear of it
  }
}

template <class Work>
void MpiChannel::call(std::string_view operation, backend::Deadline deadline, const Work& begin_all) {
  cause_.raise_if_set(operation, "mpi");
  const MpiProcess::Use use;
  if (!MpiProcess::get().is_usable())
    throw CollectiveAborted(
        detail::concat(operation,
                       " by the engine mpi: MPI has ended, or failed in another call. Start the job again."),
        {.operation = std::string(operation)});
  begin_all();
  finish(operation, deadline);
}

template <class F>
void MpiChannel::begin(std::string_view operation, int peer, const F& f) {
  pending_.push_back({MPI_REQUEST_NULL, peer});
  MpiProcess::get().call(operation, [&] { return f(&pending_.back().request); });
}

void MpiChannel::finish(std::string_view operation, backend::Deadline deadline) {
  for (Pending& pending : pending_) {
    const std::string missing = pending.peer < 0 ? "a process" : detail::concat("process ", pending.peer);
    try {
      MpiProcess::get().wait(operation, pending.request, missing, cause_, deadline);
    } catch (const Error& error) {
      cause_.set(error.what());
      throw;
    }
  }
  pending_.clear();
}

void MpiChannel::exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                          std::span<const std::span<std::byte>> receives, backend::Deadline deadline) {
  call(operation, deadline, [&] {
    // Everybody begins with the next process: not all with the same.
    for (int i = 1; i < num_processes_; ++i) {
      const int source = (process_ + num_processes_ - i) % num_processes_;
      for_each_piece(receives[static_cast<std::size_t>(source)], [&](std::span<std::byte> piece) {
        begin(operation, source, [&](MPI_Request* request) {
          return MPI_Irecv(piece.data(), count_of(piece), MPI_BYTE, source, 0, communicator_, request);
        });
      });
    }
    for (int i = 1; i < num_processes_; ++i) {
      const int destination = (process_ + i) % num_processes_;
      for_each_piece(sends[static_cast<std::size_t>(destination)], [&](std::span<const std::byte> piece) {
        begin(operation, destination, [&](MPI_Request* request) {
          return MPI_Isend(piece.data(), count_of(piece), MPI_BYTE, destination, 0, communicator_, request);
        });
      });
    }
    const auto own = static_cast<std::size_t>(process_);
    if (!sends[own].empty() && sends[own].data() != receives[own].data())
      std::memcpy(receives[own].data(), sends[own].data(), sends[own].size());
  });
}

void MpiChannel::all_to_all(std::span<const std::span<const std::byte>> sends,
                            std::span<const std::span<std::byte>> receives, backend::Deadline deadline) {
  exchange("all_to_all", sends, receives, deadline);
}

void MpiChannel::all_gather(std::span<const std::byte> own, std::span<std::byte> all,
                            backend::Deadline deadline) {
  if (own.size() > kPieceBytes) {
    const auto num = static_cast<std::size_t>(num_processes_);
    const std::vector<std::span<const std::byte>> sends(num, own);
    std::vector<std::span<std::byte>> receives;
    for (std::size_t p = 0; p < num; ++p) receives.push_back(all.subspan(p * own.size(), own.size()));
    return exchange("all_gather", sends, receives, deadline);
  }
  call("all_gather", deadline, [&] {
    begin("all_gather", -1, [&](MPI_Request* request) {
      return MPI_Iallgather(own.data(), count_of(own), MPI_BYTE, all.data(), count_of(own), MPI_BYTE,
                            communicator_, request);
    });
  });
}

void MpiChannel::broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) {
  call("broadcast", deadline, [&] {
    for_each_piece(buffer, [&](std::span<std::byte> piece) {
      begin("broadcast", -1, [&](MPI_Request* request) {
        return MPI_Ibcast(piece.data(), count_of(piece), MPI_BYTE, root, communicator_, request);
      });
    });
  });
}

void MpiChannel::barrier(backend::Deadline deadline) {
  call("barrier", deadline, [&] {
    begin("barrier", -1, [&](MPI_Request* request) { return MPI_Ibarrier(communicator_, request); });
  });
}

}  // namespace lockstep::engines
