#include "collectives/collective_checks.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

/// "[128, 64] float32".
struct Spec {
  const TensorView& tensor;
  friend std::ostream& operator<<(std::ostream& out, const Spec& spec) {
    return out << spec.tensor.shape << ' ' << spec.tensor.dtype;
  }
};

/// "[1, -1, 0]".
struct List {
  std::span<const int> values;
  friend std::ostream& operator<<(std::ostream& out, const List& list) {
    const char* separator = "[";
    for (const int value : list.values) {
      out << separator << value;
      separator = ", ";
    }
    return out << (list.values.empty() ? "[]" : "]");
  }
};

}  // namespace

/// "all_reduce(sum) on replica 2 (CPU:2): tensor 1 of 3: ".
struct CollectiveChecks::MessagePrefix {
  std::string_view operation;
  std::string_view member;
  int rank;
  const Device& device;
  std::size_t tensor;
  std::size_t num_tensors;

  friend std::ostream& operator<<(std::ostream& out, const MessagePrefix& prefix) {
    out << prefix.operation << " on " << prefix.member << ' ' << prefix.rank << " (" << prefix.device
        << "): ";
    if (prefix.num_tensors > 1) out << "tensor " << prefix.tensor << " of " << prefix.num_tensors << ": ";
    return out;
  }
  /// The hint "Pass the same root on every replica".
  std::string on_every(const char* what) const { return concat(what, " on every ", member); }
};

namespace {

template <class Prefix, class... Parts>
[[noreturn]] void mismatch(const SourceLocation& location, const Prefix& prefix, const std::string& hint,
                           const Parts&... parts) {
  raise<CollectiveMismatch>(location, concat(prefix, parts..., ". ", hint, "."));
}

bool is_capturing(const CollectiveCall& call) {
  const StreamRef& stream = call.batch->stream;
  return stream.device_backend().is_capturing(stream.handle());
}

#define LOCKSTEP_MATCHES(condition, prefix, hint, ...) \
  if (!(condition)) [[unlikely]]                       \
  mismatch(SourceLocation{__FILE__, __LINE__, __func__}, prefix, hint, __VA_ARGS__)

}  // namespace

std::string_view operation_name(Collective collective, ReduceOp op) {
  static constexpr std::array<std::array<std::string_view, 5>, 3> kReductions = {{
      {"all_reduce(sum)", "all_reduce(mean)", "all_reduce(min)", "all_reduce(max)", "all_reduce(product)"},
      {"reduce(sum)", "reduce(mean)", "reduce(min)", "reduce(max)", "reduce(product)"},
      {"reduce_scatter(sum)", "reduce_scatter(mean)", "reduce_scatter(min)", "reduce_scatter(max)",
       "reduce_scatter(product)"},
  }};
  static constexpr std::array<std::string_view, 6> kOthers = {"broadcast", "all_gather", "gather",
                                                              "scatter",   "all_to_all", "send_recv"};
  const auto i = static_cast<std::size_t>(collective);
  return i < kReductions.size() ? kReductions[i][static_cast<std::size_t>(op)]
                                : kOthers[i - kReductions.size()];
}

// This is called before destinations are checked: they may be too few.
bool CollectiveCall::sends() const {
  if (is({Collective::broadcast, Collective::scatter})) return batch->rank == root;
  if (collective != Collective::send_recv) return true;
  const auto rank = static_cast<std::size_t>(batch->rank);
  return rank < destinations.size() && destinations[rank] >= 0;
}

bool CollectiveCall::receives() const {
  switch (collective) {
    case Collective::reduce:
    case Collective::gather: return batch->rank == root;
    case Collective::broadcast: return batch->rank != root;
    case Collective::send_recv: return std::ranges::find(destinations, batch->rank) != destinations.end();
    default: return true;
  }
}

int CollectiveCall::source() const {
  if (is({Collective::broadcast, Collective::scatter})) return root;
  if (collective != Collective::send_recv) return batch->rank;
  return static_cast<int>(std::ranges::find(destinations, batch->rank) - destinations.begin());
}

int CollectiveCall::reference() const {
  if (has_root()) return root;
  if (collective != Collective::send_recv) return 0;
  const auto sender = std::ranges::find_if(destinations, [](int destination) { return destination >= 0; });
  return sender == destinations.end() ? 0 : static_cast<int>(sender - destinations.begin());
}

