#include <tuple>

#include <lockstep/lockstep.hpp>

/// One mistake for each macro, which the compiler's first error explains (CMakeLists.txt).
namespace ls = lockstep;

struct Totals {
  ls::Tensor loss;
  double rows;
};
LOCKSTEP_NEST(Totals, loss, rows)

void misuse([[maybe_unused]] ls::Strategy& strategy, [[maybe_unused]] const ls::Dataset& dataset) {
#if defined(UNTYPED)
  strategy.distribute_dataset(dataset);
#elif defined(RECORD)
  ls::Dataset::from_files({"a.csv"}, ls::readers::csv({.columns = {ls::DType::f32, ls::DType::f32}}))
      .map([](ls::Tensor x, ls::Tensor y) {
        return std::tuple{x, y};
      });
#elif defined(FILTER)
  ls::Dataset::range(4).filter([](ls::Tensor, ls::Tensor) { return true; });
#elif defined(INTERLEAVE)
  ls::Dataset::range(4).interleave([](int) { return ls::Dataset::range(2); }, 2);
#elif defined(NUMBER)
  strategy.reduce(ls::ReduceOp::sum, strategy.run([] { return Totals{ls::Tensor::ones({1}), 1.0}; }));
#elif defined(NUMBER_IN_REPLICA)
  strategy.run([](ls::ReplicaContext& ctx) {
    return ctx.all_reduce(ls::ReduceOp::sum, Totals{ls::Tensor::ones({1}), 1.0});
  });
#elif defined(REFERENCE)
  strategy.run([](ls::Tensor& x) { x.add_(1); }, ls::Tensor::ones({1}));
#elif defined(MEMBERS)
  strategy.run([](ls::Tensor, ls::Tensor, ls::Tensor) {}, std::tuple(ls::Tensor(), ls::Tensor()));
#elif defined(DATA)
  *ls::Tensor::ones({1}).data<float>() = 2;
#endif
}
