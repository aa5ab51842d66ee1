#include <lockstep/input/dataset.hpp>

namespace lockstep {

TypedDataset<Tensor> Dataset::range(std::int64_t stop) { return range(0, stop); }

TypedDataset<Tensor> Dataset::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  return TypedDataset<Tensor>(detail::range_pipeline(start, stop, step, detail::known_type(Tensor())));
}

}  // namespace lockstep
