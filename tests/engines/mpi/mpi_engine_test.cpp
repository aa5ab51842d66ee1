#include <cstdlib>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

// With a launcher: mpi_program.cpp.
TEST_CASE("the engine mpi is known, and starts under a launcher alone", "[engines]") {
  const backend::EngineKind* const mpi = backend::find_engine("mpi");
  REQUIRE(mpi != nullptr);
  CHECK(mpi->is_launched);
  if (std::getenv("PMIX_RANK") != nullptr) SKIP("a launcher has started the tests");
  REQUIRE_THROWS_MATCHES(mpi->start({.process = 0, .num_processes = 3}), Unsupported,
                         says("starting the engine mpi", "no launcher", "mpirun -np 3", "engine gloo"));
}
