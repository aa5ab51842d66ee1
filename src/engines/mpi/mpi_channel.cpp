#include "engines/mpi/mpi_channel.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"

namespace lockstep::engines {
namespace {

// For what was begun to come to an end by itself.
constexpr std::chrono::milliseconds kPatience{200};

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

MpiChannel::MpiChannel(MPI_Comm parent, backend::Deadline deadline) {
  MpiProcess& mpi = MpiProcess::get();
  constexpr const char* kOpening = "opening a channel";
  call(kOpening, deadline, [&] {
    begin(kOpening, -1, Kind::other,
          [&](MPI_Request* request) { return MPI_Comm_idup(parent, &communicator_, request); });
  });
  int process = 0, num_processes = 1;
  mpi.call(kOpening, [&] { return MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN); });
  mpi.call(kOpening, [&] { return MPI_Comm_rank(communicator_, &process); });
  mpi.call(kOpening, [&] { return MPI_Comm_size(communicator_, &num_processes); });
  set_place(process, num_processes);
}

MpiChannel::~MpiChannel() {
  const MpiProcess::Use use;
  // MPI might give the number of a communicator that is gone to the next one, with what comes late.
  if (has_failed_ || !MpiProcess::get().is_usable()) return;
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
  try {
    begin_all();
    finish(operation, deadline);
  } catch (const std::exception& error) {
    cause_.set(error.what());
    has_failed_ = true;
    if (!take_back(operation)) MpiProcess::get().abandon();
    throw;
  }
}

template <class F>
void MpiChannel::begin(std::string_view operation, int peer, Kind kind, const F& f) {
  pending_.push_back({MPI_REQUEST_NULL, peer, kind});
  MpiProcess::get().call(operation, [&] { return f(&pending_.back().request); });
}

void MpiChannel::finish(std::string_view operation, backend::Deadline deadline) {
  for (Pending& pending : pending_) {
    const std::string missing = pending.peer < 0 ? "a process" : detail::concat("process ", pending.peer);
    MpiProcess::get().wait(operation, pending.request, missing, cause_, deadline);
  }
  pending_.clear();
}

bool MpiChannel::take_back(std::string_view operation) {
  MpiProcess& mpi = MpiProcess::get();
  if (!mpi.is_usable()) return false;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  try {
    for (Pending& pending : pending_) {
      if (pending.kind != Kind::receive || pending.request == MPI_REQUEST_NULL) continue;
      mpi.call(operation, [&] { return MPI_Cancel(&pending.request); });
    }
    for (Pending& pending : pending_) mpi.wait(operation, pending.request, "what was begun", {}, end);
  } catch (const Error&) {
    return false;
  }
  pending_.clear();
  return true;
}

void MpiChannel::exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                          std::span<const std::span<std::byte>> receives, backend::Deadline deadline) {
  call(operation, deadline, [&] {
    for_each_source([&](std::size_t p) {
      for_each_piece(receives[p], [&, peer = static_cast<int>(p)](std::span<std::byte> piece) {
        begin(operation, peer, Kind::receive, [&](MPI_Request* request) {
          return MPI_Irecv(piece.data(), count_of(piece), MPI_BYTE, peer, 0, communicator_, request);
        });
      });
    });
    for_each_destination([&](std::size_t p) {
      for_each_piece(sends[p], [&, peer = static_cast<int>(p)](std::span<const std::byte> piece) {
        begin(operation, peer, Kind::other, [&](MPI_Request* request) {
          return MPI_Isend(piece.data(), count_of(piece), MPI_BYTE, peer, 0, communicator_, request);
        });
      });
    });
  });
}

void MpiChannel::broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) {
  call("broadcast", deadline, [&] {
    for_each_piece(buffer, [&](std::span<std::byte> piece) {
      begin("broadcast", root == process() ? -1 : root, Kind::other, [&](MPI_Request* request) {
        return MPI_Ibcast(piece.data(), count_of(piece), MPI_BYTE, root, communicator_, request);
      });
    });
  });
}

}  // namespace lockstep::engines
