#include "measure/replica.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/memory.hpp>

#include "collectives/collective.hpp"
#include "detail/concat.hpp"

namespace lockstep::bench {

using detail::concat;

void Replica::allocate(std::int64_t size_bytes) {
  send_storage = Tensor::zeros(Shape(size_bytes), DType::u8, device);
  receive_storage = Tensor::zeros(Shape(size_bytes), DType::u8, device);
  current_stream(device).synchronize();  // waits for the zeros: later work is on the replica's own stream
}

void Replica::place(std::int64_t offset_bytes) {
  send = static_cast<std::byte*>(send_storage.view().data) + offset_bytes;
  receive = static_cast<std::byte*>(receive_storage.view().data) + offset_bytes;
}

void Replica::write(std::byte* to, std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  if (is_on_host()) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  const Shape shape(static_cast<std::int64_t>(bytes.size()));
  const void* const from = bytes.data();
  const StreamScope scope(stream);
  Tensor::view(to, shape, DType::u8, device).copy_(Tensor::view(from, shape, DType::u8, Device()));
  stream.synchronize();
}

void Replica::read(const std::byte* from, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  if (is_on_host()) {
    std::memcpy(bytes.data(), from, bytes.size());
    return;
  }
  const Shape shape(static_cast<std::int64_t>(bytes.size()));
  const void* const source = from;
  const StreamScope scope(stream);
  Tensor::view(bytes.data(), shape, DType::u8, Device())
      .copy_(Tensor::view(source, shape, DType::u8, device));
  stream.synchronize();
}

void Replica::copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) const {
  if (size_bytes > 0)
    stream.device_backend().copy(to, from, static_cast<std::size_t>(size_bytes), stream.handle());
}

void Replica::fill_with_garbage(std::byte* to, std::int64_t size_bytes) const {
  if (is_on_host()) {
    std::memset(to, 0xa5, static_cast<std::size_t>(size_bytes));
    return;
  }
  const StreamScope scope(stream);
  Tensor::view(to, Shape(size_bytes), DType::u8, device).fill_(std::uint8_t{0xa5});
}

void Replica::fill_with_ones(std::byte* to, std::int64_t count, DType dtype) const {
  if (is_on_host()) {
    dispatch(dtype, [&]<class T>() { std::fill_n(reinterpret_cast<T*>(to), count, T(1)); });
    return;
  }
  const StreamScope scope(stream);
  Tensor::view(to, Shape(count), dtype, device).fill_(1);
}

void split_device(const Options& options) {
  if (options.virtual_devices > 0)
    DeviceManager::instance().set_virtual_devices(Device(options.device_kind, options.first_device),
                                                  options.virtual_devices);
}

std::vector<Device> make_devices(const Options& options) {
  std::vector<Device> devices;
  for (int rank = 0; rank < options.num_local_ranks(); ++rank)
    devices.emplace_back(options.device_kind, options.first_device + rank);
  return devices;
}

void require_devices(const Options& options, const Processes& processes) {
  backend::Backend& backend = DeviceManager::instance().backend(options.device_kind);
  std::string own;
  for (const Device& device : make_devices(options))
    if (!backend.has_device(device.index())) own += concat(own.empty() ? "" : ", ", device);
  const std::vector<std::string> missing = processes.all_gather("the devices that are missing", own);
  std::string text;
  for (std::size_t p = 0; p < missing.size(); ++p)
    if (!missing[p].empty())
      text += concat(text.empty() ? "" : "; ", processes.label(static_cast<int>(p)), " lacks ", missing[p]);
  if (text.empty()) return;
  const int num_ranks = options.num_local_ranks();
  throw OptionError(
      ExitStatus::not_implemented,
      processes.is_alone()
          ? concat(text, ", as it needs ", num_ranks, " devices from ", make_devices(options).front(),
                   " on; use fewer ranks, or another NCCL_TESTS_DEVICE")
          : concat(text, ", as each process needs ", num_ranks, " devices, the first one being ", num_ranks,
                   " times its number on its host, or NCCL_TESTS_DEVICE; start fewer processes or ranks, or "
                   "set NCCL_TESTS_DEVICE=0 where each process sees GPUs of its own"));
}

