"""Imports inside hamq point one way, heavy extras stay at the edge, and files stay small."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hamq"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom to the top. A layer imports itself and what is below; siblings do not know each other.
ORDER = [
    ["types"],
    ["problem"],
    ["sampling", "completion", "exact"],
    ["learning", "tensor"],
    ["certificates"],
    ["deep", "envs", "runs"],
    ["report"],
    ["paper"],
    ["cli"],
    ["__main__"],
]
HEIGHT = {layer: height for height, layers in enumerate(ORDER) for layer in layers}
HEAVY = {"matplotlib", "gymnasium", "optax", "mujoco", "tensorboardX"}
MAY_BE_HEAVY = {"deep", "envs", "report", "paper"}
MAY_IMPORT_LATE = {"cli"}
MAX_LINES = 400


def imported(tree: ast.AST, module: list[str]) -> Iterator[tuple[int, list[str]]]:
    """(line, dotted name) of everything that a file imports; `module`: where relative imports start from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            start = module[: len(module) - node.level] if node.level else []
            source = start + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield node.lineno, [*source, alias.name]


def late_imports(tree: ast.AST) -> Iterator[int]:
    """Lines of imports inside functions, `import_module` and `__import__` included."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno
                elif isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if name in ("import_module", "__import__"):
                        yield node.lineno


def violations(source: str, path: Path) -> list[str]:
    """What the file at `path`, relative to hamq/, does against the rules."""
    if path == Path("__init__.py"):  # the lazy public names
        return []
    module = ["hamq", *path.with_suffix("").parts]
    layer = module[1]
    if layer not in HEIGHT:
        return [f"{path}: {layer} is not a layer of ORDER"]
    tree = ast.parse(source)
    found = []
    for line, (top, *rest) in imported(tree, module):
        if top == "hamq":
            target = rest[0] if rest else "hamq"
            if target not in HEIGHT:
                found.append(f"{path}:{line}: imports {target} through the package")
            elif target != layer and HEIGHT[target] >= HEIGHT[layer]:
                found.append(f"{path}:{line}: {layer} imports {target}")
        elif top in HEAVY and layer not in MAY_BE_HEAVY:
            found.append(f"{path}:{line}: {layer} imports {top}")
    if layer not in MAY_IMPORT_LATE:
        found += [f"{path}:{line}: import inside a function" for line in sorted(set(late_imports(tree)))]
    return found


def test_there_is_something_to_check():
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_layers(file):
    assert violations(file.read_text(encoding="utf-8"), file.relative_to(PACKAGE)) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_small_files_with_names(file):
    assert file.name not in ("utils.py", "base.py")
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("problem/grid.py", "from hamq.sampling.hmc import HMC"),  # upward
        ("problem/grid.py", "import hamq.learning"),
        ("problem/grid.py", "from hamq import sampling"),
        ("problem/zoo/cartpole.py", "from ...sampling import hmc"),
        ("problem/__init__.py", "from ..exact import sweeps"),
        ("types.py", "from .problem import Grid"),
        ("types.py", "import typing\nif typing.TYPE_CHECKING:\n    from hamq.cli import main"),
        ("sampling/hmc.py", "from hamq.exact.sweeps import sweep"),  # sideways
        ("learning/backup.py", "from hamq.tensor import train"),
        ("deep/dqn.py", "from hamq.envs import cartpole"),
        ("problem/grid.py", "import hamq"),  # through the roof
        ("problem/grid.py", "from hamq import Grid"),
        ("exact/sweeps.py", "def f():\n    import numpy"),  # late
        ("sampling/modes.py", "def f():\n    import numpy"),
        ("exact/sweeps.py", "class C:\n    def f(self):\n        from hamq.problem import grid"),
        ("exact/sweeps.py", "def f():\n    return importlib.import_module('hamq.cli')"),
        ("runs/folder.py", "import matplotlib.pyplot as plt"),  # heavy
        ("learning/backup.py", "from optax import adam"),
        ("helpers.py", ""),  # nowhere
    ],
)
def test_checker_sees(path, source):
    assert len(violations(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "def __getattr__(name):\n    import hamq.cli"),
        ("cli.py", "def main():\n    from hamq.report import page"),
        ("sampling/hmc.py", "from .leapfrog import step\nfrom ..problem.grid import Grid\nimport hamq.types"),
        ("problem/zoo/__init__.py", "from .cartpole import cartpole\nfrom ..grid import Grid"),
        ("problem/__init__.py", "from .grid import Grid"),
        ("deep/dqn.py", "import optax\nfrom hamq.certificates import bounds"),
        ("paper/figure1.py", "import matplotlib\nfrom hamq import report"),
    ],
)
def test_checker_allows(path, source):
    assert violations(source, Path(path)) == []
