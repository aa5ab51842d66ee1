#!/usr/bin/env python3
"""DALI: input of a pipeline on the CPU, whose source is a function that gives whole batches.

    dali_input.py input --ranks 4
"""

import peer


def load():
    import numpy
    import nvidia.dali
    import nvidia.dali.fn
    return nvidia.dali, numpy


dali, numpy = peer.import_or_skip(load)


def load_input(options):
    table = numpy.zeros((options.rows, peer.ROW_FLOATS), numpy.float32)
    table[:, 0] = numpy.arange(options.rows)
    random = numpy.random.default_rng(1)
    orders = {}  # of each epoch

    def batch(info):
        first = info.iteration * peer.BATCH_ROWS
        if first >= options.rows:
            raise StopIteration
        if info.epoch_idx not in orders:
            orders.clear()
            orders[info.epoch_idx] = random.permutation(options.rows)
        return table[orders[info.epoch_idx][first:first + peer.BATCH_ROWS]]

    @dali.pipeline_def(batch_size=peer.BATCH_ROWS, num_threads=2, device_id=None, prefetch_queue_depth=2)
    def pipeline():
        return dali.fn.external_source(source=batch, batch=True, batch_info=True)

    rows = pipeline()
    rows.build()

    def make_pass():
        while True:
            try:
                output, = rows.run()
            except StopIteration:
                rows.reset()
                return
            yield numpy.array_split(numpy.asarray(output.as_tensor()), options.ranks)

    return [peer.input_result(options.ranks, options.rows, make_pass, lambda part: part[:, 0].astype(int).tolist())]


if __name__ == "__main__":
    peer.report("DALI", dali.__version__, load_input(peer.arguments(__doc__.splitlines()[0], ["input"])))
