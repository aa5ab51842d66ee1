"""python_dlpack.py LIBRARY: tensors go both ways between lockstep and NumPy, and PyTorch where it is, without a copy.

LIBRARY is lockstep_dlpack_library, which ctypes loads. Ends with 77, which CTest shows as skipped, where Python has
no NumPy that knows from_dlpack.
"""

import ctypes
import sys

try:
    import numpy

    numpy.from_dlpack
except (ImportError, AttributeError) as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

library = ctypes.CDLL(sys.argv[1])
for name, result, *arguments in [
    ("error_message", ctypes.c_char_p),
    ("in_use_bytes", ctypes.c_int64),
    ("make_tensor", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool),
    ("drop_tensor", None, ctypes.c_void_p),
    ("lend_tensor", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool),
    ("take_tensor", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool),
    ("address", ctypes.c_void_p, ctypes.c_void_p),
    ("is_read_only", ctypes.c_bool, ctypes.c_void_p),
    ("element", ctypes.c_double, ctypes.c_void_p, ctypes.c_int64),
    ("fill", None, ctypes.c_void_p, ctypes.c_int),
]:
    getattr(library, name).restype = result
    getattr(library, name).argtypes = arguments

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
NAMES = {True: (b"dltensor_versioned", b"used_dltensor_versioned"), False: (b"dltensor", b"used_dltensor")}
DESTRUCTORS = {
    True: ctypes.cast(library.end_versioned_capsule, ctypes.c_void_p),
    False: ctypes.cast(library.end_capsule, ctypes.c_void_p),
}


class Lent:
    """A tensor of lockstep's, as an array that Python's libraries take."""

    def __init__(self, dtype, read_only=False, knows_versions=True):
        self.tensor = library.make_tensor(dtype.encode(), read_only)
        self.knows_versions = knows_versions

    def __del__(self):
        library.drop_tensor(self.tensor)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = self.knows_versions and max_version is not None and max_version[0] >= 1
        managed = library.lend_tensor(self.tensor, versioned)
        if managed is None:
            raise BufferError(library.error_message().decode())
        return python.PyCapsule_New(managed, NAMES[versioned][0], DESTRUCTORS[versioned])


def take(array, versioned):
    """The tensor that lockstep makes of an array, or the message of the error."""
    capsule = array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()
    name, used = NAMES[versioned]
    managed = python.PyCapsule_GetPointer(ctypes.py_object(capsule), name)
    python.PyCapsule_SetName(ctypes.py_object(capsule), used)
    return library.take_tensor(managed, versioned) or library.error_message().decode()


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def check_lent(from_dlpack, address, dtype, knows_versions):
    before = library.in_use_bytes()
    lent = Lent(dtype, knows_versions=knows_versions)
    array = from_dlpack(lent)
    check(address(array) == library.address(lent.tensor), f"{dtype} was copied")
    values = [[float(x) for x in row] for row in array]
    expected = [[1, 2, 3], [5, 6, 7]] if dtype != "bool" else [[1, 1, 1], [1, 1, 1]]
    check(values == expected, f"{dtype} reads {values}")
    library.fill(lent.tensor, 0)
    check(float(array[1, 2]) == 0, f"{dtype}: a write is not seen")
    del lent
    check(library.in_use_bytes() > before, f"{dtype}: the memory was freed under the array")
    del array
    check(library.in_use_bytes() == before, f"{dtype}: the deleter was not called")


def check_taken(array, versioned, elements, address, writable=True):
    what = f"{array.dtype} {tuple(array.shape)}"
    references = sys.getrefcount(array)
    tensor = take(array, versioned)
    check(isinstance(tensor, int), f"{what}: {tensor}")
    check(library.address(tensor) == address, f"{what} was copied")
    for i, value in enumerate(elements):
        check(library.element(tensor, i) == float(value), f"{what}: element {i}")
    check(library.is_read_only(tensor) != writable, f"{what}: read-only")
    library.drop_tensor(tensor)
    check(sys.getrefcount(array) == references, f"{what}: the deleter was not called")


DTYPES = ["float16", "float32", "float64"] + [f"{sign}int{8 << i}" for sign in ("", "u") for i in range(4)]


def check_numpy():
    count = 0
    knows_versions = [False]
    try:
        numpy.zeros(1).__dlpack__(max_version=(1, 0))
        knows_versions.append(True)
    except TypeError:  # before NumPy 2.1
        pass
    for versioned in knows_versions:
        for dtype in DTYPES + (["bool"] if True in knows_versions else []):  # NumPy lends booleans since 1.25
            check_lent(numpy.from_dlpack, lambda array: array.ctypes.data, dtype, versioned)
            whole = numpy.arange(24).reshape(2, 3, 4).astype(dtype)
            for array in (whole, whole.T, whole[:, 1:, ::2], whole[:, :0], whole[1, 2, 3:4].reshape(())):
                check_taken(array, versioned, array.flatten(), array.ctypes.data if array.size else None)
                count += 1
        for array, part in ((numpy.zeros(3, "complex64"), "complex"), (numpy.arange(4)[::-1], "stride -1")):
            message = take(array, versioned)
            check(isinstance(message, str) and part in message, f"{part} is not refused: {message}")
    if True in knows_versions:
        lent = Lent("float32", read_only=True)
        check(not numpy.from_dlpack(lent).flags.writeable, "a read-only tensor is writable")
        constant = numpy.arange(3)
        constant.flags.writeable = False
        check_taken(constant, True, constant, constant.ctypes.data, writable=False)
    try:
        numpy.from_dlpack(Lent("float32", read_only=True, knows_versions=False))
        check(False, "a read-only tensor is lent without the flag")
    except BufferError as error:
        check("must not be written" in str(error), str(error))
    before = library.in_use_bytes()
    Lent("float32").__dlpack__(max_version=(1, 0))  # a capsule that nobody takes
    check(library.in_use_bytes() == before, "an unused capsule keeps its memory")
    return count


def check_torch():
    """The floating-point types that NumPy has not, and a type that both have."""
    count = 0
    for name in ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2"]:
        if not hasattr(torch, name):
            continue
        check_lent(torch.from_dlpack, lambda array: array.data_ptr(), name.removesuffix("fn"), False)
        array = torch.arange(6).to(getattr(torch, name)).reshape(2, 3).t()
        check_taken(array, False, array.flatten(), array.data_ptr())
        count += 1
    return count


print(f"NumPy {numpy.__version__}: {check_numpy()} arrays taken")
if torch:
    print(f"PyTorch {torch.__version__}: {check_torch()} types lent and taken")
