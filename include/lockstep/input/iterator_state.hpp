#pragma once

#include <cstddef>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// The position of a pass over a dataset, as bytes that any process may keep and restore: what `save_state`
/// of a DatasetIterator or DistributedIterator gives. A pass that is restored gives what the saved one had
/// yet to give.
///
/// The bytes have the format's version, a description of each of the dataset's stages, and a checksum. They
/// hold what the stages hold between two elements: where a source is, the states of random orders, and what
/// is in the buffers of `shuffle`, `batch`, `window`, `prefetch` and maps on several threads: for rows of
/// `from_tensor_slices` and `range` their numbers, for other elements the elements themselves. So saving
/// reads no element, and restoring reads none that had been read.
///
/// Functions are not in it: the dataset that it is restored into must have the same ones.
using IteratorState = std::vector<std::byte>;

}  // namespace lockstep

#pragma GCC visibility pop
