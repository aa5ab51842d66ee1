#include <limits>
#include <utility>

#include <lockstep/strategy/packed_reduction.hpp>

namespace lockstep {

PackedReduction::PackedReduction(ReplicaContext& context, ReduceOp op, const CommunicationOptions& options)
    : context_(context), op_(op), options_(options.merged_over({})) {
  limit_ = options_.bytes_per_pack == 0 ? kDefaultBytesPerPack : options_.bytes_per_pack;
  options_.bytes_per_pack = std::numeric_limits<std::int64_t>::max();  // what is started together is one pack
}

void PackedReduction::add(const Tensor& value) {
  pack_.push_back(value);
  pack_bytes_ += value.nbytes();
  if (pack_bytes_ > limit_) start();
}

void PackedReduction::start() {
  const std::vector<Tensor> pack = std::exchange(pack_, {});
  pack_bytes_ = 0;
  started_.push_back(context_.start_all_reduce(op_, pack, options_));
}

std::vector<Tensor> PackedReduction::wait() {
  if (!pack_.empty() || started_.empty()) start();  // also when it is empty: replicas must agree that it is
  std::vector<Tensor> results;
  for (auto& work : std::exchange(started_, {}))
    for (Tensor& result : work.wait()) results.push_back(std::move(result));
  return results;
}

}  // namespace lockstep
