#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::model {

/// A proof: explores executions. @return whether all of them were right.
struct Proof {
  const char* name;
  bool (*holds)(std::uint64_t num_executions);
};

/// Runs the proofs as they are, and then with each place where the translated sources order memory weakened
/// in turn. Each weakening must break a proof, unless `unnoticed_file` lists it with the reason. Prints what
/// it does.
/// @param arguments  [executions of each proof].
int prove(const std::vector<Proof>& proofs, const std::string& unnoticed_file, int argc, char** argv);

}  // namespace lockstep::model
