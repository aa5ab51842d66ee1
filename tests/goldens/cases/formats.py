"""Files that tf.data and tf.io read: records, compressed ones, CSV, images, raw bytes, lists of files. The results named
"file ..." are the bytes of the files, as hex, from which the other results are read."""
import gzip
import os
import struct
import tempfile
import zlib

import tensorflow as tf

from .framework import *

D = tf.data.Dataset


class Folder:
    """A folder that goes with the case."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()

    def write(self, name, data):
        path = os.path.join(self._folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def path(self, name):
        return os.path.join(self._folder.name, name)


def texts(dataset):
    return Rows(x.numpy().hex() for x in dataset)


def left(dataset):
    """The elements before the first error."""
    found = []
    try:
        for x in dataset:
            found.append(x.numpy().hex())
    except tf.errors.OpError:
        found.append("error")
    return Rows(found)


@case("format-tf-record", "compression_type")
def _(r):
    """Records of several lengths; files one after the other; damaged checksums and lengths."""
    folder = Folder()
    for compression in ("", "GZIP", "ZLIB"):
        for name, records in {"none": [], "one": [b"a"], "three": [b"one", b"", b"three" * 30], "zeros": [bytes(700)]}.items():
            path = folder.path(name + compression)
            with tf.io.TFRecordWriter(path, compression) as writer:
                for record in records:
                    writer.write(record)
            with open(path, "rb") as file:
                data = file.read()
            r(f"file {name} {compression}", lambda: data.hex())
            r(f"records {name} {compression}", lambda: texts(tf.data.TFRecordDataset(path, compression)))
    one, three = (open(folder.path(name), "rb").read() for name in ("one", "three"))
    both = [folder.path("three"), folder.path("one")]
    r("two files", lambda: texts(tf.data.TFRecordDataset(both)))
    r("two files in one", lambda: texts(tf.data.TFRecordDataset(folder.write("together", three + one))))
    members = gzip.compress(three, mtime=0) + gzip.compress(one, mtime=0)
    r("file of two gzip files", lambda: members.hex())
    r("two gzip files in one", lambda: texts(tf.data.TFRecordDataset(folder.write("members", members), "GZIP")))
    for place, name in {0: "length", 8: "length's checksum", 12: "data", 15: "data's checksum"}.items():
        data = bytearray(three)
        data[place] ^= 1
        r(f"damaged {name}", lambda: left(tf.data.TFRecordDataset(folder.write("damaged", bytes(data)))))
    for size in (1, 11, 12, 14, 16, 18):
        r(f"cut to {size}", lambda: left(tf.data.TFRecordDataset(folder.write("cut", three[:size]))))
    r("no such file", lambda: texts(tf.data.TFRecordDataset(folder.path("nothing"))))
    r("another compression", lambda: texts(tf.data.TFRecordDataset(folder.path("three"), "GZIP")))


TEXTS = {"empty": b"", "one": b"one", "ended": b"one\n", "three": b"one\n\nthree", "crlf": b"one\r\ntwo\r\n", "cr": b"a\rb\n\r\n"}


FORMS = {"": lambda data: data, "GZIP": lambda data: gzip.compress(data, mtime=0), "ZLIB": zlib.compress}


@case("format-lines", "compression_type")
def _(r):
    """Lines of text files, and of compressed ones."""
    folder = Folder()
    files = {"empty": b"", "one": b"one", "ended": b"one\n", "three": b"one\n\nthree", "crlf": b"one\r\ntwo\r\n", "cr": b"a\rb\n\r\n"}
    for name, data in files.items():
        for compression, compress in FORMS.items():
            r(f"file {name} {compression}", lambda: compress(data).hex())
            r(f"{name} {compression}", lambda: texts(tf.data.TextLineDataset(folder.write(name, compress(data)), compression)))


@case("format-records", "record_bytes, header_bytes, footer_bytes, compression_type")
def _(r):
    """Records of one length."""
    folder = Folder()
    for compression, compress in FORMS.items():
        data = compress(b"headaabbccfo")
        r(f"file {compression}", lambda: data.hex())
        for record, header, footer in ((2, 4, 2), (3, 4, 2), (1, 0, 0), (4, 0, 0), (12, 0, 0), (5, 4, 3), (5, 0, 0), (6, 4, 2)):
            r(f"{record} {header} {footer} {compression}", lambda: texts(tf.data.FixedLengthRecordDataset(
                folder.write("records", data), record, header, footer, compression_type=compression)))


@case("format-csv", "record_defaults, header, field_delim, use_quote_delim, na_value, select_cols")
def _(r):
    """CsvDataset's values: integers, floats and texts, quotes, defaults, selected columns."""
    folder = Folder()
    i, f, s = tf.int32, tf.float32, tf.string

    def read(data, kinds, **options):
        dataset = tf.data.experimental.CsvDataset(folder.write("file.csv", data), kinds, **options)
        return Rows([x.numpy().decode() if x.dtype == tf.string else x.numpy().item() for x in row] for row in dataset)
    r("plain", lambda: read(b"1,2.5,x\n-3,1e2,y z\n", [i, f, s]))
    r("no last newline", lambda: read(b"1,2\n3,4", [i, i]))
    r("crlf", lambda: read(b"1,2\r\n3,4\r\n", [i, i]))
    r("header", lambda: read(b"a,b\n3,4\n", [i, i], header=True))
    r("only a header", lambda: read(b"a,b\n", [i, i], header=True))
    r("tabs", lambda: read(b"1\t2\n", [i, i], field_delim="\t"))
    r("quotes", lambda: read(b'"1","a,b"\n2,"c ""d"" e"\n', [i, s]))
    r("a newline in quotes", lambda: read(b'"a\nb",1\n', [s, i]))
    r("no quotes", lambda: read(b'"a",1\n', [s, i], use_quote_delim=False))
    r("defaults", lambda: read(b",\n5,\n", [[7], [0.5]]))
    r("a default beside numbers", lambda: read(b"1,2\n3,\n", [i, [9]]))
    r("an empty text", lambda: read(b"1,\n", [i, [""]]))
    r("na_value", lambda: read(b"NA,2\n3,NA\n", [[7], [8]], na_value="NA"))
    r("selected", lambda: read(b"1,2,3\n4,5,6\n", [i, i], select_cols=[0, 2]))
    r("selected last", lambda: read(b"1,2,x\n", [s], select_cols=[2]))
    r("one column", lambda: read(b"1\n2\n", [i]))
    r("numbers", lambda: read(b"1e-3,0.1\n-1.5e10,.5\n", [tf.float64, tf.float32]))
    r("largest", lambda: read(b"2147483647,-9223372036854775808\n", [i, tf.int64]))
    r("too few fields", lambda: read(b"1\n", [i, i]))
    r("too many fields", lambda: read(b"1,2,3\n", [i, i]))
    r("no number", lambda: read(b"x\n", [i]))
    r("out of range", lambda: read(b"2147483648\n", [i]))
    r("missing", lambda: read(b",1\n", [i, i]))
    r("a quote within", lambda: read(b'a"b,1\n', [s, i]))
    r("text after a quote", lambda: read(b'"a"b,1\n', [s, i]))
    r("a quote without an end", lambda: read(b'"a,1\n', [s, i]))


