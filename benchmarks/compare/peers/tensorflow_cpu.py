#!/usr/bin/env python3
"""TensorFlow: run and input of its MirroredStrategy on virtual CPUs, and run_all_reduce of its
MultiWorkerMirroredStrategy, whose workers have one replica each where there is no GPU.

    tensorflow_cpu.py run --ranks 2
    tensorflow_cpu.py input --ranks 4
    tensorflow_cpu.py run_all_reduce --ranks 2
"""

import os
import subprocess
import sys
import time

import peer


def load():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow
    return tensorflow


tf = peer.import_or_skip(load)


def make_strategy(ranks):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(ranks)])
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(ranks)])


def run(options):
    strategy = make_strategy(options.ranks)

    @tf.function
    def empty():
        pass

    @tf.function
    def replica():
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    called = [int(part) for part in strategy.experimental_local_results(strategy.run(replica))]
    wrong = len(set(range(options.ranks)) - set(called))
    seconds = peer.seconds_per_call(lambda: strategy.run(empty), options.seconds)
    return [peer.result("run", options.ranks, 0, 1e6 * seconds, wrong)]


def run_all_reduce(options):
    """Starts the workers: this program with TF_CONFIG. @return what worker 0 prints."""
    workers = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **environment},
                                stdout=subprocess.PIPE if index == 0 else subprocess.DEVNULL, text=True)
               for index, environment in enumerate(peer.worker_environments(options.ranks))]
    output, _ = workers[0].communicate()
    if any([worker.wait() != 0 for worker in workers]):
        sys.exit("a worker of MultiWorkerMirroredStrategy has failed")
    return output


def worker_run_all_reduce(options):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def sum_of(value):
        own = tf.identity(value)  # on the replica's device, as a step's loss is: an argument is on none
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own)

    def total(value):
        return float(strategy.experimental_local_results(strategy.run(sum_of, args=(tf.constant(value),)))[0])

    one = tf.constant(1.0)

    def mean_seconds(count):  # of all workers: they have to agree on the number of calls
        start = time.perf_counter()
        for _ in range(count):
            strategy.run(sum_of, args=(one,))
        return total((time.perf_counter() - start) / count) / options.ranks

    wrong = int(total(3.0) != 3.0 * options.ranks)
    mean_seconds(5)
    seconds = mean_seconds(max(3, int(options.seconds / mean_seconds(3))))
    return [peer.result("run_all_reduce", options.ranks, 0, 1e6 * seconds, wrong)]


def load_input(options):
    strategy = make_strategy(options.ranks)
    table = tf.concat([tf.cast(tf.range(options.rows)[:, None], tf.float32),
                       tf.zeros([options.rows, peer.ROW_FLOATS - 1])], axis=1)
    dataset = tf.data.Dataset.from_tensor_slices(table).shuffle(options.rows).batch(peer.BATCH_ROWS)
    distributed = strategy.experimental_distribute_dataset(dataset)

    def make_pass():
        for batch in distributed:
            yield strategy.experimental_local_results(batch)

    return [peer.input_result(options.ranks, options.rows, make_pass,
                              lambda part: part.numpy()[:, 0].astype(int).tolist())]


if __name__ == "__main__":
    OPTIONS = peer.arguments(__doc__.splitlines()[0], ["run", "input", "run_all_reduce"])
    if OPTIONS.operation == "run_all_reduce" and "TF_CONFIG" not in os.environ:
        print(run_all_reduce(OPTIONS), end="")
    else:
        MEASURE = {"run": run, "input": load_input, "run_all_reduce": worker_run_all_reduce}
        peer.report("TensorFlow", tf.__version__, MEASURE[OPTIONS.operation](OPTIONS))
