#pragma once

/// All of lockstep, but for the interface that backends implement.

#include <lockstep/buffer.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/fusion.hpp>
#include <lockstep/collectives/options.hpp>
#include <lockstep/device.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/memory.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/scalar.hpp>
#include <lockstep/shape.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/tensor_view.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/nest.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/reduce_value.hpp>
#include <lockstep/values/variable.hpp>
#include <lockstep/version.hpp>
