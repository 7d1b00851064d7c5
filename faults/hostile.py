"""Names that want to be more than names: in problems, folders and run folders from elsewhere. They stay text.

HTML in pages, escape sequences in terminals, formulas in tables, and paths that lead out of the folder, as file names,
digests or links in a run folder that somebody else made.
"""

import dataclasses
import html.parser
import io
import itertools
import os
import tempfile
import time
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from faults.progress import say
from hamq.cli import main as hamq
from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.encoding import decode, encode_json
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import MANIFEST, _signed, read_manifest, sha256
from hamq.runs.reading import read_run

ATTACKS = {
    "HTML": "</script><img src=x onerror=alert(1)>\"'&{{data}}<!--",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1A\r\x08\u202eevil",
    "formula": '=HYPERLINK("http://x","y")+@cmd|\' /C calc\'!A0',
    "markup": "[bold red]x[/] [link=http://x]y[/link] :smile:",
    "lines": "done.\nhamq: all is well",
}
PROBLEM = """
import jax.numpy as jnp
import hamq

def make():
    return hamq.Problem(
        grid=hamq.Grid([-1.0] * 2, [1.0] * 2, [3, 4]),
        actions=jnp.array([-1.0, 0.5, 1.0]),
        kernel=hamq.GaussianKernel(mean=lambda s, a: 0.9 * s + 0.2 * a, covariance=[0.05] * 2),
        reward=lambda s, a: -jnp.sum(s**2) - 0.1 * a,
        discount=0.8,
        name={name!r},
        axis_names=[{name!r} + str(i) for i in range(2)],
    )
"""
OPEN = {"img", "iframe", "object", "embed", "a", "link", "form", "base"}
"""Elements that no page of hamq has."""
BAD_NAMES = ("../outside.json", "/etc/passwd", "a/b.json", "..", "config.json/../../outside.json", "Config.JSON", "x.npz\n")
BAD_DIGESTS = ("../../outside", "/outside", "", "AB" * 32, "ab" * 31, "é" * 64)


def main(is_quick: bool = False) -> dict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        outputs = sum(
            show_names(root, kind, attack) for kind, attack in ATTACKS.items() if not is_quick or kind == "terminal"
        )
        say(f"{outputs} outputs and pages with {len(ATTACKS)} kinds of hostile names are inert")
        paths = lead_out(root)
        say(f"{paths} run folders whose names, digests or links lead out of them are refused, and nothing outside changed")
    return {"attacks": list(ATTACKS), "outputs": outputs, "paths": paths, "seconds": time.monotonic() - began}


def show_names(root: Path, kind: str, attack: str) -> int:
    """Everything that is printed and written about a problem and a folder of this name."""
    (root / f"{kind}.py").write_text(PROBLEM.format(name=attack), encoding="utf-8")
    folder = root / attack.replace("/", "").replace("\x00", "")
    made = f"{root / kind}.py:make"
    words = ["--sampler", "exhaustive", "--completion", "none", "--iterations", "3", "--exact"]
    commands = [
        ["solve", made, *words, "--out", folder, "--report"],
        ["solve", made, *words, "--out", folder],  # refused
        ["exact", made, "--json"],
        ["show", folder],
        ["show", folder, "--json"],
        ["compare", folder],
        ["compare", folder, "--json"],
        ["plot", folder, "-o", f"{folder}/plot.png"],
        ["report", folder, "-o", folder / "page.html"],
        ["show", folder / attack.replace("/", "")],  # refused
        ["solve", f"{made}{attack}"],  # refused
        ["solve", made, "--set", f"{attack}=1"],  # refused
    ]
    for command in commands:
        printed = _printed([str(word) for word in command])
        require_inert(printed, str(command))
    for page in (folder / "report.html", folder / "page.html"):
        require_text(page.read_text(encoding="utf-8"), attack)
    require_plain_csv(folder / "history.csv")
    forged = _forged(folder, attack)
    for command in (["show", forged], ["compare", forged], ["report", forged, "-o", root / f"{kind}.html"]):
        require_inert(_printed([str(word) for word in command]), f"forged: {command}")
    require_text((root / f"{kind}.html").read_text(encoding="utf-8"), attack)
    return len(commands) + 3 + 3 + 1