@case("format-raw", "out_type, little_endian")
def _(r):
    """decode_raw."""
    data = bytes([0, 0, 128, 63, 1, 2, 3, 4, 0, 60, 0, 192, 255, 255, 0, 1])
    for dtype in (tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64):
        for little in (True, False):
            if dtype == tf.float64 and not little:
                continue
            r(f"{dtype.name} {little}", lambda: tf.io.decode_raw(data, dtype, little_endian=little))
    r("bool", lambda: tf.io.decode_raw(data, tf.bool))
    r("nothing", lambda: tf.io.decode_raw(b"", tf.int32))
    r("half an element", lambda: tf.io.decode_raw(data[:6], tf.int32))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, *chunks):
    """A PNG file of filtered rows."""
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    return data + b"".join(chunks) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b"")


def pattern(height, width, channels, dtype=tf.uint8):
    top = 65521 if dtype == tf.uint16 else 251
    values = [(7 * y * y + 31 * x + 83 * c) * (257 if dtype == tf.uint16 else 1) % top
              for y in range(height) for x in range(width) for c in range(channels)]
    return tf.cast(tf.reshape(tf.constant(values), [height, width, channels]), dtype)


PALETTE = chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30]))
IMAGES = {
    "grey 1": png(10, 2, 1, 0, [b"\xaa\x80", b"\x55\x40"]),
    "grey 2": png(5, 1, 2, 0, [b"\x1b\x80"]),
    "grey 4": png(3, 1, 4, 0, [b"\x1f\xa0"]),
    "palette": png(4, 1, 2, 3, [b"\x1b"], PALETTE),
    "palette with alpha": png(4, 1, 2, 3, [b"\x1b"], PALETTE, chunk(b"tRNS", bytes([255, 128, 0]))),
    "grey with a transparent value": png(3, 1, 8, 0, [b"\x01\x02\x03"], chunk(b"tRNS", b"\0\2")),
    "colour with a transparent value": png(2, 1, 8, 2, [b"\x01\x02\x03\x04\x05\x06"], chunk(b"tRNS", b"\0\4\0\5\0\6")),
}


