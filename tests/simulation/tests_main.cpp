#include <catch2/catch_session.hpp>

#include "simulation/fork.hpp"

int main(int argc, char** argv) {
  lockstep::simulation::prepare(argv);
  return Catch::Session().run(argc, argv);
}
