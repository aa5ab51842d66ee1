#include <exception>
#include <utility>

#include <lockstep/strategy/packed_reduction.hpp>

namespace lockstep {

PackedReduction::PackedReduction(ReplicaContext& context, ReduceOp op, const CommunicationOptions& options)
    : context_(context), op_(op), options_(options.merged_over({})) {
  limit_ = options_.bytes_per_pack;
  if (limit_ == 0) limit_ = kDefaultBytesPerPack;
  options_.bytes_per_pack = 0;  // each call is one pack, in one buffer where that pays
}

void PackedReduction::add(const Tensor& value) {
  pack_.push_back({value, {}});
  pack_bytes_ += value.nbytes();
  if (pack_bytes_ > limit_) start();
}

void PackedReduction::start() {
  auto pack = std::exchange(pack_, {});
  pack_bytes_ = 0;
  try {
    auto [work, results] = context_.start_all_reduce_batch(op_, std::move(pack), {}, options_);
    started_.push_back({std::move(work), std::move(results)});
  } catch (const Error&) {
    if (!refused_) refused_ = std::current_exception();
    throw;
  }
}

std::vector<Tensor> PackedReduction::wait() {
  try {
    // An empty batch starts, too: replicas must agree that it is empty.
    if (!pack_.empty() || (started_.empty() && !refused_)) start();
  } catch (const Error&) {  // kept in refused_
  }
  auto started = std::exchange(started_, {});
  if (const auto refused = std::exchange(refused_, nullptr)) std::rethrow_exception(refused);
  std::size_t num_results = 0;
  for (const Started& one : started) num_results += one.results.size();
  std::vector<Tensor> results;
  results.reserve(num_results);
  for (Started& one : started) {
    one.work.join();
    for (detail::Contribution& result : one.results) {
      detail::give_to_current_stream(result.tensor);
      results.push_back(std::move(result.tensor));
    }
  }
  return results;
}

}  // namespace lockstep
