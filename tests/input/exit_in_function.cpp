#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <lockstep/input/dataset.hpp>

/// exit_in_function WHERE: std::exit(3) in a function of a dataset's, while an iterator in a static variable
/// calls it: on the thread that takes the elements ("here"), on one that reads ahead ("prefetch"), on a
/// map's ("map"), or on a map's that another thread reads ahead of ("both").

namespace ls = lockstep;

int main(int, char** argv) {
  const std::string_view where = argv[1];
  const int num_calls = where == "map" || where == "both" ? 2 : 1;
  const auto exits = [](const ls::Tensor& x) {
    if (x.item<std::int64_t>() == 0) std::exit(3);  // the main thread waits for it
    return x;
  };
  ls::TypedDataset<ls::Tensor> data = ls::Dataset::range(10).map(exits, {.num_parallel_calls = num_calls});
  if (where == "prefetch" || where == "both") data = data.prefetch(2);
  static auto iterator = data.iterator();
  iterator.next();
  return 0;
}