void CollectiveChecks::run(std::span<const Arrival* const> arrivals) {
  const auto is_known = [&](std::size_t rank) { return rank < arrivals.size() && arrivals[rank] != nullptr; };
  std::size_t first_rank = 0;
  while (!is_known(first_rank)) ++first_rank;
  const CollectiveCall& first = call_of(arrivals[first_rank]);
  const std::string_view operation = arrivals[first_rank]->operation;
  std::size_t num_tensors = 1;
  const auto prefix = [&](std::size_t rank, std::size_t tensor) {
    return MessagePrefix{operation, member_, static_cast<int>(rank), devices_[rank], tensor, num_tensors};
  };
  const auto for_each_known = [&](const auto& check) {
    for (std::size_t rank = first_rank; rank < arrivals.size(); ++rank)
      if (is_known(rank)) check(rank, call_of(arrivals[rank]));
  };

  for_each_known(
      [&](std::size_t rank, const CollectiveCall& call) { check_agreement(call, first, prefix(rank, 0)); });
  const auto reference_rank = static_cast<std::size_t>(first.reference());
  const CollectiveCall& reference = is_known(reference_rank) ? call_of(arrivals[reference_rank]) : first;
  for_each_known(
      [&](std::size_t rank, const CollectiveCall& call) { check_batch(call, reference, prefix(rank, 0)); });
  for_each_known(
      [&](std::size_t rank, const CollectiveCall& call) { check_capture(call, first, prefix(rank, 0)); });
  num_tensors = reference.tensors().size();
  for (std::size_t i = 0; i < num_tensors; ++i) {
    for_each_known([&](std::size_t rank, const CollectiveCall& call) {
      const bool has_input_of_others = call.collective == Collective::send_recv ||
                                       (call.collective == Collective::scatter && !call.sends());
      if (!has_input_of_others) check_against(call.tensors()[i], reference, prefix(rank, i));
    });
  }
  intervals_.clear();
  for (std::size_t i = 0; i < num_tensors; ++i) {
    std::int64_t rows = 0;  // of a gather's ranks so far
    bool knows_rows = true;
    for (std::size_t rank = 0; rank < arrivals.size(); ++rank) {
      if (!is_known(rank)) {
        knows_rows = false;
        continue;
      }
      const CollectiveCall& call = call_of(arrivals[rank]);
      if (is_here(rank)) {
        for (const auto tensors : {call.batch->inputs, call.batch->outputs}) {
          if (!tensors.empty()) check_buffer(tensors[i], prefix(rank, i));
        }
        if (!call.gathers() || knows_rows) add_intervals(call, i, rows);
      }
      if (call.gathers()) rows += call.batch->inputs[i].shape[0];
    }
    for_each_known([&](std::size_t rank, const CollectiveCall& call) {
      const auto source = static_cast<std::size_t>(call.source());
      if (call.batch->outputs.empty() || !is_known(source) || (call.gathers() && !knows_rows)) return;
      check_output(call, call_of(arrivals[source]), rows, prefix(rank, i));
    });
  }
  check_overlap(operation, !first.is({Collective::all_to_all, Collective::send_recv}));
}

// Checks options, root and destinations.
void CollectiveChecks::check_agreement(const CollectiveCall& call, const CollectiveCall& first,
                                       const MessagePrefix& prefix) const {
  const backend::Route &route = call.route, &first_route = first.route;
  LOCKSTEP_MATCHES(route.in_rank_order == first_route.in_rank_order, prefix,
                   prefix.on_every("Pass the same options"),
                   "deterministic = ", route.in_rank_order ? "true" : "false", " differs from ", member_, ' ',
                   first.batch->rank, "'s ", first_route.in_rank_order ? "true" : "false");
  LOCKSTEP_MATCHES(route == first_route, prefix, prefix.on_every("Pass the same options"), "implementation ",
                   static_cast<int>(route.implementation), " and peer_bytes ", route.peer_bytes,
                   " differ from ", member_, ' ', first.batch->rank, "'s ",
                   static_cast<int>(first_route.implementation), " and ", first_route.peer_bytes);
  if (call.has_root()) {
    LOCKSTEP_MATCHES(call.root == first.root, prefix, prefix.on_every("Pass the same root"), "root ",
                     call.root, " differs from ", member_, ' ', first.batch->rank, "'s ", first.root);
    LOCKSTEP_EXPECTS(0 <= call.root && call.root < static_cast<int>(devices_.size()), InvalidArgument, prefix,
                     "root ", call.root, " is not one of the ", devices_.size(), ' ', member_,
                     "s. Roots are ", member_, " indices, counted from 0 in the order of the devices.");
  }
  if (call.collective == Collective::send_recv) {
    LOCKSTEP_MATCHES(std::ranges::equal(call.destinations, first.destinations), prefix,
                     prefix.on_every("Pass the same destinations"), "destinations ", List{call.destinations},
                     " differ from ", member_, ' ', first.batch->rank, "'s ", List{first.destinations});
    check_destinations(call.destinations, prefix);
  }
}

