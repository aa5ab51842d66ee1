#include <cstdio>

#include <lockstep/backend/engine.hpp>
#include <lockstep/lockstep.hpp>

int main(int, char** arguments) {
  const lockstep::MirroredStrategy strategy({"CPU:0"});
  const bool is_found = lockstep::backend::find_engine(arguments[1]) != nullptr;
  std::printf("%s is %s\n", arguments[1], is_found ? "found" : "not found");
  return is_found ? 0 : 1;
}
