"""The manifest of a run folder: which contents count.

A file is part of the run if, and only if, the manifest names it and its SHA-256. Renaming a new manifest into place is
therefore the one instant at which a run changes; storage.py has the order of the steps round it. The manifest carries a
SHA-256 of itself, and is read only if writing what was read gives the same bytes: no flipped bit passes.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

from hamq.errors import RunError, damaged
from hamq.types import HamqError

MANIFEST = "manifest.json"
FORMAT = "hamq run folder"
FORMAT_VERSION = 1
NAME = re.compile(r"[a-z]+\.(json|csv|npz)")
DIGEST = re.compile(r"[0-9a-f]{64}")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox")


@dataclasses.dataclass(frozen=True)
class Manifest:
    """`problem`: its hash. `versions`: of the packages that last wrote. `files`: SHA-256 by file name."""

    problem: str
    versions: dict[str, str]
    files: dict[str, str]

    def encode(self) -> bytes:
        return _signed({"format": FORMAT, "version": FORMAT_VERSION, **dataclasses.asdict(self)})


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest as it is on disk; RunError if there is none, or not a sound one."""
    try:
        if (folder / MANIFEST).exists() and not (folder / MANIFEST).is_file():  # a pipe would be waited for
            raise damaged(folder, MANIFEST, "it is not a file")
        content = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{folder} is not a run folder: it has no {MANIFEST}; give the --out folder of a run.") from error
    except OSError as error:
        raise RunError(f"{MANIFEST} of {folder} cannot be read: {error.strerror}; check its permissions.") from error
    try:
        found = json.loads(content)
        if _signed({key: value for key, value in found.items() if key != "sha256"}) != content:
            raise HamqError("its SHA-256 does not fit its content")
        if found["format"] != FORMAT:
            raise HamqError(f"its format is {found['format']!r}, not {FORMAT!r}")
    except (ValueError, AttributeError, KeyError, RecursionError) as error:
        raise damaged(folder, MANIFEST, error) from error
    if found.get("version") != FORMAT_VERSION:
        raise RunError(
            f"{folder} has format version {found.get('version')!r:.20} and this hamq reads {FORMAT_VERSION}; "
            "read it with the hamq that wrote it."
        )
    if found.keys() != {"format", "version", "sha256", *(field.name for field in dataclasses.fields(Manifest))}:
        raise damaged(folder, MANIFEST, "it has other fields than a manifest")
    if not _is_plain(found["problem"], found["versions"], found["files"]):
        raise damaged(folder, MANIFEST, "it does not name files of the folder with their SHA-256")
    return Manifest(found["problem"], found["versions"], found["files"])


def _is_plain(problem: Any, versions: Any, files: Any) -> bool:
    """Whether all are texts, and no name or digest leads out of the folder: both become parts of paths."""
    if not (isinstance(problem, str) and isinstance(versions, dict) and isinstance(files, dict)):
        return False
    if not all(isinstance(text, str) for text in (*versions.values(), *files.values())):
        return False
    return all(NAME.fullmatch(name) and DIGEST.fullmatch(digest) for name, digest in files.items())


@functools.cache
def package_versions() -> dict[str, str]:
    """The versions that this process runs with; hamq's from itself, for it may run from a checkout."""
    installed = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"hamq": sys.modules["hamq"].__version__, **installed, "python": platform.python_version()}


def _signed(body: dict[str, Any]) -> bytes:
    digest = sha256(json.dumps(body).encode())
    return (json.dumps(body | {"sha256": digest}, indent=2) + "\n").encode()
