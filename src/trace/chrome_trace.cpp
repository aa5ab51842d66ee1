#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "detail/concat.hpp"
#include "trace/recording.hpp"

namespace lockstep::detail {

namespace {

// Rows of threads that act as no replica come after those of replicas.
constexpr int kFirstThreadRow = 1'000'000;

struct Event {
  SpanRecord span;
  int row;
};

/// In quotes, as JSON has it.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Chrome's unit, with the nanoseconds as decimals.
std::string microseconds(std::uint64_t ns) {
  const std::string decimals = std::to_string(1000 + ns % 1000);
  return concat(ns / 1000, '.', decimals.substr(1));
}

/// The array of events, an event on a line.
class Events {
 public:
  explicit Events(int process) : process_(process) {
    add("M", "process_name", 0,
        concat(",\"args\":{\"name\":", json_text(concat("lockstep, process ", process)), '}'));
  }

  /// Names and orders a row of the picture.
  void add_row(int row, const std::string& name) {
    add("M", "thread_name", row, concat(",\"args\":{\"name\":", json_text(name), '}'));
    add("M", "thread_sort_index", row, concat(",\"args\":{\"sort_index\":", row, '}'));
  }
  void add_span(const Event& event) {
    const SpanRecord& span = event.span;
    std::string arguments;
    const auto argument = [&](std::string_view name, const std::string& value) {
      arguments += concat(arguments.empty() ? "" : ",", json_text(name), ':', value);
    };
    if (span.bytes != 0) argument("bytes", std::to_string(span.bytes));
    if (span.path != nullptr) argument("path", json_text(span.path));
    if (span.waiting_ns != 0) argument("waiting_us", microseconds(span.waiting_ns));
    add("X", span.name, event.row,
        concat(",\"cat\":", json_text(name_of(span.kind)), ",\"ts\":", microseconds(span.begin_ns),
               ",\"dur\":", microseconds(span.end_ns - span.begin_ns), ",\"args\":{", arguments, '}'));
  }
  /// Arrows through the ranks' spans of a collective. @param ranks  by begin, at least two.
  void add_arrows(const std::vector<const Event*>& ranks) {
    const std::string id = json_text(concat(process_, '.', ranks.front()->span.call));
    for (const Event* const rank : ranks) {
      const char* const phase = rank == ranks.front() ? "s" : rank == ranks.back() ? "f" : "t";
      add(phase, "ranks", rank->row,
          concat(",\"cat\":\"collective\",\"id\":", id, ",\"ts\":", microseconds(rank->span.begin_ns),
                 *phase == 'f' ? ",\"bp\":\"e\"" : ""));  // it ends at the span around that time
    }
  }

  const std::string& text() const { return text_; }

 private:
  void add(const char* phase, std::string_view name, int row, const std::string& members) {
    text_ += concat(text_.empty() ? "" : ",\n", "{\"ph\":\"", phase, "\",\"name\":", json_text(name),
                    ",\"pid\":", process_, ",\"tid\":", row, members, '}');
  }

  const int process_;
  std::string text_;
};

}  // namespace

std::string chrome_trace(const Recording& recording, int process) {
  std::vector<Event> spans;
  for (const auto& ring : recording.rings)
    for (const SpanRecord& span : ring->records())
      spans.push_back({span, span.replica >= 0 ? span.replica : kFirstThreadRow + ring->thread()});
  std::ranges::stable_sort(spans, {}, [](const Event& event) { return event.span.begin_ns; });

  Events events(process);
  std::set<int> rows;
  std::map<std::uint64_t, std::vector<const Event*>> collectives;
  for (const Event& event : spans) {
    rows.insert(event.row);
    if (event.span.call != 0) collectives[event.span.call].push_back(&event);
  }
  for (const int row : rows)
    events.add_row(
        row, row < kFirstThreadRow ? concat("replica ", row) : concat("thread ", row - kFirstThreadRow));
  for (const Event& event : spans) events.add_span(event);
  for (const auto& [call, ranks] : collectives)
    if (ranks.size() > 1) events.add_arrows(ranks);
  return concat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", events.text(), "\n]}\n");
}

}  // namespace lockstep::detail
