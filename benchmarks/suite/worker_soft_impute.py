"""Runs in the environment of a soft-impute code, see peers.py: values and mask come as an npz, a run is one completion."""

import contextlib
import json
import sys
import time
from importlib.metadata import PackageNotFoundError, version

import numpy as np

MAX_ITERATIONS = 20_000


def causaltensor(values, mask, penalty, threshold):
    from causaltensor.cauest.MCNNM import soft_impute

    return soft_impute(values, mask.astype(float), penalty, eps=threshold, max_iter=MAX_ITERATIONS)


def fancyimpute(values, mask, penalty, threshold):
    from fancyimpute import SoftImpute

    code = SoftImpute(shrinkage_value=penalty, convergence_threshold=threshold, max_iters=MAX_ITERATIONS, verbose=False)
    return code.fit_transform(np.where(mask, values, np.nan))


def minimiser(name, result, penalty):
    """fancyimpute gives back the observed entries as they were: one more shrinkage (not timed) is the table it means."""
    if name != "fancyimpute":
        return result
    u, s, v = np.linalg.svd(result, full_matrices=False)
    return (u * np.maximum(s - penalty, 0)) @ v


def installed(names):
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


data = np.load(sys.argv[1])
values, mask = data["values"], data["mask"]
code = {"causaltensor": causaltensor, "fancyimpute": fancyimpute}[str(data["code"])]
code(values[:40], mask[:40], 1.0, 1e-2)  # imports and first calls
print(json.dumps({"versions": dict(installed(("causaltensor", "fancyimpute", "scikit-learn")))}), flush=True)
for line in sys.stdin:
    settings = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    result = code(values, mask, settings["penalty"], settings["threshold"])
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    np.save(sys.argv[1] + ".out", minimiser(code.__name__, result, settings["penalty"]))
    print(json.dumps(took), flush=True)