void CollectiveChecks::check_destinations(std::span<const int> destinations,
                                          const MessagePrefix& prefix) const {
  LOCKSTEP_EXPECTS(destinations.size() == devices_.size(), InvalidArgument, prefix, destinations.size(),
                   " destinations for ", devices_.size(), ' ', member_,
                   "s. Pass one for each, -1 for those that send nothing.");
  for (std::size_t rank = 0; rank < destinations.size(); ++rank) {
    const int destination = destinations[rank];
    LOCKSTEP_EXPECTS(-1 <= destination && destination < static_cast<int>(devices_.size()), InvalidArgument,
                     prefix, "destination ", destination, " of ", member_, ' ', rank, " is not one of the ",
                     devices_.size(), ' ', member_, "s. Pass a ", member_,
                     "'s index, or -1 to send nothing.");
    const auto earlier = destinations.first(rank);
    const auto twice = std::ranges::find(earlier, destination);
    LOCKSTEP_EXPECTS(destination < 0 || twice == earlier.end(), InvalidArgument, prefix, member_, "s ",
                     twice - earlier.begin(), " and ", rank, " both send to ", member_, ' ', destination,
                     ". Name each once; gather sends to one from all.");
  }
}

// Checks the number of tensors, and the stream.
void CollectiveChecks::check_batch(const CollectiveCall& call, const CollectiveCall& reference,
                                   const MessagePrefix& prefix) const {
  const RankBatch& batch = *call.batch;
  if (call.collective == Collective::send_recv) {
    LOCKSTEP_EXPECTS(call.sends() || batch.inputs.empty(), InvalidArgument, prefix, "inputs on a ", member_,
                     " that sends to none. Pass none.");
    LOCKSTEP_EXPECTS(call.receives() || batch.outputs.empty(), InvalidArgument, prefix, "outputs on a ",
                     member_, " that none sends to. Pass none.");
  }
  LOCKSTEP_EXPECTS(call.sends() || batch.inputs.empty(), InvalidArgument, prefix, "inputs on a ", member_,
                   " other than root ", call.root, ", which only receives. Pass none.");
  LOCKSTEP_EXPECTS(call.receives() || call.collective == Collective::broadcast || batch.outputs.empty(),
                   InvalidArgument, prefix, "outputs on a ", member_, " other than root ", call.root,
                   ", which only sends. Pass none.");
  LOCKSTEP_EXPECTS(!call.sends() || batch.outputs.size() == batch.inputs.size() ||
                       (batch.outputs.empty() && !call.receives()),
                   InvalidArgument, prefix, batch.inputs.size(), " inputs and ", batch.outputs.size(),
                   " outputs. Pass one output for each input.");
  LOCKSTEP_MATCHES((!call.sends() && !call.receives()) || call.tensors().size() == reference.tensors().size(),
                   prefix, prefix.on_every("Pass equal batches"), call.tensors().size(),
                   " tensors differ from ", member_, ' ', reference.batch->rank, "'s ",
                   reference.tensors().size());
  LOCKSTEP_MATCHES(batch.structure == reference.batch->structure, prefix,
                   prefix.on_every("Pass the same keys and lengths"), "nest ", batch.structure,
                   " differs from ", member_, ' ', reference.batch->rank, "'s ", reference.batch->structure);
  // Checked last: packed_all_reduce.cpp chooses between the two by the fields above.
  LOCKSTEP_MATCHES(call.only_checks == reference.only_checks, prefix, prefix.on_every("Make the same calls"),
                   call.only_checks ? "check_all_reduce" : "all_reduce", " differs from ", member_, ' ',
                   reference.batch->rank, "'s ", reference.only_checks ? "check_all_reduce" : "all_reduce");
  const auto rank = static_cast<std::size_t>(prefix.rank);
  LOCKSTEP_EXPECTS(!is_here(rank) || &batch.stream.device_backend() == device_backends_[rank],
                   InvalidArgument, prefix, "the stream is on ", batch.stream.device(),
                   ". Pass a stream of the ", member_, "'s device.");
}

