#!/usr/bin/env python3
"""Grain: input of its MapDataset in this process, read by the thread that takes batches, as its own threads are slower.

    grain_input.py input --ranks 4
"""

import itertools

import peer


def load():
    import grain
    import numpy
    return grain, numpy


grain, numpy = peer.import_or_skip(load)


def load_input(options):
    table = numpy.zeros((options.rows, peer.ROW_FLOATS), numpy.float32)
    table[:, 0] = numpy.arange(options.rows)
    seeds = itertools.count()

    def make_pass():
        dataset = grain.MapDataset.source(table).shuffle(seed=next(seeds)).batch(peer.BATCH_ROWS)
        for batch in dataset.to_iter_dataset(grain.ReadOptions(num_threads=0)):
            yield numpy.array_split(batch, options.ranks)

    return [peer.input_result(options.ranks, options.rows, make_pass, lambda part: part[:, 0].astype(int).tolist())]


if __name__ == "__main__":
    peer.report("Grain", getattr(grain, "__version__", "unknown"),
                load_input(peer.arguments(__doc__.splitlines()[0], ["input"])))
