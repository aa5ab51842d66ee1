"""What all cases share: strategies, recording, and turning results into JSON."""
import collections
import faulthandler
import math
import os as _os
import re
import sys
import tempfile
import traceback

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, ps_values, values as values_lib
from tensorflow.python.distribute.distribute_utils import regroup
from tensorflow.python.framework import indexed_slices

NUM_DEVICES = 8
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
AGGREGATION = tf.VariableAggregation
SYNC = tf.VariableSynchronization
PerReplica, Mirrored = values_lib.PerReplica, values_lib.Mirrored
DistributedVariable = values_lib.DistributedVariable

Case = collections.namedtuple("Case", "id setup text known module function")
CASES = []
_ops = "default"
_configured = False


def configure(ops="default", num_devices=NUM_DEVICES):
    global _ops, _configured
    _ops = ops
    if not _configured:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num_devices)
        tf.get_logger().setLevel("ERROR")
        _configured = True


def versions():
    import keras
    return {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__}


def case(id, setup="", known=False):
    """A case. known: its id says what it is; else the docstring does."""
    def register(function):
        assert all(c.id != id for c in CASES), id
        text = " ".join((function.__doc__ or "").split())
        CASES.append(Case(id, setup, text, known, function.__module__, function))
        return function
    return register


# ---- strategies and values

def mirrored(n, devices=None):
    devices = devices or [f"CPU:{i}" for i in range(n)]
    # Strategies of one process must not share the keys of their collectives.
    tf.distribute.MirroredStrategy._collective_key_base += 1000
    if _ops == "one_device":
        return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
    return tf.distribute.MirroredStrategy(devices)


def copying(n):
    """With ReductionToOneDevice: TensorFlow 2.21's collectives on CPU devices have no 8-bit integers, texts, booleans or
    negative axes, and end the process where no replica has rows."""
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(n)],
                                          cross_device_ops=tf.distribute.ReductionToOneDevice())


def one_device():
    return tf.distribute.OneDeviceStrategy("CPU:0")


def central(n):
    return tf.distribute.experimental.CentralStorageStrategy([f"CPU:{i}" for i in range(n)], "CPU:0")


def default():
    return tf.distribute.get_strategy()


def per_replica(strategy, components):
    return strategy.experimental_distribute_values_from_function(
        lambda context: components[context.replica_id_in_sync_group])


def f32(value):
    return tf.constant(value, tf.float32)


def i32(value):
    return tf.constant(value, tf.int32)


def index(device):
    return tf.DeviceSpec.from_string(device).device_index


def mirrored_value(components):
    """M{a}: what reduce_to gives; made directly."""
    return Mirrored(components)


def context():
    return tf.distribute.get_replica_context()


def replica_id():
    """The replica's number as a Python int."""
    return int(context().replica_id_in_sync_group)


def id_tensor(dtype=tf.float32):
    return tf.cast(context().replica_id_in_sync_group, dtype)


def variable(strategy, initial, aggregation=AGGREGATION.NONE, synchronization=SYNC.AUTO, **options):
    with strategy.scope():
        return tf.Variable(initial, aggregation=aggregation, synchronization=synchronization, **options)


def components(variable):
    """The components as tensors."""
    if isinstance(variable, DistributedVariable):
        return [tf.constant(v.numpy()) for v in variable.values]
    if isinstance(variable, ps_values.AggregatingVariable):
        return [tf.constant(variable.get().numpy())]
    return [tf.constant(variable.numpy())]


# ---- encoding

KINDS = [
    (tf.errors.OutOfRangeError, "OutOfRange"), (StopIteration, "OutOfRange"),
    (tf.errors.NotFoundError, "NotFound"),
    (tf.errors.DeadlineExceededError, "DeadlineExceeded"), (tf.errors.UnavailableError, "Unavailable"),
    (tf.errors.UnimplementedError, "Unimplemented"), (NotImplementedError, "Unimplemented"),
    (tf.errors.InvalidArgumentError, "InvalidArgument"), (tf.errors.FailedPreconditionError, "ContextError"),
    (ValueError, "InvalidArgument"), (TypeError, "InvalidArgument"), (AssertionError, "InvalidArgument"),
    (KeyError, "InvalidArgument"), (AttributeError, "InvalidArgument"), (IndexError, "InvalidArgument"),
    (RuntimeError, "ContextError"),
]


def kind_of(error):
    for cls, kind in KINDS:
        if isinstance(error, cls):
            return kind
    return "Other"


