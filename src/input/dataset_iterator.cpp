#include <lockstep/input/dataset_iterator.hpp>

#include "detail/expects.hpp"
#include "input/iterators/outer_iterator.hpp"

namespace lockstep::detail {

std::unique_ptr<Iterator<FlatElement>> open_for_user(const PipelineHandle& pipeline, std::string_view what) {
  return std::make_unique<OuterIterator<FlatElement>>(pipeline->open(), what);
}

void raise_end_of_input(std::string_view what, std::int64_t count, std::string_view unit) {
  raise<OutOfRange>({__FILE__, __LINE__, __func__},
                    concat(what, ": the dataset has ended after ", count, " ", unit,
                           ". Take another iterator() for another pass; next_optional() gives nothing at the "
                           "end."));
}

void raise_iterator_moved_from(std::string_view type) {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat(type, ": used after it was moved from. Use the one it was moved to."));
}

}  // namespace lockstep::detail
