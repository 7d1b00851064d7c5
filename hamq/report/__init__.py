"""Pictures and self-contained pages of solutions and run folders; computes nothing.

The folder has the name of the function `hamq.report`, so it can be called as well: `writing.report` answers.
"""

import importlib
import sys
import types
from typing import Any


class _Report(types.ModuleType):
    def __call__(self, what: Any, path: Any, **options: Any) -> Any:
        return importlib.import_module("hamq.report.writing").report(what, path, **options)


sys.modules[__name__].__class__ = _Report
