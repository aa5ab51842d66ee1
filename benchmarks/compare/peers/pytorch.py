#!/usr/bin/env python3
"""PyTorch: all_reduce of its gloo process group between processes, and input of its DataLoader in this process.

    pytorch.py all_reduce --ranks 4 --sweep 8:65536:2
    pytorch.py input --ranks 4
"""

import os
import tempfile
import time

import peer


def load():
    import torch
    import torch.distributed
    import torch.multiprocessing
    import torch.utils.data
    if not torch.distributed.is_gloo_available():
        raise ImportError("this PyTorch has no gloo")
    return torch


torch = peer.import_or_skip(load)


def mean_over_ranks(value):
    total = torch.tensor([value], dtype=torch.float64)
    torch.distributed.all_reduce(total)
    return total.item() / torch.distributed.get_world_size()


def measure(rank, ranks, swept, budget, connection):
    """Operation i works on the i-th slot of a buffer as large as the sweep's last size, as in lockstep_bench."""
    results = []
    buffer = torch.ones(swept[1] // 4, dtype=torch.float32)
    for size in peer.sizes(swept):
        count = size // 4
        slots = [buffer[i * count:(i + 1) * count] for i in range(min(len(buffer) // count, 1024))]

        def timed(iterations):
            torch.distributed.barrier()
            start = time.perf_counter()
            for i in range(iterations):
                torch.distributed.all_reduce(slots[i % len(slots)])
            return mean_over_ranks((time.perf_counter() - start) / iterations)

        timed(2)
        iterations = min(max(3, int(budget / timed(3))), 100_000)
        buffer.fill_(1)  # sums grow
        seconds = timed(iterations)

        slots[0].fill_(rank + 1)
        torch.distributed.all_reduce(slots[0])
        wrong = torch.count_nonzero(slots[0] != ranks * (ranks + 1) // 2).item()
        buffer.fill_(1)
        results.append(peer.result("all_reduce", ranks, size, 1e6 * seconds, round(mean_over_ranks(wrong) * ranks),
                                   in_place=True))
    if rank == 0:
        connection.send(results)


def run_rank(rank, options, store, connection):
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=options.ranks)
    for swept in options.sweep:
        measure(rank, options.ranks, swept, options.seconds, connection)
    torch.distributed.destroy_process_group()


def all_reduce(options):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        receiver, sender = torch.multiprocessing.Pipe(duplex=False)
        processes = torch.multiprocessing.start_processes(
            run_rank, (options, os.path.join(folder, "store"), sender), options.ranks, join=False,
            start_method="fork")
        results = []
        while not processes.join(timeout=0.05):
            while receiver.poll():
                results += receiver.recv()
        while receiver.poll():
            results += receiver.recv()
    return results


def load_input(options):
    table = torch.zeros(options.rows, peer.ROW_FLOATS)
    table[:, 0] = torch.arange(options.rows)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(table), batch_size=peer.BATCH_ROWS,
                                         shuffle=True, num_workers=0)

    def make_pass():
        for batch, in loader:
            yield batch.chunk(options.ranks)

    return [peer.input_result(options.ranks, options.rows, make_pass, lambda part: part[:, 0].int().tolist())]


if __name__ == "__main__":
    OPTIONS = peer.arguments(__doc__.splitlines()[0], ["all_reduce", "input"])
    peer.report("PyTorch", torch.__version__, (all_reduce if OPTIONS.operation == "all_reduce" else load_input)(OPTIONS))
