"""Readers of run folders fed with what nobody would write: only RunError, no hang, no memory.

Cases by hypothesis, with fixed seeds. Bytes are changed at random or made from scratch, and signed as the manifest wants it
in most cases: unsigned ones are refused by their SHA-256 and teach nothing more. The process may take 1 GB more than it has
at the start, so that a reader who asks for what a header promises fails; a case that takes 5 s counts as hanging.
"""

import dataclasses
import io
import json
import os
import resource
import signal
import struct
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from faults.progress import say
from faults.statm import address_space, resident
from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.encoding import encode_arrays, encode_history, encode_json
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import MANIFEST, Manifest, _signed, sha256
from hamq.runs.reading import Run, read_run
from hamq.solution import History

SEED = 13
ROOM = 2**30
"""Bytes beyond those at the start that the readers may ask for."""
ROUND = 1000
"""Cases that hypothesis makes at a time."""
PATIENCE = 5
"""Seconds for one case."""
HASH = "ab" * 32
CONFIG = {"command": "solve", "problem": {"name": "pendulum", "options": {}}, "seed": 0, "iterations": 20}

TEXTS = st.one_of(
    st.sampled_from(["../x", "/etc/passwd", "config.json", "\x1b[2J", "", "\ud800", "self", "q"]), st.text(max_size=8)
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from([2**70, -(2**63), 10**400]), st.floats(), TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def edited(good: bytes) -> st.SearchStrategy[bytes]:
    """The bytes, with a few of them changed, cut out, repeated or cut off."""
    places = st.integers(0, max(0, len(good) - 1))
    edits = st.lists(st.tuples(st.sampled_from("fcri"), places, st.binary(min_size=1, max_size=8)), min_size=1, max_size=4)

    def apply(chosen) -> bytes:
        content = bytearray(good)
        for kind, place, new in chosen:
            if kind == "f":
                content[place : place + len(new)] = new
            elif kind == "c":
                del content[place:]
            elif kind == "r":
                content[place:place] = content[: place % 64]
            else:
                content[place:place] = new
        return bytes(content)

    return edits.map(apply)


def jsons(good: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSON of any kind, or the good one with fields changed, dropped and added, or its text edited."""
    changed = st.tuples(
        st.dictionaries(st.sampled_from(sorted(good)), VALUES, max_size=3), st.sets(st.sampled_from(sorted(good)))
    )
    fields = changed.map(lambda pair: {name: value for name, value in (good | pair[0]).items() if name not in pair[1]})
    deep = st.integers(1, 100_000).map(lambda depth: b"[" * depth)
    return st.one_of(VALUES.map(as_json), fields.map(as_json), edited(encode_json(good)), deep, st.binary(max_size=40))


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@st.composite
def manifests(draw) -> bytes:
    """Manifests, most of them signed, of files that are not there, not names or not digests."""
    good = Manifest(HASH, {"hamq": "0"}, {"config.json": sha256(encode_json(CONFIG))})
    if draw(st.booleans()):
        return draw(jsons({"format": "hamq run folder", "version": 1, **dataclasses.asdict(good), "sha256": HASH}))
    names = st.one_of(st.sampled_from([*storage.NAMES, MANIFEST, "hamq.lock"]), TEXTS)
    digests = st.one_of(st.just(sha256(encode_json(CONFIG))), st.just("../" * 3), st.text(max_size=70), VALUES)
    body = {"format": "hamq run folder", "version": 1, **dataclasses.asdict(good)}
    body["files"] = draw(st.one_of(VALUES, st.dictionaries(names, digests, max_size=4)))
    for name in draw(st.sets(st.sampled_from(sorted(body)), max_size=2)):
        body[name] = draw(VALUES)
    for name in draw(st.sets(st.sampled_from(sorted(body)), max_size=1)):
        del body[name]
    return _signed(body)


GOOD_ARRAYS = encode_arrays({"q": np.zeros((3, 2)), "lower": np.zeros((3, 2)), "upper": np.ones((3, 2))})
HEADERS = st.one_of(
    st.sampled_from(
        ["(3, 2)", "()", "(10**12,)", "(1000000000000,)", "(-1,)", "(2,)*9", "(9223372036854775807, 2)", "None"]
    ),
    st.text(max_size=6),
)
DTYPES = st.one_of(
    st.sampled_from(["<f8", "|O", "<U1000000000", "|V0", "|S0", ">f4", "<c16", "|b1", "<M8[ns]", "<f99", "[('a','<f8')]"]),
    st.text(max_size=4),
)
ARRAY_NAMES = st.sampled_from(
    ["q", "lower", "upper", "core/0", "order", "health/stuck", "../q", "t", "history/t", "history/self"]
)


@st.composite
def members(draw) -> bytes:
    """One npy: a header that says one thing and data that are another, or a true array of an odd kind."""
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(), (0,), (3, 2), (3,), (2, 3, 1)]))
        kind = draw(st.sampled_from(["f8", "f4", "i8", "u1", "c16", "U3", "S2", "?", "M8[s]"]))
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.zeros(shape, kind), allow_pickle=False)
        return buffer.getvalue()
    text = f"{{'descr': {draw(DTYPES)!r}, 'fortran_order': {draw(st.booleans())}, 'shape': {draw(HEADERS)}, }}"
    header = text.encode("utf-8", "replace")
    version = draw(st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"]))
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    return b"\x93NUMPY" + version + length + header + draw(st.binary(max_size=48))


@st.composite
def archives(draw, names: st.SearchStrategy[str] = ARRAY_NAMES) -> bytes:
    """A zip, stored or compressed, of odd arrays; perhaps edited afterwards."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")  # names that come twice
        for name in draw(st.lists(names, max_size=3)):
            kind = draw(st.sampled_from([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED]))
            archive.writestr(f"{name}.npy", draw(members()), kind)
    good = buffer.getvalue()
    return draw(edited(good)) if draw(st.booleans()) else good


def bomb() -> bytes:
    """1.6 GB of zeros in 1.6 MB."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("q.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (24 * 2**22, 2)})
        for _ in range(24):
            member.write(bytes(2**26))
    return buffer.getvalue()


GOOD_ROWS = encode_history(History(iteration=np.arange(5), residual=0.5 ** np.arange(5), seconds=np.arange(5.0)))
CELLS = st.one_of(
    st.sampled_from(["1", "-1", "nan", "inf", "True", "1e999", str(2**64), "-" + "9" * 30, "9" * 5000, "٣"]), TEXTS
)
TABLES = st.lists(st.lists(CELLS, max_size=4), max_size=4).map(
    lambda table: "\n".join(",".join(row) for row in table).encode("utf-8", "replace")
)
HISTORIES = st.one_of(edited(GOOD_ROWS), TABLES, st.binary(max_size=60), st.just(b"a" * 200_000), st.just(b'"' * 99))
ZIPS = st.one_of(edited(GOOD_ARRAYS), archives(), st.binary(max_size=60))


def signed(name: str, others: Mapping[str, bytes] = MappingProxyType({})) -> Callable[[Path, bytes], None]:
    """Puts a content into a folder as this file, signed, beside others: as somebody would write it who means harm."""
    return lambda folder, content: _write(folder, {**others, name: content})


def _as_arrays(folder: Path, content: bytes) -> None:
    """The same bytes as a checkpoint and as a result."""
    outcome = encode_json({"result": "done", "converged": True, "error": None})
    _write(folder, {"checkpoint.npz": content, "result.npz": content, "result.json": outcome})


def _as_manifest(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(encode_json(CONFIG))
    (folder / MANIFEST).write_bytes(content)


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    files = {"config.json": encode_json(CONFIG)} | contents
    for name, content in files.items():
        (folder / name).write_bytes(content)
    digests = {name: sha256(content) for name, content in files.items()}
    (folder / MANIFEST).write_bytes(Manifest(HASH, {"hamq": "0"}, digests).encode())


class Kind(NamedTuple):
    """Contents of a file, how they come into a folder, how many of them, and the word for a run that was read."""

    contents: st.SearchStrategy[bytes]
    put: Callable[[Path, bytes], None]
    number: int
    seen: Callable[[Run], str] = lambda run: "read"


KINDS = {
    "manifest": Kind(manifests(), _as_manifest, 30_000),
    "config": Kind(jsons(CONFIG), signed("config.json"), 20_000),
    "npz": Kind(ZIPS, _as_arrays, 40_000),
    "history": Kind(HISTORIES, signed("history.csv"), 10_000),
}


def main(is_quick: bool = False) -> dict:
    return fuzz_all(KINDS, is_quick, (("npz", bomb),))


def fuzz_all(kinds: Mapping[str, Kind], is_quick: bool, besides: Sequence[tuple[str, Callable[[], bytes]]] = ()) -> dict:
    """Cases of all kinds, then those `besides`, with little memory and time; what becomes of them."""
    began = time.monotonic()
    os.fsync = lambda descriptor: None  # the disk has its own parts
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        folder = Path(name) / "run"
        with RunFolder.create(folder, CONFIG, HASH) as run:
            run.save_checkpoint({"q": np.zeros((3, 2))}, History(iteration=np.arange(3)))
        share = 100 if is_quick else 1
        start = resident()
        with limited():
            found = {name: fuzz(name, kind, folder, max(100, kind.number // share)) for name, kind in kinds.items()}
            for kind, make in besides:
                found[kind][came_of(kinds[kind], folder, make())] += 1
        grown = resident() - start
    counts = sum(found.values(), Counter[str]())
    return {
        "seed": SEED,
        "cases": counts.total(),
        **counts,
        "other_errors": 0,
        "hangs": 0,
        "grown_megabytes": grown / 1e6,
        "readers": {kind: dict(one) for kind, one in found.items()},
        "seconds": time.monotonic() - began,
    }


def fuzz(name: str, kind: Kind, folder: Path, number: int) -> Counter[str]:
    found = Counter[str]()

    def case(content: bytes) -> None:
        found[came_of(kind, folder, content)] += 1

    rounds = 0
    while (missing := number - found.total()) > 0:  # hypothesis remembers what it tried: it starts again after ROUND
        rounds += 1
        options = settings(
            max_examples=min(ROUND, missing), database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        seed(1000 * SEED + rounds)(options(given(kind.contents)(case)))()
    say(f"{name}: {dict(found)}")
    return found


def came_of(kind: Kind, folder: Path, content: bytes) -> str:
    """What a reader made of a folder with this content; a writer who goes on may refuse it, and no more."""
    kind.put(folder, content)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        found = _refused_or(lambda: kind.seen(_read(folder)))
        _refused_or(lambda: _go_on(folder))
        return found
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _refused_or(reader: Callable[[], str]) -> str:
    try:
        return reader()
    except RunError as error:
        assert "; " in str(error) and str(error).endswith("."), error
        return "refused"


def _read(folder: Path) -> Run:
    run = read_run(folder)
    assert isinstance(run.config, dict) and len(run.history) >= 0
    assert run.q is None or (run.q.ndim == 2 and run.q.nbytes < ROOM)
    return run


def _go_on(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with RunFolder.resume(folder, CONFIG, HASH) as run:
            return "gone on" if run.load_checkpoint() else "begun"


class limited:
    """Memory and time of this process, while inside."""

    def __enter__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + ROOM, self._before[1]))
        self._handler = signal.signal(signal.SIGALRM, _hangs)

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self._before)
        signal.signal(signal.SIGALRM, self._handler)


def _hangs(*_: object) -> None:
    raise AssertionError(f"a reader took more than {PATIENCE} s")
