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
    ["errors", "notebook"],
    ["types"],
    ["problem"],
    ["solution"],
    ["sampling", "completion", "exact"],
    ["learning", "tensor"],
    ["control"],
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
MAY_IMPORT_LATE = {"cli", "solution"}  # solution: its methods are what higher layers do with it
CLIENTS = {"cli"}
"""Who calls the public names, as users do."""
MAX_LINES, MAX_FUNCTION = 400, 60
LONG_FUNCTIONS = {("learning/q_iteration.py", "solve"): "its text explains every argument"}
OPEN = {"problem/kernels": ("Kernel", "Density"), "sampling": "AbstractSampler", "completion": "AbstractCompletion"}
"""Folders that alone know the types which they define: classes of these names, or with this one below them."""
MAY_ASK_FOR_TYPES = {
    ("problem/problem.py", "AbstractKernel"): "the door: what is no kernel at all is refused there, by its name",
    ("cli/commands/diagnose.py", "HMC"): "the kind that config.json names: its settings are taken over by an HMC of our own",
    ("learning/settings.py", "AbstractCompletion"): "the door of solve",
    ("learning/settings.py", "AbstractSampler"): "the door of solve",
    ("tensor/settings.py", "AbstractSampler"): "the door of solve_tensor",
}
FILES_THAT_IMPORT_LATE = {
    "certificates/evidence.py": "a method of certify, by the name that help and run folders have for it",
    "deep/__init__.py": "the public names: its settings can be read without optax",
    "runs/naming.py": "the user's own module, by the name that a run keeps",
    "report/__init__.py": "the function of the name of the folder",
}
ENDS = {"sys.exit", "os._exit", "os.abort", "quit", "exit"}
MAY_END = {"cli"}


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


def refusals(tree: ast.AST) -> Iterator[int]:
    """Lines that raise an error which the command line would take for a bug: users get HamqError, or a subclass of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(made, ast.Name) and made.id in ("ValueError", "Exception", "ImportError"):
                yield node.lineno


def endings(tree: ast.AST) -> Iterator[int]:
    """Lines that name what ends the process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ENDS:
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
            if target == "hamq" and layer in CLIENTS:
                continue
            if target not in HEIGHT:
                found.append(f"{path}:{line}: imports {target} through the package")
            elif target != layer and HEIGHT[target] >= HEIGHT[layer]:
                found.append(f"{path}:{line}: {layer} imports {target}")
        elif top in HEAVY and layer not in MAY_BE_HEAVY:
            found.append(f"{path}:{line}: {layer} imports {top}")
    found += [f"{path}:{line}: raises what is no HamqError" for line in refusals(tree)]
    if layer not in MAY_END:
        found += [f"{path}:{line}: ends the process" for line in endings(tree)]
    if layer not in MAY_IMPORT_LATE and str(path) not in FILES_THAT_IMPORT_LATE:
        found += [f"{path}:{line}: import inside a function" for line in sorted(set(late_imports(tree)))]
    return found