def first_line(error):
    """The message's first line that says something, without addresses and paths."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0] == "in user code:":
        own = [line for line in lines if re.match(r"\w*(Error|Exception)\b.*:", line)]
        lines = own or lines[1:]
    line = lines[0] if lines else ""
    line = re.sub(r"^\{\{function_node [^}]*\}\}\s*", "", line)
    line = re.sub(r"goo\.gle/\w+", "", line)
    line = re.sub(r"0x[0-9a-f]{6,}", "0x…", line)
    line = re.sub(r"(/[\w.+-]+){3,}/([\w.+-]+\.\w+)", r"\2", line)
    line = re.sub(re.escape(tempfile.gettempdir()) + r"/tmp\w+/", "", line)
    line = re.sub(r"127\.0\.0\.1:\d+|localhost:\d+", "HOST:PORT", line)
    line = re.sub(r"\b\d{9,}\b", "…", line)
    return line[:240]


def encode_error(error):
    return {"error": type(error).__name__, "kind": kind_of(error), "message": first_line(error)}


def _numbers(array):
    """Nested lists, with what JSON has no number for as text."""
    if array.dtype.kind in "SOU":
        def text(x):
            return x.decode("latin-1") if isinstance(x, bytes) else str(x)
        return np.vectorize(text, otypes=[object])(array).tolist() if array.size else array.tolist()
    if array.dtype.kind == "c":
        return np.vectorize(str, otypes=[object])(array).tolist()

    def plain(x):
        if isinstance(x, list):
            return [plain(y) for y in x]
        if isinstance(x, float) and not math.isfinite(x):
            return "nan" if math.isnan(x) else ("inf" if x > 0 else "-inf")
        return x
    if array.dtype == tf.bfloat16.as_numpy_dtype or array.dtype == np.float16:
        array = array.astype(np.float32)
    if array.dtype == np.float32:  # the shortest decimal that reads back as this float32
        decimals = np.empty(array.shape, dtype=object)
        decimals.ravel()[:] = [float(str(x)) for x in array.ravel()]
        return plain(decimals.tolist())
    return plain(array.tolist())


class Encoded:
    """A result that another process has encoded."""

    def __init__(self, data):
        self.data = data


class Rows(list):
    """Steps of a dataset: per step, per replica, the rows; kept as they are."""


def encode(x):
    if x is None:
        return None
    if isinstance(x, Encoded):
        return x.data
    if isinstance(x, Rows):
        return {"rows": list(x)}
    if isinstance(x, BaseException):
        return encode_error(x)
    if isinstance(x, (bool, str)):
        return {"host": x}
    if isinstance(x, (int, float)) and not isinstance(x, np.generic):
        return {"host": x if isinstance(x, int) else _numbers(np.asarray(x, np.float64))}
    if isinstance(x, np.ndarray) or isinstance(x, np.generic):
        array = np.asarray(x)
        return {"numpy": str(array.dtype), "shape": list(array.shape), "value": _numbers(array)}
    if isinstance(x, DistributedVariable):
        return {"variable": x.name.split(":")[0], "components": [encode(c) for c in components(x)]}
    if isinstance(x, ps_values.AggregatingVariable):
        return {"variable": x.name.split(":")[0], "components": [encode(c) for c in components(x)]}
    if isinstance(x, tf.Variable):
        return {"variable": x.name.split(":")[0], "components": [encode(tf.constant(x.numpy()))]}
    if isinstance(x, Mirrored):
        return {"mirrored": [encode(c) for c in x.values]}
    if isinstance(x, values_lib.DistributedValues):
        return {"per_replica": [encode(c) for c in x.values]}
    if isinstance(x, indexed_slices.IndexedSlices):
        return {"indexed_slices": {"indices": encode(x.indices), "values": encode(x.values),
                                   "dense_shape": encode(x.dense_shape)}}
    if isinstance(x, (tf.RaggedTensor, tf.SparseTensor)):
        return {type(x).__name__: {"value": encode(tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else
                                                   x.to_tensor(-1))}}
    if isinstance(x, tf.Tensor):
        return {"dtype": x.dtype.name, "shape": x.shape.as_list(), "value": _numbers(np.asarray(x.numpy()))}
    if isinstance(x, tf.TypeSpec) or isinstance(x, tf.TensorShape):
        return {"spec": str(x)}
    if isinstance(x, tf.DType):
        return {"host": x.name}
    if isinstance(x, dict):
        return {"dict": {str(k): encode(v) for k, v in x.items()}}
    if isinstance(x, tuple):
        return {"tuple": [encode(v) for v in x]}
    if isinstance(x, list):
        return {"list": [encode(v) for v in x]}
    return {"object": type(x).__name__}


# ---- comparing with what was expected

def flatten(encoded):
    """The leaves' numbers and texts in order."""
    if encoded is None:
        return [None]
    if isinstance(encoded, list):
        return [leaf for x in encoded for leaf in flatten(x)]
    if isinstance(encoded, dict):
        for key in ("value", "host", "components", "mirrored", "per_replica", "tuple", "list"):
            if key in encoded:
                return flatten(encoded[key])
        if "dict" in encoded:
            return [leaf for k in encoded["dict"] for leaf in flatten(encoded["dict"][k])]
        if "indexed_slices" in encoded:
            return flatten(encoded["indexed_slices"]["indices"]) + flatten(encoded["indexed_slices"]["values"])
        if "error" in encoded:
            return ["!" + encoded["kind"]]
        if "spec" in encoded:
            return [encoded["spec"]]
        if "object" in encoded:
            return [encoded["object"]]
        return [leaf for k in encoded for leaf in flatten(encoded[k])]
    return [encoded]


