#include "nccl/transfer.hpp"

#include <cstring>

namespace vgpu::nccl {

class PairUnit final : public Unit {
 public:
  std::shared_ptr<Clique> clique;
  int from = 0, to = 0;
  Transfer send, receive;
  bool have_send = false, have_receive = false;
  std::uint64_t poster = 0;
  bool remote = false, published = false;
  std::uint64_t number = 0;
  std::string file(char kind) const {
    return std::string(1, kind) + std::to_string(from) + "." + std::to_string(to) + "." +
           std::to_string(number);
  }
  std::string head(const Transfer& transfer) const {
    return format("%zu %s", transfer.count, type_name(transfer.type));
  }
  bool ready() override {
    if (!remote) return true;
    if (!published) {
      published = true;
      if (have_send) {
        std::vector<char> data(send.count * type_bytes(send.type));
        std::string text = head(send);
        if (!data.empty() && !runtime().peek(data.data(), send.buffer, data.size()))
          text += " from a buffer that is not there";
        clique->shared->publish(file('p'), text, data.data(), data.size());
      } else {
        clique->shared->publish(file('q'), head(receive), nullptr, 0);
      }
    }
    if (clique->shared->exists(file(have_send ? 'q' : 'p'))) return true;
    look_for_lost(*clique);
    return false;
  }
  std::string mismatch(const std::string& sent, const std::string& received) const {
    return format(
        "MISMATCHED SEND AND RECEIVE on communicator %llu: rank %d sends %s to rank %d, which receives %s",
        static_cast<unsigned long long>(clique->id), from, sent.c_str(), to, received.c_str());
  }
  std::string describe() const override {
    const Transfer& known = mine();
    return format("send of %zu %s from rank %d to rank %d, communicator %llu", known.count,
                  type_name(known.type), from, to, static_cast<unsigned long long>(clique->id));
  }
  std::string waiting_for() const override {
    if (have_send && have_receive)
      return describe() + ": both are called; one is behind other work of its stream";
    const int peer = have_send ? to : from;
    if (clique->remote && clique->lost[peer])
      return describe() + format(": the process of rank %d has ended", peer);
    if (has_aborted(*clique, peer)) return describe() + format(": rank %d has aborted", peer);
    return describe() + format(": rank %d has not called %s", peer, have_send ? "ncclRecv" : "ncclSend");
  }
  const Transfer& mine() const { return have_send ? send : receive; }  // where one half is another process's
  double nanoseconds() const override {
    return 5000 + static_cast<double>(send.count * type_bytes(send.type)) / 100;
  }
  void run(RunContext& context) override {
    if (remote) {
      std::string theirs;
      std::vector<char> data;
      if (!clique->shared->fetch(file(have_send ? 'q' : 'p'), theirs, data))
        context.fail(cudaErrorUnknown, "a message from another process is lost");
      clique->shared->remove(file(have_send ? 'q' : 'p'));
      const std::string ours = head(mine());
      if (theirs != ours) {
        {
          Guard guard;
          set_async(*clique, ncclInvalidUsage);
        }
        context.fail(cudaErrorLaunchFailure, mismatch(have_send ? ours : theirs, have_send ? theirs : ours));
      }
      const std::size_t bytes = mine().count * type_bytes(mine().type);
      void* buffer =
          context.access(clique->members[have_send ? from : to]->device, mine().buffer, bytes, have_receive);
      if (have_receive && bytes) std::memcpy(buffer, data.data(), bytes);
      return;
    }
    const std::size_t bytes = send.count * type_bytes(send.type);
    const void* source = context.access(clique->members[from]->device, send.buffer, bytes, false);
    std::memmove(context.access(clique->members[to]->device, receive.buffer, bytes, true), source, bytes);
  }
};

class TransferWork final : public RankWork {
 public:
  std::vector<Transfer> transfers;

  std::string describe() const override {
    std::string text = format("point-to-point group as rank %d of communicator %llu:", comm->rank,
                              static_cast<unsigned long long>(comm->clique->id));
    for (std::size_t index = 0; index < transfers.size() && index < 4; ++index)
      text += format(" %s %zu %s %s rank %d;", transfers[index].send ? "send" : "receive",
                     transfers[index].count, type_name(transfers[index].type),
                     transfers[index].send ? "to" : "from", transfers[index].peer);
    if (transfers.size() > 4) text += format(" and %zu more", transfers.size() - 4);
    return text;
  }
  bool is_communication() const override { return true; }
  double nanoseconds() const override { return 0; }

  void bind(const std::shared_ptr<Op>& op) override {
    Clique& clique = *comm->clique;
    remember(*comm, op);
    for (const Transfer& transfer : transfers) {
      const int from = transfer.send ? comm->rank : transfer.peer,
                to = transfer.send ? transfer.peer : comm->rank;
      Clique::Channel& channel = clique.channels[{from, to}];
      auto& partners = transfer.send ? channel.receives : channel.sends;
      std::shared_ptr<PairUnit> unit;
      if (clique.away(transfer.peer)) {
        unit = std::make_shared<PairUnit>();
        unit->clique = comm->clique;
        unit->expected = 1;
        unit->from = from;
        unit->to = to;
        unit->remote = true;
        unit->number = clique.messages[{from, to}]++;
        (transfer.send ? unit->send : unit->receive) = transfer;
        (transfer.send ? unit->have_send : unit->have_receive) = true;
        runtime().join(op, unit);
        continue;
      }
      if (!partners.empty()) {
        unit = partners.front();
        partners.erase(partners.begin());
      } else {
        unit = std::make_shared<PairUnit>();
        unit->clique = comm->clique;
        unit->expected = 2;
        unit->from = from;
        unit->to = to;
        (transfer.send ? channel.sends : channel.receives).push_back(unit);
      }
      (transfer.send ? unit->send : unit->receive) = transfer;
      (transfer.send ? unit->have_send : unit->have_receive) = true;
      runtime().join(op, unit);
      std::string problem;
      if (unit->have_send && unit->have_receive &&
          (unit->send.count != unit->receive.count || unit->send.type != unit->receive.type))
        problem = unit->mismatch(unit->head(unit->send), unit->head(unit->receive));
      if (direct_call.active && !direct_call.grouped) {
        const std::uint64_t thread = runtime().thread_number();
        if (unit->poster == thread && from != to && !allow_ungrouped())
          problem = format(
              "UNGROUPED SEND AND RECEIVE: one thread calls ncclSend for rank %d and ncclRecv for rank %d of "
              "communicator %llu outside\n"
              "  ncclGroupStart/ncclGroupEnd; NCCL may wait for the peer inside the first call "
              "(VGPU_ALLOW_UNGROUPED=1 lets it pass)",
              from, to, static_cast<unsigned long long>(clique.id));
        unit->poster = thread;
      }
      if (!problem.empty()) {
        fail(comm, ncclInvalidUsage, problem);
        for (int rank : {from, to})
          if (clique.members[rank]) clique.members[rank]->async = ncclInvalidUsage;
        runtime().poison(unit, cudaErrorLaunchFailure, problem);
      }
    }
  }
};

std::shared_ptr<RankWork> transfer_work(ncclComm* comm, std::vector<Transfer> transfers) {
  auto work = std::make_shared<TransferWork>();
  work->comm = comm;
  work->transfers = std::move(transfers);
  return work;
}

}  // namespace vgpu::nccl