def open_types(folder: str) -> set[str]:
    """Names of the classes of a folder that nobody outside of it may ask for."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (PACKAGE / folder).glob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    of = OPEN[folder]
    if isinstance(of, tuple):
        return {node.name for node in classes if node.name.endswith(of)}
    return {of} | {node.name for node in classes if of in [getattr(base, "id", "") for base in node.bases]}


TYPES = {folder: open_types(folder) for folder in OPEN}


def asked_types(source: str, types: set[str]) -> list[tuple[int, str]]:
    """(line, class) of every question for one of these types: isinstance, issubclass, match, type(x) is C."""
    found = []
    for node in ast.walk(ast.parse(source)):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = list(node.args[1:])
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        for part in asked:
            for name in ast.walk(part):
                spelt = getattr(name, "id", getattr(name, "attr", getattr(name, "value", "")))
                if isinstance(spelt, str) and spelt in types:
                    found.append((node.lineno, spelt))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_nobody_asks_for_the_type_of_what_is_open(file):
    path = file.relative_to(PACKAGE)
    types = set().union(*(TYPES[folder] for folder in OPEN if Path(folder) not in path.parents))
    asked = asked_types(file.read_text(encoding="utf-8"), types)
    assert [(line, name) for line, name in asked if (path.as_posix(), name) not in MAY_ASK_FOR_TYPES] == []


def test_exceptions_are_used():
    for path, name in MAY_ASK_FOR_TYPES:
        assert name in [asked for _, asked in asked_types((PACKAGE / path).read_text(encoding="utf-8"), {name})]


def test_the_types_are_found():
    assert {"AbstractKernel", "GaussianKernel", "ProductDensity"} <= TYPES["problem/kernels"]
    assert TYPES["completion"] == {"AbstractCompletion", "Anchors", "Cross", "Keep", "NuclearNorm", "SoftImpute"}
    assert TYPES["sampling"] == {"AbstractSampler", "Exhaustive", "HMC", "IID", "Importance"}


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(kernel, GaussianKernel)",
        "isinstance(density, (int, ProductDensity))",
        "isinstance(kernel, gaussian.GaussianKernel | None)",
        "issubclass(type(kernel), AbstractKernel)",
        "type(kernel) is UnnormalizedKernel",
        "type(kernel).__name__ == 'GaussianKernel'",
        "match kernel:\n    case GaussianKernel():\n        pass",
        "isinstance(sampler, HMC)",
        "isinstance(sampler, (IID, int))",
        "settings.completion != Anchors()",
    ],
)
def test_questions_for_types_are_seen(source):
    assert len(asked_types(source, set().union(*TYPES.values()))) == 1


def test_there_is_something_to_check():
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_layers(file):
    assert violations(file.read_text(encoding="utf-8"), file.relative_to(PACKAGE)) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_small_files_with_names(file):
    assert file.name not in ("utils.py", "base.py")
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def too_long(source: str) -> list[str]:
    """Functions of more than MAX_FUNCTION lines."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION]


def test_functions_are_short():
    found = {(file.relative_to(PACKAGE).as_posix(), name) for file in FILES for name in too_long(file.read_text("utf-8"))}
    assert found <= LONG_FUNCTIONS.keys()
    assert too_long("def f():\n" + "    pass\n" * MAX_FUNCTION) == ["f"]


def test_every_folder_says_what_it_is():
    for file in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(file.read_text("utf-8"))), file


def test_imports_make_no_circle():
    names = {file: ["hamq", *file.relative_to(PACKAGE).with_suffix("").parts] for file in FILES}
    known = {tuple(name[:-1] if name[-1] == "__init__" else name): file for file, name in names.items()}
    below = {}
    for file, name in names.items():
        at_once = ast.Module([n for n in ast.parse(file.read_text("utf-8")).body if not isinstance(n, ast.If)], [])
        targets = [tuple(target) for _, target in imported(at_once, name)]
        below[file] = {known.get(target) or known.get(target[:-1]) for target in targets if len(target) > 1} - {file, None}
    while below:  # takes away who imports nobody that is left
        leaves = [file for file, others in below.items() if not others & below.keys()]
        assert leaves, sorted(str(file.relative_to(PACKAGE)) for file in below)
        for file in leaves:
            del below[file]


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
        ("runs/folder.py", "import sys\nsys.exit(1)"),  # the caller's process
        ("learning/devices.py", "import os\ndef f(end=os._exit):\n    pass"),
        ("problem/grid.py", "raise ValueError('no')"),  # not for users
        ("problem/grid.py", "def f():\n    raise ImportError from None"),
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
        ("cli/entry.py", "import os\nos._exit(1)"),
        ("cli/commands/certify.py", "import hamq\nhamq.certify"),
        ("problem/grid.py", "try:\n    pass\nexcept ValueError as error:\n    raise HamqError('no') from error"),
        ("deep/dqn.py", "import optax\nfrom hamq.certificates import bounds"),
        ("paper/figure1.py", "import matplotlib\nfrom hamq import report"),
    ],
)
def test_checker_allows(path, source):
    assert violations(source, Path(path)) == []
