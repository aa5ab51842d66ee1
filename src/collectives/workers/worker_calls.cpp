#include "collectives/workers/worker_calls.hpp"

#include <algorithm>

#include "detail/parking.hpp"
#include "detail/splitmix64.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kNumImplementations = static_cast<std::size_t>(CommunicationImplementation::peer) + 1;

void put_tensors(ByteWriter& writer, std::span<const TensorView> tensors) {
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  for (const TensorView& tensor : tensors) {
    writer.put(tensor.dtype);
    writer.put(static_cast<std::uint8_t>(tensor.shape.rank()));
    for (const std::int64_t extent : tensor.shape) writer.put(extent);
  }
}

std::vector<TensorView> get_tensors(ByteReader& reader, const Device& device) {
  std::vector<TensorView> tensors(reader.get_length(2 * sizeof(std::uint8_t)));  // dtype and rank at least
  for (TensorView& tensor : tensors) {
    const auto dtype = reader.get_enum<DType>(kNumDTypes);
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    const auto rank = std::min<std::size_t>(reader.get<std::uint8_t>(), extents.size());
    for (std::size_t axis = 0; axis < rank; ++axis) extents[axis] = reader.get<std::int64_t>();
    tensor = TensorView(static_cast<void*>(nullptr), Shape(std::span(extents).first(rank)), dtype, device);
  }
  return tensors;
}

/// Of everything that must be alike on all ranks.
class Key {
 public:
  explicit Key(const CollectiveCall& call) {
    add(static_cast<std::uint64_t>(call.collective) << 32 | static_cast<std::uint64_t>(call.op) << 16 |
        static_cast<std::uint64_t>(call.route.implementation) << 8 | (call.route.in_rank_order ? 2 : 0) |
        (call.only_checks ? 1 : 0));
    add(static_cast<std::uint64_t>(call.route.peer_bytes));
    add(call.has_root() ? static_cast<std::uint64_t>(call.root) : 0);
    add(call.batch->structure.size());
    for (const char c : call.batch->structure) add(static_cast<unsigned char>(c));
    for (const TensorView& tensor : call.tensors()) {
      add(static_cast<std::uint64_t>(tensor.dtype) << 8 | static_cast<std::uint64_t>(tensor.shape.rank()));
      for (const std::int64_t extent : tensor.shape) add(static_cast<std::uint64_t>(extent));
    }
  }
  // Two, as one of 64 bits could be alike by chance in a long life.
  std::uint64_t first = 1;
  std::uint64_t second = 2;

 private:
  void add(std::uint64_t value) {
    first = splitmix64(first + value);
    second = splitmix64(second ^ (value * 0x9e3779b97f4a7c15));
  }
};

/// Whether ranks may bring tensors of different shapes, so that each must know all.
bool differs_by_rank(const CollectiveCall& call) {
  return call.gathers() || call.is({Collective::scatter, Collective::send_recv});
}

}  // namespace

WorkerCalls::WorkerCalls(backend::ProcessRanks ranks, const std::vector<Device>& devices,
                         WorkerMeeting& meeting, const CallGroup& calls)
    : ranks_(std::move(ranks)),
      devices_(devices),
      meeting_(meeting),
      calls_(calls),
      number_(meeting.add_group()),
      first_rank_(ranks_.own_begin()),
      end_rank_(ranks_.own_end()),
      arrivals_(devices.size()) {
  for (int worker = 0; worker < meeting.num_workers(); ++worker)
    for (int rank = ranks_.begin(worker); rank < ranks_.begin(worker + 1); ++rank)
      worker_of_.push_back(worker);
  std::uint64_t num_here = 0;
  for (int worker = 0; worker < meeting.num_workers(); ++worker)
    if (ranks_.group->host(worker) == ranks_.group->host(meeting.worker()))
      num_here += static_cast<std::uint64_t>(ranks_.num_ranks[static_cast<std::size_t>(worker)]);
  Parking::expect_host_threads(num_here);
}

std::span<const Arrival* const> WorkerCalls::set_own(std::span<const Arrival* const> own) {
  std::ranges::fill(arrivals_, nullptr);
  std::ranges::copy(own, arrivals_.begin() + first_rank_);
  return arrivals_;
}

bool WorkerCalls::exchange_collective(std::span<const std::byte> message, std::chrono::milliseconds timeout) {
  const CollectiveCall& call = call_of(&own());
  const bool has_key = !differs_by_rank(call);
  const Key key(call);
  writer_.clear();
  writer_.put(has_key);
  if (has_key) {
    writer_.put(key.first);
    writer_.put(key.second);
    writer_.put_bytes(message);
  } else {
    write_calls(writer_);
  }
  meet(writer_.bytes(), timeout);

  bool are_alike = has_key, all_have_keys = has_key;
  for (int worker = 0; worker < meeting_.num_workers(); ++worker) {
    ByteReader reader(meeting_.message(worker));
    all_have_keys = all_have_keys && reader.get<bool>();
    if (!all_have_keys) break;
    are_alike =
        are_alike && reader.get<std::uint64_t>() == key.first && reader.get<std::uint64_t>() == key.second;
  }
  if (all_have_keys && are_alike) {
    message_begin_ = sizeof(bool) + 2 * sizeof(std::uint64_t);
    if (!message.empty()) return true;  // who has the ranks' elements needs no calls of theirs
    copy_calls(call);
    set_arrivals();
    return true;
  }
  if (has_key) {  // the operations are the same, so no worker has told its calls yet
    writer_.clear();
    write_calls(writer_);
    meet(writer_.bytes(), timeout);
  }
  for (int worker = 0; worker < meeting_.num_workers(); ++worker) {
    ByteReader reader(meeting_.message(worker));
    if (!has_key) static_cast<void>(reader.get<bool>());
    if (worker != meeting_.worker()) read_calls(reader, worker);
  }
  set_arrivals();
  return false;
}

