"""`hamq paper list`; everything else that `hamq paper` does is in reproduce.py, which imports JAX and matplotlib."""

import importlib

from hamq.cli.options import FIGURES
from hamq.cli.parsing import Request
from hamq.cli.tables import make_console, make_table


def run(request: Request) -> int:
    if "list" not in request.words:
        return importlib.import_module("hamq.cli.reproduce").run(request)
    table = make_table(("figure", "shows"), ("figure", "shows"))
    for name, title in FIGURES.items():
        table.add_row(name, title)
    make_console().print(table)
    print("hamq paper all --quick takes minutes; hamq paper --help shows the options.")
    return 0
