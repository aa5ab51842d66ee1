// Four replicas run one function at the same time.
#include <iostream>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});

  const ls::PerReplica<int> squares = strategy.run([](ls::ReplicaContext& context) {
    const int id = context.replica_id_in_sync_group();
    return id * id;
  });

  for (int replica = 0; replica < squares.size(); ++replica)
    std::cout << "hello from replica " << replica << " of " << strategy.num_replicas_in_sync() << ": "
              << squares[replica] << '\n';

  const bool right = squares.size() == 4 && squares[3] == 9;
  return right ? 0 : 1;
}