std::vector<Group> make_groups(const Options& options, const Processes& processes) {
  std::map<int, std::vector<int>> ranks_by_color;
  for (int rank = 0; rank < options.num_ranks(); ++rank)
    ranks_by_color[options.split.color(rank)].push_back(rank);

  std::vector<std::vector<int>> members;  // the processes of each group
  for (const auto& [color, ranks] : ranks_by_color) {
    std::vector<int>& of_group = members.emplace_back();
    for (const int rank : ranks)
      if (const int process = rank / options.num_local_ranks();
          of_group.empty() || of_group.back() != process)
        of_group.push_back(process);
  }
  std::vector<std::shared_ptr<detail::WorkerGroup>> workers = processes.connect_groups(members);

  const std::vector<Device> all_devices = make_devices(options);
  std::vector<Group> groups;
  for (auto& [color, ranks] : ranks_by_color) {
    std::vector<Device> devices;
    for (const int rank : ranks)
      if (const int local = rank - options.first_rank(); 0 <= local && local < options.num_local_ranks())
        devices.push_back(all_devices[static_cast<std::size_t>(local)]);
    Group& group = groups.emplace_back(Group{color, ranks, std::move(workers[groups.size()])});
    if (!devices.empty())
      group.local.emplace(std::move(devices), CommunicationOptions{}, group.workers.get());
  }
  return groups;
}

std::vector<RankBuffers> make_places(const std::vector<Group>& groups) {
  std::vector<RankBuffers> places;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const int rank : groups[g].ranks)
      places.push_back({.rank = rank,
                        .group = static_cast<int>(g),
                        .rank_in_group = static_cast<int>(std::ranges::find(groups[g].ranks, rank) -
                                                          groups[g].ranks.begin())});
  std::ranges::sort(places, {}, &RankBuffers::rank);
  return places;
}

std::vector<Replica> make_replicas(const Options& options, const std::vector<RankBuffers>& places) {
  std::vector<Replica> replicas;
  for (const Device& device : make_devices(options))
    replicas.emplace_back(places[static_cast<std::size_t>(options.first_rank()) + replicas.size()], device);
  return replicas;
}

namespace {

SharedMemory find_local_memory(const std::vector<Device>& devices) {
  if (devices.front().kind() == DeviceKind::cpu)
    return {memory_stats(devices.front()).free_bytes, static_cast<int>(devices.size())};
  std::map<std::string, SharedMemory> by_gpu;
  for (const Device& device : devices) {
    SharedMemory& memory =
        by_gpu.try_emplace(DeviceManager::instance().info(device).pci_bus_id, SharedMemory{0, 0})
            .first->second;
    memory.free_bytes = memory_stats(device).free_bytes;
    ++memory.num_ranks;
  }
  return std::ranges::min_element(by_gpu, {},
                                  [](const auto& gpu) { return largest_buffer_bytes(gpu.second); })
      ->second;
}

}  // namespace

SharedMemory find_memory(const Options& options, const Processes& processes) {
  SharedMemory memory = find_local_memory(make_devices(options));
  if (processes.is_alone()) return memory;
  if (options.device_kind == DeviceKind::cpu) memory.num_ranks *= processes.count_on_host();
  if (options.shares_floor() && find_collective(options.collective) != nullptr) memory.buffers_per_rank = 4;
  const std::array own{static_cast<double>(memory.free_bytes), static_cast<double>(memory.num_ranks)};
  for (const std::vector<double>& theirs : processes.gather(own)) {
    const SharedMemory other{static_cast<std::int64_t>(theirs[0]), static_cast<int>(theirs[1]),
                             memory.buffers_per_rank};
    if (largest_buffer_bytes(other) < largest_buffer_bytes(memory)) memory = other;
  }
  return memory;
}

std::int64_t largest_buffer_bytes(const SharedMemory& memory) {
  constexpr std::int64_t kMostReserve = std::int64_t{4} << 30;
  return (memory.free_bytes - std::min(memory.free_bytes / 16, kMostReserve)) /
         (memory.buffers_per_rank * memory.num_ranks);
}

}  // namespace lockstep::bench
