"""Contents of files as bytes, and back: JSON, arrays, history. Never pickle.

What is read back equals what was written: arrays bit for bit with their dtype, numbers in text by their shortest
decimal that gives the same float, NaN and infinities included (as `NaN` and `Infinity` in JSON, as Python writes them).
The bytes depend on the values alone: no time stamps.
"""

import csv
import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hamq.errors import RunError, damaged
from hamq.solution import History
from hamq.types import HamqError


def decode(folder: Path, name: str, content: bytes) -> Any:
    """What was encoded as this file: a dict from JSON, arrays from npz, a History from CSV."""
    decoders = {".json": decode_json, ".npz": decode_arrays, ".csv": decode_history}
    try:
        return decoders[Path(name).suffix](content)
    except Exception as error:  # zipfile, NumPy, csv and json raise a dozen kinds, MemoryError among them
        raise damaged(folder, name, str(error).partition("\n")[0] or type(error).__name__) from error


def encode_json(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return (text + "\n").encode("utf-8", "surrogatepass")


def decode_json(content: bytes) -> dict[str, Any]:
    found = json.loads(content.decode("utf-8", "surrogatepass"))
    if not isinstance(found, dict):
        raise HamqError(f"it holds a {type(found).__name__}, not a JSON object")
    return found


def plain(value: Any, field: str) -> Any:
    """The value as JSON gives it back: tuples as lists, NumPy scalars as numbers. Refuses what JSON does not have."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(entry, f"{field}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise RunError(f"{field} has the key {key!r}; JSON needs strings as keys.")
        return {key: plain(entry, f"{field}.{key}") for key, entry in value.items()}
    raise RunError(
        f"{field} is {value!r:.60} of type {type(value).__name__}; give numbers, strings, booleans, None, lists or dicts."
    )


def is_number(value: Any) -> bool:
    """Whether what was read is a number that can be shown; whole ones have no bound in JSON."""
    return type(value) is float or (type(value) is int and abs(value) < 1e300)


def encode_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An npz that np.load reads; not np.savez, which takes no array called `file` and stores times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            _check_array(name, array)
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return buffer.getvalue()


def decode_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Reads no more than there is: members are stored as they are, one after the other, and headers are not believed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise HamqError("its arrays are compressed, and hamq stores them as they are")
        if sum(member.file_size for member in members) > len(content):
            raise HamqError("its arrays are larger than the file")
        return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}


def _array(content: bytes) -> np.ndarray:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise HamqError(f"an array has the format version {version}")
    shape, _, dtype = headers[version](file)
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell() or dtype.hasobject:
        raise HamqError(f"an array of shape {shape!r:.60} and dtype {dtype!s:.60} does not have its {len(content)} bytes")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def encode_history(history: History) -> bytes:
    """CSV with a header, one row per iteration."""
    for name, column in history.columns.items():
        if column.ndim != 1 or column.dtype.kind not in "biuf" or column.dtype.itemsize > 8:
            raise RunError(
                f"History: column {name!r} has shape {column.shape} and dtype {column.dtype}; a column holds one int, "
                "float or bool per iteration."
            )
        _check_name("History", name)
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(history.columns)
    # `tolist` gives Python's numbers, whose repr is the shortest that reads back the same.
    writer.writerows([map(repr, row) for row in zip(*(c.tolist() for c in history.columns.values()), strict=True)])
    return file.getvalue().encode()


def decode_history(content: bytes) -> History:
    """Columns of whole numbers as ints, of True and False as bools, others (and empty ones) as float64."""
    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    columns = zip(*rows, strict=True) if rows else [() for _ in header]
    return History(**{name: _column(texts) for name, texts in zip(header, columns, strict=True)})


def _column(texts: tuple[str, ...]) -> np.ndarray:
    if texts and set(texts) <= {"True", "False"}:
        return np.asarray([text == "True" for text in texts])
    if texts and all(text.removeprefix("-").isdecimal() for text in texts):
        numbers = [int(text) for text in texts]
        if not -(2**63) <= min(numbers) <= max(numbers) < (2**64 if min(numbers) >= 0 else 2**63):
            raise HamqError("a column has whole numbers beyond 64 bits")
        # Without its type NumPy would make floats of 2⁶³ and 0 together.
        return np.asarray(numbers, np.uint64) if max(numbers) >= 2**63 and min(numbers) >= 0 else np.asarray(numbers)
    return np.asarray([float(text) for text in texts])


def _check_name(what: str, name: str) -> None:
    """Line breaks and NUL would not come back from CSV and zip."""
    if not name or not name.isprintable():
        raise RunError(f"{what}: {name!r} is not a name for an array; use printable characters, at least one.")


def _check_array(name: str, array: np.ndarray) -> None:
    _check_name("Checkpoint", name)
    if not isinstance(array, np.ndarray):
        raise RunError(f"Checkpoint: {name} is of type {type(array).__name__}; give a NumPy array, by np.asarray.")
    # Objects would need pickle; types that NumPy does not have itself (bfloat16) would come back as raw bytes.
    is_native = array.dtype.kind in "biufcmMSUV" and not array.dtype.hasobject
    if (
        not is_native
        or not str(array.dtype).isascii()
        or np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(array.dtype)) != array.dtype
    ):
        raise RunError(
            f"Checkpoint: {name} has dtype {array.dtype}, which npz cannot hold without pickle; "
            "convert it to a type of NumPy, or take a view such as .view(np.uint16)."
        )
