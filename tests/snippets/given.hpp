#pragma once

#include <cmath>
#include <csignal>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

/// What the snippets of the documentation take for granted: they are compiled, and not run.
namespace ls = lockstep;
using namespace std::chrono_literals;

extern ls::MirroredStrategy strategy;

// A user's data and model.
extern ls::Tensor images, labels, delta;
extern ls::PerReplica<ls::Tensor> batch, batch_x, batch_y, per_replica_gradients;
ls::Tensor per_example_loss(const ls::Tensor& x, const ls::Tensor& y);
ls::Tensor gradient(const ls::Tensor& x, const ls::Tensor& y);
std::tuple<ls::Tensor, ls::Tensor> gradients(const ls::Tensor& x, const ls::Tensor& y);
struct Step {
  std::tuple<ls::Tensor, ls::Tensor> operator()(const ls::Tensor& x) const;  // the loss and its gradient
  void operator()(const ls::Tensor& x, const ls::Tensor& y) const;
};
extern const Step step;
extern std::int64_t total, epoch;

// What earlier snippets made.
extern ls::Variable w, b;
extern ls::optim::AdamW optimizer;
extern ls::TypedDataset<std::tuple<ls::Tensor, ls::Tensor>> squares;
extern ls::Communicator communicator;

void train(ls::Strategy& strategy, const char* checkpoints);
bool train_until(ls::Strategy& strategy, const char* checkpoints, const std::function<bool()>& is_enough);

// An engine's own.
extern std::vector<float*> pointers;
extern std::vector<ls::TensorView> buffers;
extern std::vector<ls::StreamRef> streams;
extern DLManagedTensorVersioned* received;
void hand_over(DLManagedTensorVersioned* managed);
