#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <lockstep/lockstep.hpp>

namespace digits {

namespace ls = lockstep;

enum class OptimizerKind : std::uint8_t { adam, sgd };

/// "Adam", "SGD with momentum".
std::string_view name(OptimizerKind kind);
double default_learning_rate(OptimizerKind kind);

std::unique_ptr<ls::optim::Optimizer> make_optimizer(OptimizerKind kind, double learning_rate);

}  // namespace digits
