#!/usr/bin/env python3
"""What averaging gradients adds to a training step of PyTorch, by DistributedDataParallel over gloo between processes.

    pytorch_ddp.py --ranks 2 --rounds 20 --steps 50

The network, the batch and the numbers of steps are those of libtorch_ddp.cpp.
"""

import argparse
import os
import tempfile
import time

import peer


def load():
    import torch
    import torch.distributed
    import torch.multiprocessing
    if not torch.distributed.is_gloo_available():
        raise ImportError("this PyTorch has no gloo")
    return torch


torch = peer.import_or_skip(load)

ROWS, PIXELS, HIDDEN, CLASSES = 64, 784, 256, 10


class Training:
    def __init__(self, is_averaged):
        self.net = torch.nn.Sequential(
            torch.nn.Linear(PIXELS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, CLASSES))
        if is_averaged:
            self.net = torch.nn.parallel.DistributedDataParallel(self.net, gradient_as_bucket_view=True)
        self.sgd = torch.optim.SGD(self.net.parameters(), 0.01)
        self.images = torch.randn(ROWS, PIXELS)
        self.labels = torch.randint(CLASSES, (ROWS,))

    def step(self):
        self.sgd.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(self.net(self.images), self.labels).backward()
        self.sgd.step()

    def steps(self, count):
        """@return the time of each, in µs."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            self.step()
            times.append(1e6 * (time.perf_counter() - start))
        return times


def quantile(times, fraction):
    return sorted(times)[int(fraction * len(times))]


def run_rank(rank, options, store, connection):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=options.ranks)
    torch.manual_seed(rank)
    trainings = [Training(is_averaged=False), Training(is_averaged=True)]
    times = [[], []]
    for training in trainings:
        training.steps(10)
    for _ in range(options.rounds):
        for training, taken in zip(trainings, times):
            torch.distributed.barrier()
            taken += training.steps(options.steps)
    wrong = 0
    for parameter in trainings[1].net.parameters():
        first = parameter.detach().clone()
        torch.distributed.broadcast(first, 0)
        wrong += torch.count_nonzero(first != parameter).item()
    total = torch.tensor([wrong])
    torch.distributed.all_reduce(total)
    if rank == 0:
        (step_p10, step), (averaged_p10, averaged) = [(quantile(taken, 0.1), quantile(taken, 0.5)) for taken in times]
        result = peer.result("data_parallel_step", options.ranks, 0, averaged - step, total.item())
        connection.send({**result, "time_p10": averaged_p10 - step_p10, "step": step})
    torch.distributed.destroy_process_group()


def measure(options):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        receiver, sender = torch.multiprocessing.get_context("spawn").Pipe(duplex=False)
        torch.multiprocessing.start_processes(run_rank, (options, os.path.join(folder, "store"), sender), options.ranks,
                                              start_method="spawn")
        return receiver.recv()


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    PARSER.add_argument("--ranks", type=int, default=2, help="processes [2]")
    PARSER.add_argument("--rounds", type=int, default=20, help="of steps without, then with averaging [20]")
    PARSER.add_argument("--steps", type=int, default=50, help="of each kind in a round [50]")
    peer.report("PyTorch", torch.__version__, [measure(PARSER.parse_args())])
