// Examples of the documentation: what is thrown, and what is left afterwards.
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
using namespace std::chrono_literals;

TEST_CASE("the examples of refused calls are right", "[docs]") {
  std::string text;
  //! [Error, ErrorContext, SourceLocation, InvalidArgument]
  try {
    ls::Tensor::ones({2, 3}).add_(ls::Tensor::ones({3, 2}));
  } catch (const ls::InvalidArgument& error) {  // nothing was enqueued, nothing has changed
    const ls::ErrorContext& context = error.context();
    text = context.operation + " failed for " + context.operands + ": " + context.hint;
  }
  //! [Error, ErrorContext, SourceLocation, InvalidArgument]
  CHECK(text.find("[2, 3]") != std::string::npos);

  int handled = 0;
  //! [ContextError]
  ls::Tensor nothing;
  try {
    ls::Tensor copy = nothing.clone();  // an empty tensor: the right call at the wrong moment
  } catch (const ls::ContextError&) {
    ++handled;
  }
  //! [ContextError]
  CHECK(handled == 1);

  //! [NotFound]
  try {
    ls::Tensor weights = ls::load_npy("/nowhere/weights.npy");
  } catch (const ls::NotFound&) {  // the message has the path and the system's reason
    ++handled;
  }
  //! [NotFound]
  CHECK(handled == 2);

  //! [OutOfRange]
  auto pass = ls::Dataset::range(1).iterator();
  pass.next();
  try {
    pass.next();
  } catch (const ls::OutOfRange&) {  // the end; next_optional() returns nothing instead
    ++handled;
  }
  //! [OutOfRange]
  CHECK(handled == 3);

  //! [Unsupported]
  ls::OneDeviceStrategy strategy("CPU:0");
  try {
    auto batches = strategy.distribute_datasets_from_function(
        [](const ls::InputContext&) { return ls::Dataset::range(8).batch(2); },
        {.replication_mode = ls::InputReplicationMode::per_replica});
  } catch (const ls::Unsupported&) {  // thrown before any work is enqueued
    ++handled;
  }
  //! [Unsupported]
  CHECK(handled == 4);

  //! [OutOfMemory, DeviceError]
  try {
    ls::Tensor huge = ls::Tensor::empty({std::int64_t{1} << 59});
  } catch (const ls::OutOfMemory&) {
    ++handled;  // bytes requested and free; smaller calls may succeed
  } catch (const ls::DeviceError& error) {
    if (error.is_fatal()) throw;  // this process cannot use the device again
  }
  //! [OutOfMemory, DeviceError]
  CHECK(handled == 5);
}

TEST_CASE("the examples of failing replicas are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  std::vector<int> failed;
  //! [ReplicaFailure]
  try {
    strategy.run([](ls::ReplicaContext& context) {
      if (context.replica_id_in_sync_group() == 1) throw std::runtime_error("no such file");
      return context.all_reduce(ls::ReduceOp::sum, 1.0f);  // released: the other replica does not come
    });
  } catch (const std::runtime_error&) {  // the replica's own exception, unchanged
    for (const ls::ReplicaFailure& failure : strategy.last_failures()) failed.push_back(failure.replica);
  }
  //! [ReplicaFailure]
  CHECK(failed == std::vector<int>{1});

  std::string text;
  //! [CollectiveMismatch]
  try {
    strategy.run([](ls::ReplicaContext& context) {
      const int rows = 1 + context.replica_id_in_sync_group();
      return context.all_reduce(ls::ReduceOp::sum, ls::Tensor::ones({rows}));
    });
  } catch (const ls::CollectiveMismatch& error) {  // on every replica; names both, with their shapes
    text = error.what();
  }
  //! [CollectiveMismatch]
  CHECK(text.find("[2]") != std::string::npos);

  const std::vector<ls::Device> devices{"CPU:0", "CPU:1"};
  const ls::Tensor tensor = ls::Tensor::ones({2});
  const ls::TensorView buffer = tensor.view();
  const ls::StreamRef stream = ls::current_stream("CPU:0");
  bool is_replaced = false;
  //! [CollectiveError, CollectiveTimeout, CollectiveAborted, PeerLost]
  auto communicator = ls::Communicator::create(devices);
  try {
    communicator.all_reduce(ls::ReduceOp::sum, /*rank=*/0, buffer, buffer, stream, {.timeout = 10ms});
  } catch (const ls::PeerLost&) {
    throw;                                             // a worker has ended: restore a checkpoint
  } catch (const ls::CollectiveTimeout& error) {       // names the ranks that did not come
    communicator = ls::Communicator::create(devices);  // the old one throws CollectiveAborted from now on
    is_replaced = true;
  }
  //! [CollectiveError, CollectiveTimeout, CollectiveAborted, PeerLost]
  CHECK(is_replaced);
}
