#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/input/dataset.hpp>

/// Datasets of all sources and transformations, made at random: the same seed gives the same one, in any
/// process.
namespace lockstep::test {

/// Numbers that a seed determines.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  /// One of 0, 1, … below n.
  std::int64_t below(std::int64_t n);

 private:
  std::uint64_t state_;
};

/// Files of numbers in each format, in a folder.
void write_number_files(const std::filesystem::path& folder);

struct RandomPipeline {
  TypedDataset<Tensor> elements;  ///< i64 scalars, at most 150.
  std::string text;               ///< The calls.
};

/// @param folder  with number files; cache files are made in it.
RandomPipeline random_pipeline(std::uint64_t seed, const std::filesystem::path& folder);

/// A dataset whose files can be shared out.
RandomPipeline random_files(std::uint64_t seed, const std::filesystem::path& folder);

}  // namespace lockstep::test