void WorkerCalls::exchange_arrivals(std::chrono::milliseconds timeout) {
  writer_.clear();
  for (int rank = first_rank_; rank < end_rank_; ++rank) {
    const Arrival& arrival = *arrivals_[static_cast<std::size_t>(rank)];
    writer_.put(arrival.number);
    writer_.put_text(arrival.text);
    put_tensors(writer_, arrival.tensors);
  }
  meet(writer_.bytes(), timeout);
  remotes_.resize(devices_.size());
  for (int worker = 0; worker < meeting_.num_workers(); ++worker) {
    if (worker == meeting_.worker()) continue;
    ByteReader reader(meeting_.message(worker));
    for (int rank = ranks_.begin(worker); rank < ranks_.begin(worker + 1); ++rank) {
      Remote& one = remote(rank);
      const auto number = reader.get<std::int64_t>();
      one.structure = reader.get_text();
      one.inputs = get_tensors(reader, devices_[static_cast<std::size_t>(rank)]);
      one.arrival = {
          .operation = own().operation, .tensors = one.inputs, .number = number, .text = one.structure};
    }
  }
  set_arrivals();
}

std::string WorkerCalls::history() const {
  return CallHistory::text(std::to_string(number_), calls_.calls(0));
}

std::span<const std::byte> WorkerCalls::message_of(int rank) const {
  const int worker = worker_of_[static_cast<std::size_t>(rank)];
  const std::span<const std::byte> all = meeting_.message(worker).subspan(message_begin_);
  const int begin = ranks_.begin(worker);
  const std::size_t size = all.size() / static_cast<std::size_t>(ranks_.begin(worker + 1) - begin);
  return all.subspan(static_cast<std::size_t>(rank - begin) * size, size);
}

void WorkerCalls::set_arrivals() {
  for (int rank = 0; rank < static_cast<int>(arrivals_.size()); ++rank)
    if (!is_own(rank)) arrivals_[static_cast<std::size_t>(rank)] = &remote(rank).arrival;
}

void WorkerCalls::copy_calls(const CollectiveCall& call) {
  const std::span<const TensorView> tensors = call.tensors();
  remotes_.resize(devices_.size());
  for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank) {
    if (is_own(rank)) continue;
    Remote& one = remote(rank);
    one.inputs.assign(tensors.begin(), tensors.end());
    for (TensorView& tensor : one.inputs) tensor.data = nullptr;
    one.outputs.clear();
    one.call = call;
    one.batch.emplace(RankBatch{rank, call.batch->stream, {}, {}, call.batch->structure});
    one.call.batch = &*one.batch;
    // Which of the two lists a rank has is its role's; what a remote rank writes concerns nobody here.
    if (one.call.sends()) {
      one.batch->inputs = one.inputs;
    } else {
      one.batch->outputs = one.inputs;
    }
    one.arrival = {.operation = own().operation, .tensors = one.inputs, .payload = &one.call};
  }
}

void WorkerCalls::write_calls(ByteWriter& writer) const {
  for (int rank = first_rank_; rank < end_rank_; ++rank) {
    const CollectiveCall& call = call_of(arrivals_[static_cast<std::size_t>(rank)]);
    writer.put(call.root);
    writer.put(call.route.implementation);
    writer.put(call.route.in_rank_order);
    writer.put(call.route.peer_bytes);
    writer.put(call.only_checks);
    writer.put_text(call.batch->structure);
    writer.put(static_cast<std::uint32_t>(call.destinations.size()));
    for (const int destination : call.destinations) writer.put(destination);
    put_tensors(writer, call.batch->inputs);
    put_tensors(writer, call.batch->outputs);
  }
}

void WorkerCalls::read_calls(ByteReader reader, int worker) {
  const CollectiveCall& first = call_of(&own());
  remotes_.resize(devices_.size());
  for (int rank = ranks_.begin(worker); rank < ranks_.begin(worker + 1); ++rank) {
    const Device& device = devices_[static_cast<std::size_t>(rank)];
    Remote& one = remote(rank);
    one.call = first;
    one.call.root = reader.get<int>();
    one.call.route.implementation = reader.get_enum<CommunicationImplementation>(kNumImplementations);
    one.call.route.in_rank_order = reader.get<bool>();
    one.call.route.peer_bytes = reader.get<std::int64_t>();
    one.call.only_checks = reader.get<bool>();
    one.structure = reader.get_text();
    one.destinations.resize(reader.get_length(sizeof(int)));
    for (int& destination : one.destinations) destination = reader.get<int>();
    one.call.destinations = one.destinations;
    one.inputs = get_tensors(reader, device);
    one.outputs = get_tensors(reader, device);
    one.batch.emplace(RankBatch{rank, first.batch->stream, one.inputs, one.outputs, one.structure});
    one.call.batch = &*one.batch;
    one.arrival = {.operation = own().operation, .tensors = one.call.tensors(), .payload = &one.call};
  }
}

}  // namespace lockstep::detail
