#!/usr/bin/env python3
"""TensorFlow: run and input of its MirroredStrategy on virtual CPUs.

    tensorflow_cpu.py run --ranks 2
    tensorflow_cpu.py input --ranks 4
"""

import os

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
    OPTIONS = peer.arguments(__doc__.splitlines()[0], ["run", "input"])
    peer.report("TensorFlow", tf.__version__, (run if OPTIONS.operation == "run" else load_input)(OPTIONS))
