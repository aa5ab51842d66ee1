#include "host/engine/chain.hpp"

#include <algorithm>
#include <set>

#include "host/collectives/copy_range.hpp"
#include "host/collectives/partial_reduction.hpp"

namespace lockstep::host {
namespace {

// Pieces of partials begin at multiples of it, chunks are cut at multiples of it: no element is cut.
constexpr std::int64_t kAlignment = 16;
// A round costs some 50 us whatever it carries. With f8, whose partials are f32, four times as many bytes go
// on, which Exchange still sends in one round.
constexpr std::int64_t kMinChunkBytes = std::int64_t{64} << 10, kMaxChunkBytes = std::int64_t{512} << 10;
// For each process before the last: so that filling and draining the chain takes less than half of the time.
constexpr std::int64_t kChunksPerLink = 4;

// In front of a chunk's results: whether they are there.
constexpr std::int64_t kHeaderBytes = kAlignment;

std::int64_t padded(std::int64_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Chain::Chain(Exchange& exchange, const backend::ProcessRanks& ranks)
    : exchange_(exchange), process_(ranks.group->process()) {
  std::set<int> hosts;
  for (int p = 0; p <= static_cast<int>(ranks.num_ranks.size()); ++p) {
    begins_.push_back(ranks.begin(p));
    if (p < ranks.group->num_processes()) hosts.insert(ranks.group->host(p));
  }
  shares_links_ = static_cast<int>(hosts.size()) < ranks.total();
}

bool Chain::pays(std::int64_t size_bytes) const noexcept {
  return last() > 0 && shares_links_ && size_bytes >= kMinChunkBytes * kChunksPerLink * last();
}

std::int64_t Chain::chunk_bytes(std::int64_t size_bytes) const noexcept {
  const std::int64_t bytes = size_bytes / (kChunksPerLink * std::max(last(), 1));
  return std::clamp(padded(bytes), kMinChunkBytes, kMaxChunkBytes);
}

int Chain::process_of(int rank) const noexcept {
  return static_cast<int>(std::ranges::upper_bound(begins_, rank) - begins_.begin()) - 1;
}

std::vector<Chain::Chunk> Chain::chunks_of(const backend::GroupCall& group,
                                           std::span<const ReducedPart> parts) const {
  std::int64_t total = 0;
  for (const ReducedPart& part : parts) total += part.size_bytes;
  const std::int64_t most = chunk_bytes(total);
  std::vector<Chunk> chunks;
  for (ReducedPart rest : parts) {
    const DType dtype = group.calls.front().segments[rest.segment].dtype;
    while (rest.size_bytes > 0) {
      if (chunks.empty() || chunks.back().result_bytes >= kHeaderBytes + most)
        chunks.push_back({.pieces = {}, .partial_bytes = 0, .result_bytes = kHeaderBytes});
      Chunk& chunk = chunks.back();
      const std::int64_t room = padded(kHeaderBytes + most - chunk.result_bytes);
      Piece piece{rest, dtype, chunk.partial_bytes, chunk.result_bytes};
      piece.part.size_bytes = std::min(rest.size_bytes, room);
      chunk.partial_bytes += padded(piece.count() * static_cast<std::int64_t>(size_of(partial_dtype(dtype))));
      chunk.result_bytes += piece.part.size_bytes;
      rest.send_begin_bytes += piece.part.size_bytes;
      rest.receive_begin_bytes += piece.part.size_bytes;
      rest.size_bytes -= piece.part.size_bytes;
      chunk.pieces.push_back(piece);
    }
  }
  return chunks;
}

void Chain::combine(const backend::GroupCall& group, const Chunk& chunk, std::byte* partial) {
  const int begin = begins_[static_cast<std::size_t>(process_)];
  const int end = begins_[static_cast<std::size_t>(process_) + 1];
  for (const Piece& piece : chunk.pieces) {
    sources_.clear();
    for (int rank = begin; rank < end; ++rank) {
      const backend::Segment& segment =
          group.calls[static_cast<std::size_t>(rank)].segments[piece.part.segment];
      sources_.push_back(static_cast<const std::byte*>(segment.send) + piece.part.send_begin_bytes);
    }
    reduce_partially(group.op, piece.dtype, piece.count(), /*is_first=*/process_ == 0, sources_,
                     partial + piece.partial_begin);
  }
}

void Chain::finish(const backend::GroupCall& group, const Chunk& chunk, std::byte* partial,
                   std::byte* result) {
  bool is_there = true;
  for (const Piece& piece : chunk.pieces)
    is_there &= finish_reduction(group.op, piece.dtype, piece.count(), begins_.back(),
                                 partial + piece.partial_begin, result + piece.result_begin);
  *result = std::byte{is_there};
}

template <class F>
void Chain::for_each_result(const Chunk& chunk, std::byte* result, int from, const F& f) const {
  f(result, kHeaderBytes);
  for (const Piece& piece : chunk.pieces)
    if (piece.part.receiver < 0 || process_of(piece.part.receiver) < from)
      f(result + piece.result_begin, piece.part.size_bytes);
}

void Chain::deliver(const backend::GroupCall& group, const Chunk& chunk, const std::byte* result,
                    std::vector<ReducedPart>& left_over) {
  const int begin = begins_[static_cast<std::size_t>(process_)];
  const int end = begins_[static_cast<std::size_t>(process_) + 1];
  for (const Piece& piece : chunk.pieces) {
    if (*result == std::byte{0}) {
      left_over.push_back(piece.part);
      continue;
    }
    destinations_.clear();
    for (int rank = begin; rank < end; ++rank) {
      if (piece.part.receiver >= 0 && piece.part.receiver != rank) continue;
      const backend::Segment& segment =
          group.calls[static_cast<std::size_t>(rank)].segments[piece.part.segment];
      destinations_.push_back(static_cast<std::byte*>(segment.receive) + piece.part.receive_begin_bytes);
    }
    copy_range(result + piece.result_begin, piece.part.size_bytes, destinations_, /*streaming=*/false);
  }
}

// In round t process p sends chunk t - p on, and chunk t - (2 · last - p) back, and receives the chunks that
// follow these.
std::vector<ReducedPart> Chain::reduce(const backend::GroupCall& group, std::span<const ReducedPart> parts) {
  const std::vector<Chunk> chunks = chunks_of(group, parts);
  const auto num_chunks = static_cast<std::int64_t>(chunks.size());
  std::int64_t most_partial = 0, most_result = 0;
  for (const Chunk& chunk : chunks) {
    most_partial = std::max(most_partial, chunk.partial_bytes);
    most_result = std::max(most_result, chunk.result_bytes);
  }
  for (auto& buffer : partials_)
    buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(most_partial)));
  for (auto& buffer : results_) buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(most_result)));

  std::vector<ReducedPart> left_over;
  const auto chunk_at = [&](std::int64_t k) {
    return k >= 0 && k < num_chunks ? &chunks[static_cast<std::size_t>(k)] : nullptr;
  };
  const bool is_first = process_ == 0, is_last = process_ == last();
  for (std::int64_t t = 0; t < num_chunks + 2 * last() - 1; ++t) {
    const std::int64_t on = t - process_, back = t - 2 * last() + process_;
    if (const Chunk* const chunk = chunk_at(on); chunk != nullptr && !is_last) {
      if (is_first) combine(group, *chunk, partial(on));
      exchange_.send(process_ + 1, partial(on), chunk->partial_bytes);
    }
    if (const Chunk* const chunk = chunk_at(on + 1); chunk != nullptr && !is_first)
      exchange_.receive(process_ - 1, partial(on + 1), chunk->partial_bytes);
    if (const Chunk* const chunk = chunk_at(back); chunk != nullptr && !is_first)
      for_each_result(*chunk, result(back), process_, [&](std::byte* data, std::int64_t bytes) {
        exchange_.send(process_ - 1, data, bytes);
      });
    if (const Chunk* const chunk = chunk_at(back + 1); chunk != nullptr && !is_last)
      for_each_result(*chunk, result(back + 1), process_ + 1, [&](std::byte* data, std::int64_t bytes) {
        exchange_.receive(process_ + 1, data, bytes);
      });
    exchange_.run(std::max(most_partial, most_result));

    if (const Chunk* const chunk = chunk_at(on + 1); chunk != nullptr && !is_first) {
      combine(group, *chunk, partial(on + 1));
      if (is_last) {
        finish(group, *chunk, partial(on + 1), result(on + 1));
        deliver(group, *chunk, result(on + 1), left_over);
      }
    }
    if (const Chunk* const chunk = chunk_at(back + 1); chunk != nullptr && !is_last)
      deliver(group, *chunk, result(back + 1), left_over);
  }
  return left_over;
}

}  // namespace lockstep::host