void CollectiveChecks::check_capture(const CollectiveCall& call, const CollectiveCall& first,
                                     const MessagePrefix& prefix) const {
  const bool is_captured = is_capturing(first);
  LOCKSTEP_EXPECTS(is_capturing(call) == is_captured, Unsupported, prefix,
                   is_captured ? "its stream is not being captured, " : "its stream is being captured, ",
                   member_, ' ', first.batch->rank, "'s is", is_captured ? "" : " not",
                   ". Capture a collective on all ", member_, "s, or on none.");
  const StreamRef& stream = call.batch->stream;
  LOCKSTEP_EXPECTS(!is_captured || !stream.device_backend().has_failed_capture(stream.handle()), ContextError,
                   prefix,
                   "the capture that its stream is in has failed, by a call that captures do not permit, "
                   "or an error. End it, and capture again.");
}

// Checks a tensor against the same one of the reference rank.
void CollectiveChecks::check_against(const TensorView& tensor, const CollectiveCall& reference,
                                     MessagePrefix prefix) const {
  const TensorView& other = reference.tensors()[prefix.tensor];
  const int other_rank = reference.batch->rank;
  const bool same_dtype = tensor.dtype == other.dtype;
  if (!reference.gathers()) {
    LOCKSTEP_MATCHES(
        tensor.shape == other.shape, prefix,
        same_dtype ? concat(prefix.on_every("Pass equal shapes"), ", or use all_gather for ragged values")
                   : prefix.on_every("Pass equal shapes and dtypes"),
        "shape ", Spec{tensor}, " differs from ", member_, ' ', other_rank, "'s ", Spec{other});
  } else {
    LOCKSTEP_EXPECTS(tensor.shape.rank() > 0, InvalidArgument, prefix, Spec{tensor},
                     " has no axis to gather along. Pass tensors of rank 1 or more.");
    LOCKSTEP_MATCHES(tensor.shape.rank() == other.shape.rank() &&
                         std::equal(tensor.shape.begin() + 1, tensor.shape.end(), other.shape.begin() + 1),
                     prefix, "Only the lengths of axis 0 may differ", "shape ", Spec{tensor},
                     " differs from ", member_, ' ', other_rank, "'s ", Spec{other});
  }
  LOCKSTEP_MATCHES(same_dtype, prefix, prefix.on_every("Pass equal dtypes"), "dtype of ", Spec{tensor},
                   " differs from ", member_, ' ', other_rank, "'s ", Spec{other});
  LOCKSTEP_EXPECTS(!reference.reduces() || !is_boolean(tensor.dtype), InvalidArgument, prefix, Spec{tensor},
                   " cannot be reduced. Cast it to an integer dtype first.");
  const std::int64_t n = static_cast<std::int64_t>(devices_.size());
  LOCKSTEP_EXPECTS(!reference.divides() || tensor.size() % n == 0, InvalidArgument, prefix, Spec{tensor},
                   " does not divide into ", n, " equal parts. Pad it.");
}

void CollectiveChecks::check_buffer(const TensorView& tensor, const MessagePrefix& prefix) const {
  LOCKSTEP_EXPECTS(tensor.device == prefix.device, InvalidArgument, prefix, Spec{tensor}, " is on ",
                   tensor.device, ". Move it to the ", member_, "'s device.");
  LOCKSTEP_EXPECTS(tensor.is_contiguous(), InvalidArgument, prefix, Spec{tensor},
                   " is strided. Copy it to a contiguous tensor first, and the result back.");
  LOCKSTEP_EXPECTS(tensor.data != nullptr || tensor.size() == 0, InvalidArgument, prefix, Spec{tensor},
                   " has no memory. Pass the address of its elements.");
}

