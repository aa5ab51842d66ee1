#include <sstream>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/input_options.hpp>

using namespace lockstep;

TEST_CASE("input options have TensorFlow's defaults", "[input][host]") {
  const InputOptions options;
  CHECK(options.fetch_to_device);
  CHECK(options.replication_mode == InputReplicationMode::per_worker);
  CHECK_FALSE(options.place_dataset_on_device);
  CHECK(options.per_replica_buffer_size == 1);
  CHECK(options.auto_shard_policy == AutoShardPolicy::automatic);
  CHECK(options.batch_split == BatchSplit::ceiling);
  CHECK(options.batch_weights.empty());
}

TEST_CASE("policies and modes have names", "[input][host]") {
  std::ostringstream out;
  for (const AutoShardPolicy policy : {AutoShardPolicy::off, AutoShardPolicy::automatic,
                                       AutoShardPolicy::file, AutoShardPolicy::data, AutoShardPolicy::hint})
    out << policy << ' ';
  out << InputReplicationMode::per_worker << ' ' << InputReplicationMode::per_replica;
  for (const BatchSplit split : {BatchSplit::ceiling, BatchSplit::balanced, BatchSplit::weighted})
    out << ' ' << split;
  CHECK(out.str() == "off automatic file data hint per_worker per_replica ceiling balanced weighted");
  CHECK(static_cast<int>(AutoShardPolicy::off) == -1);
}