def _printed(words: list[str]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        hamq(words)
    return out.getvalue()


def require_inert(printed: str, what: str) -> None:
    steering = [c for c in printed if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert not steering, f"{what} printed {steering[0]!r}: {printed!r}"
    assert "😄" not in printed and "Traceback" not in printed, f"{what}: {printed}"


class Elements(html.parser.HTMLParser):
    """Names of all elements, and attributes that run something."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [tag, *(name for name, _ in attrs if name.startswith("on"))]


def require_text(page: str, attack: str) -> None:
    elements = Elements()
    elements.feed(page)
    wrong = [name for name in elements.found if name in OPEN or name.startswith("on")]
    assert not wrong, f"{attack!r} made {wrong}"


def require_plain_csv(path: Path) -> None:
    """Cells are numbers, and the names of columns are words: nothing that a spreadsheet would compute."""
    header, *rows = path.read_text().splitlines()
    assert all(name.isidentifier() for name in header.split(","))
    for cell in itertools.chain.from_iterable(row.split(",") for row in rows):
        float(cell)


def _forged(folder: Path, attack: str) -> Path:
    """The run with the attack in every text of its config, result and versions, signed."""
    copy = folder.with_name("forged " + folder.name)
    copy.mkdir()
    run, manifest = read_run(folder), read_manifest(folder)
    contents = {name: storage.read_verified(folder, manifest, name) for name in manifest.files}
    config = run.config | {"seed": attack, attack: attack}
    result = decode(folder, "result.json", contents["result.json"]) | {"result": attack, attack: attack}
    contents |= {"config.json": encode_json(config), "result.json": encode_json(result)}
    for name, content in contents.items():
        (copy / name).write_bytes(content)
    files = {name: sha256(content) for name, content in contents.items()}
    forged = dataclasses.replace(manifest, versions={attack: attack, "hamq": attack}, files=files)
    (copy / MANIFEST).write_bytes(forged.encode())
    return copy


def lead_out(root: Path) -> int:
    outside = root / "outside.json"
    outside.write_text("{}")
    before = {path: path.read_bytes() for path in root.iterdir() if path.is_file()}
    count = 0
    true = sha256(outside.read_bytes())  # so that what lies outside would be read, if anything were
    for name, digest in [*((name, true) for name in BAD_NAMES), *(("history.csv", digest) for digest in BAD_DIGESTS)]:
        folder = root / f"paths{count}"
        RunFolder.create(folder, {"seed": 0}, "ab" * 32).close()
        body = {"format": "hamq run folder", "version": 1, **dataclasses.asdict(read_manifest(folder))}
        body["files"] |= {name: digest}
        (folder / MANIFEST).write_bytes(_signed(body))
        require_refused(folder)
        count += 1
    for name in ("hamq.lock", "config.json.next", "manifest.json.next", "history.csv.next"):
        folder = root / f"paths{count}"
        RunFolder.create(folder, {"seed": 0}, "ab" * 32).close()
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
        try:
            RunFolder.resume(folder, {"seed": 0}, "ab" * 32).close()
        except RunError:
            assert name == "hamq.lock"
        count += 1
    for name in ("config.json", MANIFEST):
        folder = root / f"paths{count}"
        RunFolder.create(folder, {"seed": 0}, "ab" * 32).close()
        (folder / name).unlink()
        os.mkfifo(folder / name)
        require_refused(folder)
        count += 1
    assert {path: path.read_bytes() for path in before} == before, "something outside of the folder changed"
    return count


def require_refused(folder: Path) -> None:
    for reader in (read_run, lambda path: RunFolder.resume(path, {"seed": 0}, "ab" * 32).close()):
        try:
            reader(folder)
        except RunError:
            continue
        raise AssertionError(f"{folder} was read: {read_manifest(folder)}")
