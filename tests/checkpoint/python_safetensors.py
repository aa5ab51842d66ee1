"""python_safetensors.py PROGRAM: files go both ways between lockstep and the format's reference implementation.

PROGRAM is lockstep_safetensors_program, which knows the same values. Ends with 77, which CTest shows as skipped,
where Python has no package safetensors.
"""

import ctypes
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import safetensors
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def has_small_floats():
    header = b'{"a":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]}}      '
    try:
        safetensors.deserialize(struct.pack("<Q", len(header)) + header)
    except Exception:
        return False
    return True


# The format's name, the reference implementation's, bytes of an element, and [0, 1, 1.5, 100].
DTYPES = [
    ("F16", "float16", 2, struct.pack("<4e", 0, 1, 1.5, 100)),
    ("BF16", "bfloat16", 2, struct.pack("<4H", 0, 0x3F80, 0x3FC0, 0x42C8)),
    ("F32", "float32", 4, struct.pack("<4f", 0, 1, 1.5, 100)),
    ("F64", "float64", 8, struct.pack("<4d", 0, 1, 1.5, 100)),
    ("I8", "int8", 1, struct.pack("<4b", 0, 1, 1, 100)),
    ("I16", "int16", 2, struct.pack("<4h", 0, 1, 1, 100)),
    ("I32", "int32", 4, struct.pack("<4i", 0, 1, 1, 100)),
    ("I64", "int64", 8, struct.pack("<4q", 0, 1, 1, 100)),
    ("U8", "uint8", 1, struct.pack("<4B", 0, 1, 1, 100)),
    ("U16", "uint16", 2, struct.pack("<4H", 0, 1, 1, 100)),
    ("U32", "uint32", 4, struct.pack("<4I", 0, 1, 1, 100)),
    ("U64", "uint64", 8, struct.pack("<4Q", 0, 1, 1, 100)),
    ("BOOL", "bool", 1, struct.pack("<4?", False, True, True, True)),
    ("F8_E4M3", "float8_e4m3fn", 1, bytes([0, 0x38, 0x3C, 0x6C])),  # 100 is a tie: 96, the even one
    ("F8_E5M2", "float8_e5m2", 1, bytes([0, 0x3C, 0x3E, 0x56])),  # 96
]
SHAPES = [(), (0,), (3, 0), (1,), (7,), (2, 3, 5)]


def values():
    """By key: the dtype in both spellings, the shape, the bytes."""
    result = {}
    for index, (dtype, numpy_name, element_bytes, numbers) in enumerate(DTYPES):
        result[dtype] = (dtype, numpy_name, (4,), numbers)
        for shape in SHAPES:
            size = math.prod(shape) * element_bytes
            data = bytes(i % 2 if dtype == "BOOL" else (7 * i + 13 + index) % 256 for i in range(size))
            result[dtype + str(list(shape))] = (dtype, numpy_name, shape, data)
    return result


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def check_written(path):
    """The reference implementation reads what lockstep wrote."""
    with open(path, "rb") as file:
        content = file.read()
    tensors = dict(safetensors.deserialize(content))
    expected = values()
    check(set(tensors) == set(expected), "keys")
    for key, (dtype, _, shape, data) in expected.items():
        tensor = tensors[key]
        check(tensor["dtype"] == dtype, f"dtype of {key}: {tensor['dtype']}")
        check(tuple(tensor["shape"]) == shape, f"shape of {key}: {tensor['shape']}")
        check(bytes(tensor["data"]) == data, f"data of {key}")
    (header_bytes,) = struct.unpack("<Q", content[:8])
    sizes = {dtype: element_bytes for dtype, _, element_bytes, _ in DTYPES}
    for key, entry in json.loads(content[8 : 8 + header_bytes]).items():
        check((8 + header_bytes + entry["data_offsets"][0]) % sizes[entry["dtype"]] == 0, f"alignment of {key}")
    return len(tensors)


def check_with_numpy(path):
    try:
        import numpy
        from safetensors import safe_open
    except ImportError:
        return 0
    count = 0
    with safe_open(path, framework="np") as file:
        for key, (_, numpy_name, shape, data) in values().items():
            if numpy_name.startswith(("bfloat", "float8")):
                continue
            array = file.get_tensor(key)
            check(array.dtype == numpy.dtype(numpy_name), f"numpy dtype of {key}")
            check(array.shape == shape and array.tobytes() == data, f"numpy array {key}")
            count += 1
    return count


def write(path):
    """A file by the reference implementation."""
    tensors = {}
    keep_alive = []
    for key, (_, numpy_name, shape, data) in values().items():
        if hasattr(safetensors, "TensorSpec"):  # takes addresses
            buffer = ctypes.create_string_buffer(data, len(data))
            keep_alive.append(buffer)
            tensors[key] = safetensors.TensorSpec(
                dtype=numpy_name, shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(data)
            )
        else:
            tensors[key] = {"dtype": numpy_name, "shape": shape, "data": data}
    safetensors.serialize_file(tensors, path, metadata={"writer": "reference", "é\n": ""})


def main():
    if not has_small_floats():
        print(f"skipped: safetensors {safetensors.__version__} does not know the 8-bit floats")
        sys.exit(77)
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        ours = os.path.join(directory, "lockstep.safetensors")
        theirs = os.path.join(directory, "python.safetensors")
        subprocess.run([program, "write", ours], check=True)
        num_read = check_written(ours)
        num_arrays = check_with_numpy(ours)
        write(theirs)
        subprocess.run([program, "read", theirs], check=True)
    print(
        f"safetensors {safetensors.__version__}: {num_read} tensors read, {num_arrays} of them by numpy; "
        f"{len(values())} written and restored"
    )


main()
