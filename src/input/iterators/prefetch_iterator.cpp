#include "input/iterators/prefetch_iterator.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {

PipelineHandle prefetched(const PipelineHandle& input, std::int64_t buffer_size) {
  LOCKSTEP_EXPECTS(buffer_size >= 1, InvalidArgument, "Dataset::prefetch: a buffer of ", buffer_size,
                   " elements. Pass at least 1.");
  return with_elements(
      input, concat("prefetch(", buffer_size, ")"),
      [buffer_size](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<PrefetchIterator<FlatElement>>([from, key] { return from->open(key); },
                                                               buffer_size);
      },
      [](Pipeline& result) { result.stage->elements = ""; });
}

}  // namespace lockstep::detail
