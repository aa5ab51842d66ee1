#include <algorithm>
#include <bit>
#include <iomanip>
#include <map>
#include <ostream>
#include <utility>

#include <unistd.h>

#include <lockstep/error.hpp>
#include <lockstep/trace.hpp>

#include "detail/atomic_file.hpp"
#include "detail/expects.hpp"
#include "trace/recording.hpp"

namespace lockstep::trace {

namespace {

constexpr std::size_t kMaxSpans = std::size_t{1} << 24;

detail::Recording the_recording(std::string_view what) {
  detail::Recording recording = detail::recording();
  LOCKSTEP_EXPECTS(
      recording.begin_ns != 0, InvalidArgument, what,
      ": nothing was recorded. Call trace::start before what is to be seen, or set LOCKSTEP_TRACE.");
  return recording;
}

std::chrono::nanoseconds ns(std::uint64_t count) { return std::chrono::nanoseconds(count); }

}  // namespace

void start(std::size_t spans_per_thread) {
  LOCKSTEP_EXPECTS(0 < spans_per_thread && spans_per_thread <= kMaxSpans, InvalidArgument,
                   "trace::start: ", spans_per_thread, " spans for each thread. Pass a number from 1 to ",
                   kMaxSpans, ".");
  detail::start_recording(std::bit_ceil(spans_per_thread + 1));  // one may be half written
}
void stop() noexcept { detail::stop_recording(); }
bool is_recording() noexcept {
  return (detail::Span::listeners().load(std::memory_order_relaxed) & detail::Span::kRecording) != 0;
}

void write(const std::string& file) {
  const std::string text =
      detail::chrome_trace(the_recording(detail::concat("trace::write to \"", file, '"')), getpid());
  detail::AtomicFile out(file, "trace::write");
  out.write(text.data(), text.size());
  out.commit();
}

Summary summary() {
  const detail::Recording recording = detail::recording();
  Summary result{.duration = ns(recording.end_ns - recording.begin_ns)};
  std::map<std::pair<detail::SpanKind, std::string_view>, SummaryRow> rows;
  for (const auto& ring : recording.rings) {
    const std::vector<detail::SpanRecord> spans = ring->records();
    result.num_spans += static_cast<std::int64_t>(spans.size());
    result.num_lost += static_cast<std::int64_t>(ring->num_added() -
                                                 std::min<std::uint64_t>(ring->num_added(), spans.size()));
    for (const detail::SpanRecord& span : spans) {
      SummaryRow& row = rows[{span.kind, span.name}];
      const std::chrono::nanoseconds time = ns(span.end_ns - span.begin_ns);
      ++row.num_calls;
      row.bytes += static_cast<std::int64_t>(span.bytes);
      row.total += time;
      row.longest = std::max(row.longest, time);
      row.waiting += ns(span.waiting_ns);
    }
  }
  for (auto& [key, row] : rows) {
    row.kind = name_of(key.first);
    row.name = key.second;
    result.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(result.rows, [](const SummaryRow& a, const SummaryRow& b) {
    return a.kind == b.kind && a.total > b.total;
  });
  return result;
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  const auto flags = out.flags();
  const auto precision = out.precision();
  std::size_t width = 4;
  for (const SummaryRow& row : summary.rows) width = std::max(width, row.name.size());
  const auto column = static_cast<int>(width);
  out << std::left << std::setw(12) << "kind" << std::setw(column) << "call" << std::right << std::setw(10)
      << "calls" << std::setw(12) << "MB" << std::setw(12) << "total ms" << std::setw(12) << "mean us"
      << std::setw(12) << "longest us" << std::setw(11) << "waiting" << '\n';
  out << std::fixed;
  for (const SummaryRow& row : summary.rows) {
    const double total = milliseconds(row.total);
    out << std::left << std::setw(12) << row.kind << std::setw(column) << row.name << std::right
        << std::setw(10) << row.num_calls << std::setprecision(2) << std::setw(12)
        << static_cast<double>(row.bytes) / 1e6 << std::setw(12) << total << std::setw(12)
        << 1000 * total / static_cast<double>(row.num_calls) << std::setw(12)
        << 1000 * milliseconds(row.longest) << std::setprecision(1) << std::setw(9)
        << (total > 0 ? 100 * milliseconds(row.waiting) / total : 0.0) << " %\n";
  }
  out << summary.num_spans << " spans in " << std::setprecision(2) << milliseconds(summary.duration) << " ms";
  if (summary.num_lost != 0)
    out << "; " << summary.num_lost << " older ones were replaced: pass trace::start more";
  out << '\n';
  out.flags(flags);
  out.precision(precision);
  return out;
}

}  // namespace lockstep::trace
