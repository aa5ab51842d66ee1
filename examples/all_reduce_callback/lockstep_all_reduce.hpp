#pragma once

#include "engine.hpp"

// lockstep's collectives as the engine's callback.
extern const engine::AllReduce lockstep_all_reduce;
