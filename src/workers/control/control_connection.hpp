#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/engine.hpp>
#include <lockstep/detail/function_ref.hpp>

#include "detail/process.hpp"

namespace lockstep::detail {

namespace control {
class ListeningSocket;
class WaitingList;
}  // namespace control

/// How a worker connects.
struct ControlOptions {
  int worker = 0;  ///< This process's index.
  /// "host:port" of each worker. Worker 0, the leader, listens on its own; the others' are for messages, and
  /// may be empty.
  std::vector<std::string> addresses{};
  /// The host or address that worker 0 listens on; empty: its own of `addresses`.
  std::string listen_host{};
  /// What all workers know, and nobody else does: who does not have it cannot join. Empty: everybody has it.
  std::string token{};
  std::chrono::milliseconds start_limit{0};  ///< For all to come; 0: none.
  /// Who is silent for so long is lost; at least 200 ms. All workers use the leader's value.
  std::chrono::milliseconds silence_limit{5000};
  std::chrono::milliseconds log_interval{30'000};  ///< Between log lines that say who has not come.
  std::string host{};                              ///< Empty: host_identity().
  /// Of workers that are left after a loss, and may not all know yet of one more: whether one more is known
  /// to be lost, so that this start is in vain. Who counts other workers is then turned away before the
  /// start is over, and refused after it. Empty: all were given the same workers.
  std::function<bool()> is_outdated{};
  /// Where some have not come within the start's limit worker 0 starts without them, and all hear that they
  /// are lost. Else nobody starts.
  bool goes_on_without = false;
  bool listens_alone = false;  ///< Worker 0 listens also where it is the only one: others may join.
  /// The socket on which worker 0 listens; null: it opens one at its address. Owners: this, and the
  /// WaitingList of the smaller cluster, which lends it.
  std::shared_ptr<const control::ListeningSocket> listening_socket{};
};

/// What a worker hears of the others. Called on the connection's thread, which holds no lock, in one order on
/// all workers, but not for what a worker does itself. Must return soon, as that thread sends the heartbeats,
/// and must not throw. It may announce a failure, set values and leave; it must not destroy the connection,
/// nor wait for a value, or for a thread that does.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  /// A worker has announced that its run has failed.
  virtual void on_failure(int worker, std::uint64_t epoch, std::string text) = 0;
  /// A worker has ended or is silent; once for each. The cause is the same text on every worker: "worker 1
  /// (10.0.0.2:2222) was lost: its connection was closed". A worker that was stopped, and goes on after the
  /// others have taken it for lost, hears so about itself. After the loss of worker 0, or of this one,
  /// nothing more is heard.
  virtual void on_lost(int worker, std::string cause) = 0;
  /// A worker has left in order. After worker 0 has, nothing more is heard.
  virtual void on_left(int worker) = 0;
};

/// The connection of a cluster's workers through which they set themselves up and hear of each other's
/// failures: a star of TCP connections around worker 0, with a thread in each process. It is not for data.
///
/// Thread safety: any thread, but for the destructor. A fork of the process has no connection: there calls
/// throw ContextError, and destruction leaves the parent's connection alone.
class ControlConnection final : public backend::KeyValueStore {
 public:
  /// Connects, and returns when all workers have come, in whatever order they start. Logs who is missing.
  /// @param listener  outlives the connection; may be called before this returns.
  /// @throws InvalidArgument  an option; or the workers differ in version or number, or two have one index:
  /// on all workers with one text; or this one's token is not the leader's. @throws ContextError  the workers
  /// have started before. @throws CollectiveTimeout  some have not come: says who. @throws PeerLost  the
  /// leader has gone, or the start is outdated. @throws Error  the leader cannot listen.
  ControlConnection(ControlOptions options, ControlListener& listener);
  /// Leaves.
  ~ControlConnection() override;

  /// At most 1 MiB each. @throws InvalidArgument, PeerLost
  void set(const std::string& key, const std::string& value) override;
  /// Waits until the key is set. @throws CollectiveTimeout  it was not in time. @throws PeerLost  a worker is
  /// lost; or it is not set, and a worker has left.
  [[nodiscard]] std::string get(const std::string& key, backend::Deadline deadline) override;
  void erase(const std::string& prefix) override;

  /// Every worker's text, of at most 1 MiB, by worker. All workers make the same calls in the same order.
  /// @param what  says what is exchanged; equal on all workers.
  /// @throws CollectiveTimeout  says who has not come: then all workers' calls throw it. @throws
  /// CollectiveMismatch  two workers exchange different things. @throws PeerLost  a worker is lost or has
  /// left.
  std::vector<std::string> all_gather(std::string_view what, std::string own, backend::Deadline deadline);
  void barrier(std::string_view what, backend::Deadline deadline) { all_gather(what, {}, deadline); }

  /// The same for a step of a stream, of which several may be under way, each in an order of its own. A
  /// worker that has ended the stream has the same text in all further steps.
  /// @param stream  above 0; equal on all workers. @param step  counted from 0. @param is_cancelled  once it
  /// is true, and end_stream was called, the call throws CollectiveAborted.
  std::vector<std::string> all_gather(std::uint32_t stream, std::uint32_t step, std::string_view what,
                                      std::string own, const std::atomic<bool>& is_cancelled);
  /// This worker makes no more calls for the stream. @param own  its text for the others' calls.
  void end_stream(std::uint32_t stream, std::string own) noexcept;

  /// Tells the others' listeners that this worker's run has failed. Does not wait. @param text  only its
  /// first 64 KiB are sent. @param to_itself  this worker's listener hears it too, in the order of all.
  void announce_failure(std::uint64_t epoch, std::string_view text, bool to_itself = false);

  /// Calls f with those who wait to join; nothing to do on another worker than 0. @param changes  f does.
  void with_waiting_list(FunctionRef<void(control::WaitingList& list)> f, bool changes);
  /// The connection is over, because of what this worker could not tell the others, who see it closed.
  void break_off(const std::exception_ptr& error) noexcept;

  /// Ends: says so to the others, and waits until they have heard, as Endpoint::leave says. Then the
  /// listener is not called any more, and calls throw ContextError, also those that wait. Called by the
  /// listener it does not wait. @param how  this worker is lost; empty: it ends in order.
  void leave(std::string_view how = {}) noexcept;

  int worker() const noexcept;
  int num_workers() const noexcept;
  /// "worker 1 (10.0.0.2:2222)": the same on all workers.
  const std::string& label(int worker) const;
  /// The lowest worker on the same host, that is, which can share memory with it.
  int host(int worker) const;

 private:
  struct State;

  void expect_own_process(std::string_view what) const;

  Process process_;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::detail
