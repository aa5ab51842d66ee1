#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/input/readers.hpp>

#include "goldens/programs.hpp"
#include "support/temporary_directory.hpp"

/// Datasets of the cases' programs, and steps as the cases have them.
namespace lockstep::test {

inline TypedDataset<Tensor> range_batches(std::int64_t n, std::int64_t batch, bool drop_remainder = false) {
  return Dataset::range(n).batch(batch, drop_remainder);
}

/// Text files of numbers file * 100 + line.
class NumberFiles {
 public:
  NumberFiles(int files, int lines) {
    for (int i = 0; i < files; ++i) {
      paths_.push_back(folder_.path() / ("00" + std::to_string(i) + ".txt"));
      std::ofstream file(paths_.back());
      for (int k = 0; k < lines; ++k) file << i * 100 + k << '\n';
    }
    std::sort(paths_.begin(), paths_.end());
  }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  static TypedDataset<Tensor> numbers(const std::vector<std::filesystem::path>& paths) {
    return Dataset::from_files(paths, readers::lines()).map([](const Tensor& line) {
      return Tensor::scalar(std::int64_t{std::stoll(readers::text(line))}, Device());
    });
  }
  TypedDataset<Tensor> numbers() const { return numbers(paths_); }

 private:
  TemporaryDirectory folder_;
  std::vector<std::filesystem::path> paths_;
};

inline Json value_of(const Tensor& tensor) { return encode(tensor).at("value"); }
inline Json values_of(const PerReplica<Tensor>& value) {
  Json components = Json::array();
  for (const Tensor& component : value) components.push_back(value_of(component));
  return components;
}
inline Json shapes_of(const PerReplica<Tensor>& value) {
  Json components = Json::array();
  for (const Tensor& component : value) components.push_back(encode(component).at("shape"));
  return components;
}

/// f(step) of at most so many steps.
template <class D, class F>
Json steps(const DistributedDataset<D>& dataset, F f, std::size_t limit = 40) {
  Json all = Json::array();
  auto iterator = dataset.iterator();
  while (all.size() < limit) {
    const auto step = iterator.next_optional();
    if (!step) break;
    all.push_back(f(*step));
  }
  return all;
}
inline Json steps(const DistributedDataset<PerReplica<Tensor>>& dataset, std::size_t limit = 40) {
  return steps(dataset, values_of, limit);
}
/// The elements of a dataset without a strategy.
inline Json elements(const TypedDataset<Tensor>& dataset) {
  Json all = Json::array();
  for (const Tensor& element : dataset) all.push_back(value_of(element));
  return all;
}

}  // namespace lockstep::test
