#include <functional>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/iterators/function_iterators.hpp"
#include "input/iterators/interleave_iterator.hpp"
#include "input/iterators/parallel_map_iterator.hpp"
#include "input/pipeline/transform.hpp"

namespace lockstep::detail {
namespace {

constexpr int kMaxParallelCalls = 1024;

void check_options(const ParallelOptions& options, std::string_view what) {
  LOCKSTEP_EXPECTS(options.num_parallel_calls == ParallelOptions::automatic ||
                       (options.num_parallel_calls >= 1 && options.num_parallel_calls <= kMaxParallelCalls),
                   InvalidArgument, what, ": num_parallel_calls is ", options.num_parallel_calls,
                   ". Pass at least 1, which uses the calling thread, and at most ", kMaxParallelCalls,
                   ", or ParallelOptions::automatic.");
}

auto set_type(ElementType type) {
  return [type = std::move(type)](Pipeline& result) { set_type(result, type); };
}

/// An `edit` as set_type, after which a cache's file does not depend on the calls' number.
auto set_type_and_name(ElementType type, std::string name) {
  return [set = set_type(std::move(type)), name = std::move(name)](Pipeline& result) {
    set(result);
    result.stage->elements = name;
  };
}

/// The name of a call in Stage::text: "map" of "Dataset::map".
std::string name_of(std::string_view what) { return std::string(what.substr(what.rfind(':') + 1)); }

/// The parallelism as a part of such a name: what the threads hold depends on it.
std::string text_of(const ParallelOptions& options) {
  if (options.num_parallel_calls == 1) return "one call";
  const std::string number = options.num_parallel_calls == ParallelOptions::automatic
                                 ? "automatic"
                                 : concat(options.num_parallel_calls);
  return concat(number, " calls", options.deterministic ? "" : " in any order");
}

}  // namespace

PipelineHandle mapped(const PipelineHandle& input, ElementFunction fn, ElementType type,
                      const ParallelOptions& options, std::string_view what) {
  check_options(options, what);
  const auto open = [fn = std::move(fn), options, what](
                        const PipelineHandle& from,
                        const IterationKey& key) -> std::unique_ptr<Iterator<FlatElement>> {
    if (options.num_parallel_calls != 1)
      return std::make_unique<ParallelMapIterator>(from, key, fn, options, what);
    return std::make_unique<MapIterator>(from->open(key), fn, what);
  };
  return with_elements(input, concat(name_of(what), "(", text_of(options), ")"), open,
                       set_type_and_name(std::move(type), name_of(what)));
}

PipelineHandle filtered(const PipelineHandle& input, ElementPredicate predicate) {
  return with_elements(
      input, "filter",
      [predicate = std::move(predicate)](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<FilterIterator>(from->open(key), predicate);
      },
      [](Pipeline& result) { result.cardinality = kUnknownCardinality; });
}

PipelineHandle taken_while(const PipelineHandle& input, ElementPredicate predicate) {
  return with_elements(
      input, "take_while",
      [predicate = std::move(predicate)](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<TakeWhileIterator>(from->open(key), predicate);
      },
      [](Pipeline& result) { result.cardinality = kUnknownCardinality; });
}

PipelineHandle scanned(const PipelineHandle& input, StatefulFunctionFactory make, ElementType type) {
  return with_elements(
      input, "scan",
      [make = std::move(make)](const PipelineHandle& from, const IterationKey& key) {
        return std::make_unique<ScanIterator>(from->open(key), make());
      },
      set_type(std::move(type)));
}

PipelineHandle seeded(const PipelineHandle& input, std::uint64_t seed) {
  return with_elements(
      input, concat("seeds(", seed, ")"),
      [=, position = input->position, count = input->counts.size()](const PipelineHandle& from,
                                                                    const IterationKey& key) {
        std::uint64_t pass_seed = from->shard;  // 0: the whole
        for (const std::uint32_t word : key.seed_words(seed, position, count))
          pass_seed = mix(pass_seed, word);
        return std::make_unique<SeedIterator>(from->open(key), pass_seed);
      },
      count_iterations(std::make_shared<IterationCounter>()));
}

namespace {

/// The parameters of an interleaving, which are the same for all shards of the input.
struct Interleaving {
  DatasetFunction fn;
  PartIteratorFactory open;
  std::int64_t cycle_length, block_length;
  ParallelOptions options;
  std::string_view what;
  std::function<void(Pipeline&)> edit;

  std::unique_ptr<Iterator<FlatElement>> pass(const PipelineHandle& input, const IterationKey& key) const {
    const IteratorFunction make = [fn = fn, open = open, key, position = input->position,
                                   count = input->counts.size(),
                                   parts = PassStatistics::parts(key.statistics(), name_of(what))](
                                      FlatElement&& element, std::int64_t index) {
      PipelineHandle part = fn(std::move(element));
      auto pass = open(part, key.element(position, count, index).inside(part->counts).measured(parts));
      return OpenedPart{std::move(part), std::move(pass)};
    };
    return std::make_unique<InterleaveIterator>(input->open(key), make, cycle_length, block_length, options,
                                                what);
  }
};

PipelineHandle interleaved(const PipelineHandle& input, const Interleaving& how) {
  const auto pass = [how](const PipelineHandle& from, const IterationKey& key) {
    return how.pass(from, key.shuffled(0));
  };
  const std::string stage = concat(name_of(how.what), "(", how.cycle_length, ", ", how.block_length, ", ",
                                   text_of(how.options), ")");
  Pipeline result = *with_elements(input, stage, pass, how.edit);
  // The datasets that the function returns may have hints too.
  result.fill_hints = [input, how](std::int64_t num_shards, std::int64_t index) {
    Interleaving filled = how;
    filled.fn = [fn = how.fn, num_shards, index](FlatElement&& element) {
      return with_hints(fn(std::move(element)), num_shards, index);
    };
    return interleaved(with_hints(input, num_shards, index), filled);
  };
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace

PipelineHandle interleaved(const PipelineHandle& input, DatasetFunction fn, PartIteratorFactory open,
                           ElementType type, std::int64_t cycle_length, std::int64_t block_length,
                           const ParallelOptions& options, std::string_view what) {
  LOCKSTEP_EXPECTS(cycle_length >= 1 && block_length >= 1, InvalidArgument, what, ": blocks of ",
                   block_length, " elements of ", cycle_length, " datasets at a time. Pass at least 1 each.");
  check_options(options, what);
  const auto edit = [set = set_type_and_name(
                         std::move(type), concat(name_of(what), "(", cycle_length, ", ", block_length, ")")),
                     count = count_iterations(std::make_shared<IterationCounter>())](Pipeline& result) {
    set(result);
    result.batch_size.reset();
    result.cardinality = kUnknownCardinality;
    count(result);
  };
  return interleaved(input,
                     {std::move(fn), std::move(open), cycle_length, block_length, options, what, edit});
}

PipelineHandle generator_pipeline(GeneratorIteratorFactory open, ElementType type) {
  auto opener = [open = std::move(open)](const IterationKey&) {
    return std::make_unique<UserIterator>(open);
  };
  Pipeline result{IteratorFactory<FlatElement>(std::move(opener)), {}, std::nullopt, {}};
  result.stage = std::make_shared<Stage>(Stage{"from_generator"});
  detail::set_type(result, type);
  return std::make_shared<const Pipeline>(std::move(result));
}

}  // namespace lockstep::detail
