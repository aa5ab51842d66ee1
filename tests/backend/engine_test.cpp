#include <memory>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/engine.hpp>

using namespace lockstep;

namespace {

std::unique_ptr<backend::Engine> start_nothing(const backend::EngineSetup&) { return nullptr; }
std::unique_ptr<backend::Engine> start_something_else(const backend::EngineSetup&) { return nullptr; }

}  // namespace

TEST_CASE("the first engine of a name is the one that is found", "[engines]") {
  CHECK(backend::find_engine("pigeons") == nullptr);
  backend::register_engine({.name = "pigeons", .is_launched = true, .start = &start_nothing});
  backend::register_engine({.name = "pigeons", .start = &start_something_else});
  const backend::EngineKind* const pigeons = backend::find_engine("pigeons");
  REQUIRE(pigeons != nullptr);
  CHECK(pigeons->name == "pigeons");
  CHECK(pigeons->is_launched);
  CHECK(pigeons->start == &start_nothing);
  backend::register_engine({.name = "ravens", .start = &start_nothing});
  CHECK(backend::find_engine("pigeons") == pigeons);
}