def dtypes(encoded):
    if isinstance(encoded, list):
        return [d for x in encoded for d in dtypes(x)]
    if isinstance(encoded, dict):
        if "dtype" in encoded:
            return [encoded["dtype"]]
        return [d for x in encoded.values() for d in dtypes(x)]
    return []


def _spec_leaves(spec):
    if isinstance(spec, (list, tuple)):
        return [leaf for x in spec for leaf in _spec_leaves(x)]
    if isinstance(spec, dict):
        return [leaf for x in spec.values() for leaf in _spec_leaves(x)]
    if isinstance(spec, float) and math.isnan(spec):
        return ["nan"]
    return [spec]


def agrees(encoded, spec, spec_dtype, tolerance=1e-6):
    if isinstance(spec, str) and spec.startswith("!"):
        return flatten(encoded) == [spec]
    if isinstance(encoded, dict) and "rows" in encoded:
        return encoded["rows"] == spec
    actual, expected = flatten(encoded), _spec_leaves(spec)
    if len(actual) != len(expected):
        return False
    for a, e in zip(actual, expected):
        if isinstance(a, bool) or isinstance(e, bool) or isinstance(a, str) or isinstance(e, str) or a is None or e is None:
            if a != e:
                return False
        elif abs(a - e) > tolerance * max(1, abs(e)):
            return False
    return spec_dtype is None or all(d == spec_dtype for d in dtypes(encoded))


NOTHING = object()


class Recorder:
    """Called with a result's name and a function that makes it; keeps the value or what it throws."""

    def __init__(self):
        self.results = {}

    def __call__(self, name, thunk, spec=NOTHING, dtype=None, after=None):
        """after: what to note too where an error was thrown, such as a variable's components."""
        assert name not in self.results, name
        value, entry = None, {}
        try:
            value = thunk()
            encoded = encode(value)
        except Exception as error:  # TensorFlow's errors are results too
            encoded = encode_error(error)
            if after is not None:
                entry["after"] = encode(after())
            if _os.environ.get("GOLDENS_TRACE"):
                traceback.print_exc()
        entry = {"tensorflow": encoded, **entry}
        if spec is not NOTHING:
            entry["spec"] = spec if not isinstance(spec, float) or math.isfinite(spec) else "nan"
            if dtype:
                entry["spec_dtype"] = dtype
            entry["agrees"] = agrees(encoded, spec, dtype)
        self.results[name] = entry
        return value


def run(the_case):
    faulthandler.enable()
    faulthandler.dump_traceback_later(180, exit=True)
    if _os.environ.get("GOLDENS_TRACE"):
        print(the_case.id, file=sys.stderr, flush=True)
    recorder = Recorder()
    try:
        the_case.function(recorder)
    finally:
        faulthandler.cancel_dump_traceback_later()
    out = {"id": the_case.id, "setup": the_case.setup}
    if not the_case.known:
        out["input"] = the_case.text
    out["known"] = the_case.known
    out["results"] = recorder.results
    return out


def rows(strategy, dataset, limit=40, pick=lambda x: x):
    """Every step of a distributed dataset, replica by replica."""
    steps = Rows()
    for step in dataset:
        components = strategy.experimental_local_results(pick(step))
        steps.append([_numbers(c.numpy()) for c in components])
        if len(steps) == limit:
            break
    return steps