// Checks an output against the input that it comes from.
void CollectiveChecks::check_output(const CollectiveCall& call, const CollectiveCall& source,
                                    std::int64_t gathered_rows, const MessagePrefix& prefix) const {
  const TensorView& output = call.batch->outputs[prefix.tensor];
  const TensorView& input = source.batch->inputs[prefix.tensor];
  LOCKSTEP_EXPECTS(!output.read_only, InvalidArgument, prefix, "the output, ", Spec{output},
                   ", is read-only. Pass memory that may be written.");
  const DType dtype = call.reduces() ? reduced_dtype(call.op, input.dtype) : input.dtype;
  Shape shape = input.shape;
  if (call.gathers())
    shape = input.shape.with(0, gathered_rows);
  else if (call.divides())
    shape = Shape(call.collective == Collective::all_to_all
                      ? input.size()
                      : input.size() / static_cast<std::int64_t>(devices_.size()));
  const bool fits = call.divides() ? output.size() == shape.size() : output.shape == shape;
  if (fits && output.dtype == dtype) return;
  const bool is_own = source.batch->rank == call.batch->rank;
  const std::string found =
      concat("the output is ", Spec{output}, ", where ",
             is_own ? "the input" : concat(member_, ' ', source.batch->rank, "'s input"), ' ', Spec{input},
             " gives ", shape, ' ', dtype, call.divides() ? " (any shape of that size)" : "");
  LOCKSTEP_MATCHES(is_own, prefix, "Pass such an output", found);
  LOCKSTEP_EXPECTS(false, InvalidArgument, prefix, found, ". Pass such an output.");
}

// Memory that is both input and output counts once, as written: an output in the place of its input, a rank's
// own rows in a gather's output, its own part in a reduce_scatter's or scatter's input, which no other rank
// reads.
void CollectiveChecks::add_intervals(const CollectiveCall& call, std::size_t tensor, std::int64_t first_row) {
  const RankBatch& batch = *call.batch;
  Interval read{nullptr, nullptr, false, batch.rank};
  Interval written{nullptr, nullptr, true, batch.rank};
  const auto set = [](Interval& interval, const TensorView& view) {
    interval.begin = static_cast<const std::byte*>(view.data);
    interval.end = interval.begin + view.nbytes();
  };
  if (!batch.inputs.empty()) set(read, batch.inputs[tensor]);
  if (!batch.outputs.empty()) set(written, batch.outputs[tensor]);

  if (written.begin != written.end) intervals_.push_back(written);
  if (read.begin == read.end) return;
  if (written.begin != written.end) {
    if (call.gathers()) {
      const TensorView& input = batch.inputs[tensor];
      const std::int64_t row_bytes = input.nbytes() / input.shape[0];
      if (read.begin == written.begin + first_row * row_bytes) return;
    } else if (call.is({Collective::reduce_scatter, Collective::scatter})) {
      if (written.begin == read.begin + batch.rank * (written.end - written.begin) &&
          written.end <= read.end) {
        Interval before = read;
        before.end = written.begin;
        if (before.begin != before.end) intervals_.push_back(before);
        read.begin = written.end;
        if (read.begin == read.end) return;
      }
    } else if (!call.is_transfers() && read.begin == written.begin && read.end == written.end) {
      return;
    }
  }
  intervals_.push_back(read);
}

// A sweep in the order of addresses: an output must not start before the end of any earlier interval, an
// input not before the end of any earlier output.
void CollectiveChecks::check_overlap(std::string_view operation, bool may_be_in_place) {
  std::ranges::sort(intervals_, {}, &Interval::begin);
  const Interval* last_read = nullptr;
  const Interval* last_written = nullptr;
  for (const Interval& interval : intervals_) {
    const Device& device = devices_[static_cast<std::size_t>(interval.rank)];
    const MessagePrefix prefix{operation, member_, interval.rank, device, 0, 1};
    for (const Interval* before : {last_written, last_read}) {
      const bool may_share = before == nullptr || (!interval.is_written && !before->is_written);
      LOCKSTEP_EXPECTS(may_share || interval.begin >= before->end, InvalidArgument, prefix, "an ",
                       interval.is_written ? "output" : "input", " overlaps an ",
                       before->is_written ? "output" : "input", " of ", member_, ' ', before->rank,
                       ". Pass separate buffers; ",
                       may_be_in_place ? "only exactly in place may an output share its input's memory."
                                       : "this collective has no form in place.");
    }
    const Interval*& last = interval.is_written ? last_written : last_read;
    if (last == nullptr || interval.end > last->end) last = &interval;
  }
}

}  // namespace lockstep::detail
