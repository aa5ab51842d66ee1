#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/resolver.hpp>
#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace detail {
class WorkerGroup;
namespace control {
struct Invitation;
}
/// The group whose workers make another one, and how many of them were lost before that; null: none.
struct Former {
  WorkerGroup* group = nullptr;
  std::size_t num_lost = 0;
  control::Invitation* invitation = nullptr;  // of a process that was in none; null: it was
};
}  // namespace detail

/// How the workers of a MultiWorkerMirroredStrategy find each other.
struct WorkerOptions {
  /// The replicas of this process; none: its GPUs, shared among the processes of the host where the resolver
  /// tells local_rank and local_size; with none, the host replicas. As many on every worker.
  std::vector<Device> devices{};
  std::chrono::milliseconds start_timeout{0};  ///< For all workers to come; 0: no limit. Not negative.
  /// A worker that is silent for so long is lost; twice as long between two workers by Gloo. At least 200 ms.
  std::chrono::milliseconds heartbeat_timeout{5000};
  /// A secret of the workers, the same on all: nobody joins without it. It is not sent. Empty:
  /// LOCKSTEP_TOKEN; without that, under MPI one that the chief draws for each run, and elsewhere none: then
  /// whoever reaches the chief's port before the workers do may take the place of one, and later whoever
  /// reaches it may join where the program calls `grow`.
  std::string token{};
  /// The host or address that the chief listens on where its address in the cluster is a router's, or stands
  /// for a loopback address there; "0.0.0.0": all of the machine's. Empty: LOCKSTEP_LISTEN, else its address.
  std::string listen_host{};
  /// Of `shrink`: fewer workers do not go on. More than half of all keeps two parts of a cluster, between
  /// which the network breaks, from going on apart and saving to one folder.
  /// At least 1.
  int min_workers = 1;
};

