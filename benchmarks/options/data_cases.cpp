#include "options/data_cases.hpp"

#include <span>
#include <string_view>
#include <vector>

#include "detail/concat.hpp"
#include "report/names.hpp"

namespace lockstep::bench {
namespace {

using detail::concat;

// The library's names: "float32", "mean".
template <class Value>
std::string_view name_of(Value value) {
  return name(value);
}

template <class Value>
std::vector<Value> choose(std::span<const Value> known, const std::string& text, const char* flag) {
  std::vector<Value> chosen;
  std::string names;
  for (const Value value : known) {
    if (text == bench_name(value) || text == name_of(value) || text == "all") chosen.push_back(value);
    names += concat(bench_name(value), " ");
  }
  if (chosen.empty())
    throw OptionError(ExitStatus::usage, concat(flag, " '", text, "' is none of: ", names, "all"));
  return chosen;
}

}  // namespace

void set_cases(Options& options, const Traits& operation, const std::string& op_text,
               const std::string& dtype_text) {
  if (op_text == "mulsum")
    throw OptionError(ExitStatus::not_implemented,
                      "-o (--op) mulsum: lockstep has no sum with a factor per rank; use sum or avg");
  const auto ops = choose(all_ops(), op_text, "-o (--op)");
  const auto dtypes = choose(all_dtypes(), dtype_text, "-d (--datatype)");
  options.cases.clear();
  if (!operation.reduces) {
    for (const DType dtype : dtypes) {
      const bool fits = !operation.is_floating || is_floating(dtype);
      const auto reason = concat(bench_name(dtype), ": ", operation.name, " is for floating-point data");
      if (fits)
        options.cases.push_back({dtype, {}});
      else if (dtype_text == "all")
        options.skipped_cases.push_back(reason);
      else
        throw OptionError(ExitStatus::not_implemented, concat("-d (--datatype) ", reason));
    }
    return;
  }
  if (op_text == "all") options.skipped_cases.push_back("mulsum: lockstep has no sum with a factor per rank");

  for (const DType dtype : dtypes) {
    for (const ReduceOp op : ops) {
      if (op != ReduceOp::mean || is_floating(dtype)) {
        options.cases.push_back({dtype, op});
        continue;
      }
      const auto reason = concat("avg of ", bench_name(dtype),
                                 ": a mean of integers is a true division, so its result has dtype ",
                                 reduced_dtype(op, dtype), " and cannot be in place");
      if (op_text != "all" && dtype_text != "all")
        throw OptionError(ExitStatus::not_implemented, concat("-o (--op) ", reason));
      options.skipped_cases.push_back(reason);
    }
  }
}

}  // namespace lockstep::bench