@case("format-png", "channels, dtype")
def _(r):
    """decode_png of every kind of image."""
    files = dict(IMAGES)
    for channels in (1, 2, 3, 4):
        files[f"u8 {channels}"] = tf.io.encode_png(pattern(3, 5, channels)).numpy()
        files[f"u16 {channels}"] = tf.io.encode_png(pattern(2, 3, channels, tf.uint16)).numpy()
    for name, data in files.items():
        r(f"file {name}", lambda: data.hex())
        for channels in (0, 1, 3, 4):
            for dtype in (tf.uint8, tf.uint16):
                r(f"{name}, {channels}, {dtype.name}", lambda: tf.io.decode_png(data, channels, dtype))
    data = files["u8 3"]
    r("decode_image", lambda: tf.io.decode_image(data))
    r("cut short", lambda: tf.io.decode_png(data[:60]))
    r("a damaged checksum", lambda: tf.io.decode_png(data[:45] + bytes([data[45] ^ 1]) + data[46:]))
    r("no image", lambda: tf.io.decode_png(b"text"))
    r("nothing", lambda: tf.io.decode_png(b""))
    r("5 channels", lambda: tf.io.decode_png(data, 5))


@case("format-jpeg", "channels")
def _(r):
    """decode_jpeg of grey and colour, baseline and progressive, with the accurate transform; values may differ by 1."""
    smooth = lambda height, width, channels: tf.cast(tf.reshape(tf.constant(
        [(3 * y + 5 * x + 60 * c) % 256 for y in range(height) for x in range(width) for c in range(channels)]),
        [height, width, channels]), tf.uint8)
    files = {
        "grey": tf.io.encode_jpeg(smooth(9, 7, 1), quality=90).numpy(),
        "colour": tf.io.encode_jpeg(smooth(8, 17, 3), quality=95).numpy(),
        "colour of quality 50": tf.io.encode_jpeg(smooth(11, 6, 3), quality=50).numpy(),
        "progressive": tf.io.encode_jpeg(smooth(10, 10, 3), progressive=True).numpy(),
        "no downsampling": tf.io.encode_jpeg(smooth(5, 9, 3), chroma_downsampling=False).numpy(),
        "one pixel": tf.io.encode_jpeg(smooth(1, 1, 3)).numpy(),
    }
    for name, data in files.items():
        r(f"file {name}", lambda: data.hex())
        for channels in (0, 1, 3):
            r(f"{name}, {channels}", lambda: tf.io.decode_jpeg(data, channels, dct_method="INTEGER_ACCURATE"))
    r("decode_image", lambda: tf.io.decode_image(files["grey"]))
    data = files["colour"]
    r("cut short", lambda: tf.io.decode_jpeg(data[:len(data) - 60]))
    r("no image", lambda: tf.io.decode_jpeg(b"text"))
    r("4 channels", lambda: tf.io.decode_jpeg(data, 4))
    r("decode_image of neither", lambda: tf.io.decode_image(b"text that is no image"))


@case("format-list-files", "shuffle=False")
def _(r):
    """list_files' patterns, in order."""
    folder = Folder()
    for name in ("b.txt", "a.txt", "B.txt", "a.csv", ".hidden.txt", "sub/c.txt", "sub/d.txt", "x*y"):
        folder.write(name, b"")

    def names(*patterns):
        found = D.list_files([folder.path(p) for p in patterns], shuffle=False)
        return Rows(os.path.relpath(x.numpy().decode(), folder.path("")) for x in found)
    for pattern in ("*.txt", "?.txt", "[ab].txt", "*/*.txt", "a.txt", "x\\*y", "*", "sub*", "*.none", "no/*.txt"):
        r(pattern, lambda: names(pattern))
    r("two patterns", lambda: names("a.*", "*.csv"))
    r("the same twice", lambda: names("a.txt", "a.txt"))
    r("cardinality", lambda: int(D.list_files(folder.path("*.txt"), shuffle=False).cardinality()))
