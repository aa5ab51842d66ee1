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

/// Chrome's unit, with the nanoseconds as decimals.
double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

/// The array of events, an event on a line.
class Events {
 public:
  explicit Events(int process) : process_(process) {}

  void add(nlohmann::ordered_json event, int row) {
    event["pid"] = process_;
    event["tid"] = row;
    text_ += concat(text_.empty() ? "" : ",\n", event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  /// Names and orders a row of the picture.
  void add_row(int row, const std::string& name) {
    add({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", name}}}}, row);
    add({{"ph", "M"}, {"name", "thread_sort_index"}, {"args", {{"sort_index", row}}}}, row);
  }
  void add_span(const Event& event) {
    const SpanRecord& span = event.span;
    Json arguments = Json::object();
    if (span.bytes != 0) arguments["bytes"] = span.bytes;
    if (span.path != nullptr) arguments["path"] = span.path;
    if (span.waiting_ns != 0) arguments["waiting_us"] = microseconds(span.waiting_ns);
    add({{"ph", "X"},
         {"name", span.name},
         {"cat", name_of(span.kind)},
         {"ts", microseconds(span.begin_ns)},
         {"dur", microseconds(span.end_ns - span.begin_ns)},
         {"args", std::move(arguments)}},
        event.row);
  }
  /// Arrows through the ranks' spans of a collective. @param ranks  by begin, at least two.
  void add_arrows(const std::vector<const Event*>& ranks) {
    const std::string id = concat(process_, '.', ranks.front()->span.call);
    for (const Event* const rank : ranks) {
      const char* const phase = rank == ranks.front() ? "s" : rank == ranks.back() ? "f" : "t";
      Json event{{"ph", phase}, {"name", "ranks"}, {"cat", "collective"}, {"id", id}};
      event["ts"] = microseconds(rank->span.begin_ns);
      if (*phase == 'f') event["bp"] = "e";  // it ends at the span around that time
      add(std::move(event), rank->row);
    }
  }

  const std::string& text() const { return text_; }

 private:
  using Json = nlohmann::ordered_json;

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
  events.add(
      {{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", concat("lockstep, process ", process)}}}},
      0);
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