/// Synchronous replicas on the devices of several processes, on one host or several, of which each is a
/// worker: all make the strategy, and then the same calls of it in the same order. Replica ids count over all
/// workers, in the order of the cluster: the chief, then the workers by index.
///
/// Variables are mirrored over all replicas; at their creation they take the chief's value. `run` calls a
/// function on the local replicas, and per-replica values have their components alone; collectives and
/// reductions go over all replicas of all workers. A plain value is one contribution of each worker. On the
/// host the results have the same bits as those of one process with as many replicas.
///
/// Where all workers are on one host they meet in shared memory. Between hosts they use the engine MPI under
/// mpirun and srun, and Gloo otherwise, which also carries the data of host replicas.
///
/// NCCL carries the data of GPUs, of which each is one worker's: see WorkerOptions::devices. NCCL adds in an
/// order of its choosing; CommunicationOptions::deterministic adds in the order of replica ids, as the host
/// does.
///
/// Errors: an exception that ends a call on one worker ends it on all; the others throw CollectiveAborted
/// with its text, and the strategy can be used again. Different operations, shapes, dtypes or orders throw
/// CollectiveMismatch on all workers, calls of different runs ContextError. A worker that has ended, or is
/// silent, throws PeerLost on all others, and so do their later calls, and waits for work of their GPUs (see
/// PeerLost). After a time-out on one worker (CommunicationOptions::timeout) all workers' later calls throw
/// CollectiveAborted. Thread safety: as Strategy; calls of several threads, and on GPUs those of several such
/// strategies, need an order that is the same on all workers.
///
/// An empty cluster, or one of a single worker, is this process alone; so is an evaluator.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Waits until all workers have made theirs, in whatever order they start; the log says who is missing.
  /// @throws InvalidArgument  no resolver; the cluster, but not which of its tasks this process is; a task
  /// that is no chief, worker or evaluator; workers with different numbers of devices, or kinds of them; a
  /// device twice; the same GPU on two workers: names both; a token that is not the chief's. @throws
  /// CollectiveTimeout  a worker has not come: names it; or NCCL takes more than 5 minutes. @throws
  /// Unsupported  several hosts, and an engine that was not built: says what to install; GPUs without NCCL;
  /// virtual devices of a GPU. @throws NotFound  there is no such device. @throws CollectiveError  NCCL
  /// failed; the other workers throw CollectiveAborted, which names this one. @throws PeerLost
  explicit MultiWorkerMirroredStrategy(
      std::shared_ptr<cluster::Resolver> resolver = cluster::from_environment(),
      const CommunicationOptions& options = {}, const WorkerOptions& worker_options = {});

  /// A strategy of the workers that are left once this one has thrown PeerLost, in the same processes. All
  /// that are left call it; which they are they hear from the chief, also of those lost meanwhile. They keep
  /// their order, devices and options, and are the workers 0, 1, … of a cluster of their own; worker 0 is its
  /// chief. Who has not come within start_timeout, or a minute where there is none, is lost, too; that takes
  /// as long where the chief and the next worker are lost together. This strategy stays as it is, unusable.
  /// Variables are made anew: restore them from the newest checkpoint, which every worker must be able to
  /// read. Or give a new variable the value of the old one, which the first worker that is left sends to all:
  /// that may be of a step that only some have done.
  ///
  /// @throws ContextError  no worker is lost; the chief is, and the address of the next worker is not known,
  /// as under torchrun; this worker is the one that was taken for lost; or fewer than
  /// WorkerOptions::min_workers are left. @throws Unsupported  MPI has started the workers.
  ///
  /// @throws as the constructor.
  [[nodiscard]] std::unique_ptr<MultiWorkerMirroredStrategy> shrink();

  /// How many processes wait in `join`. All workers call it, between the same steps, and get the same number;
  /// it costs one meeting of the workers. One worker alone listens at its address from its first such call
  /// on; without an address, as outside a cluster, nobody waits. When `grow` has failed, nobody is counted
  /// for a second, and for twice as long after each further time, up to a minute.
  ///
  /// @throws Unsupported  MPI has started the workers. @throws InvalidArgument  the address of a worker alone
  /// is no "host:port". @throws Error  a worker alone cannot listen. @throws CollectiveMismatch,
  /// CollectiveTimeout, CollectiveAborted, PeerLost  as other calls.
  [[nodiscard]] int num_waiting();

  /// A strategy of these workers and of all who wait in `join`, which it lets go on; null: num_waiting would
  /// be 0; or those who wait could not join, and the log says why. All workers call it, between the same
  /// steps, and get a strategy or null alike. The workers keep their order, devices and options; those who
  /// join follow, in the order in which they came. On one host all meet in shared memory again.
  ///
  /// This strategy stays usable; where the result is null train on with it, else destroy it once its state
  /// is taken over. Variables are made anew: restore a checkpoint that every worker can read; or give a new
  /// variable the value of the old one, which the chief sends to all, those who join included. Either way
  /// the result is, to the bit, that of so many workers which start from there.
  ///
  /// @throws PeerLost  a worker of this strategy is lost, and nobody has joined: call `shrink`. @throws as
  /// num_waiting
  [[nodiscard]] std::unique_ptr<MultiWorkerMirroredStrategy> grow();

  /// Waits until running workers let this process join them by `grow`, and returns its part of their new
  /// strategy. Where they lose a worker meanwhile, or cannot grow for another's fault, it waits on: the
  /// chief of those who are left listens again once they have called `shrink`.
  ///
  /// @param chief  the chief's "host:port", as in the workers' cluster; under torchrun whose agent has the
  /// store, with the port after MASTER_PORT. @param options  as the workers'. @param worker_options
  /// `start_timeout`: of the whole wait, in which the chief may come late; 0: as long as the chief answers,
  /// but for a minute where nobody is at its address, which ends the wait if a `shrink` takes longer.
  /// `devices`: as many as theirs, and GPUs that none of them has. @param address  this process's own
  /// "host:port", where it listens if it is to lead others one day; empty: it never does.
  /// @throws CollectiveTimeout  as above. @throws InvalidArgument  another token or version than theirs;
  /// another number of devices; `chief` or `address` is no "host:port"; `address` is that of a worker, or of
  /// a process that came later. @throws ContextError  the workers have ended; or 64 processes wait already.
  /// @throws Unsupported  MPI has started this process. @throws as the constructor
  [[nodiscard]] static std::unique_ptr<MultiWorkerMirroredStrategy> join(
      const std::string& chief, const CommunicationOptions& options = {},
      const WorkerOptions& worker_options = {}, const std::string& address = {});

 private:
  MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Resolver> resolver,
                              const CommunicationOptions& options, const WorkerOptions& worker_options,
                              const detail::Former& former);
  WorkerOptions resize_options() const;
  /// Null: nobody can join.
  detail::WorkerGroup* group_to_join(std::string_view call);
  /// Where a worker alone takes others for lost that may only be late.
  void listen_alone();

  WorkerOptions worker_options_;
  std::shared_ptr<detail::WorkerGroup> lone_;  // where a worker alone listens; owner: this
};

}  // namespace lockstep

#pragma GCC visibility pop
