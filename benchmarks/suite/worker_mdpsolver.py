"""Runs in mdpsolver's environment (peers.py): rewards, rows and discount come as an npz, a run is one `solve` from 0."""

import json
import sys
import time
from importlib.metadata import version

import mdpsolver
import numpy as np

data = np.load(sys.argv[1])
began = time.perf_counter()
model = mdpsolver.model()
model.mdp(discount=float(data["discount"]), rewards=data["rewards"].tolist(), tranMatWithZeros=data["rows"].tolist())
# Without these a second solve goes on from the answer of the first.
start = {"initValueVector": [0.0] * len(data["rewards"]), "initPolicy": [0] * len(data["rewards"])}
versions = {"mdpsolver": version("mdpsolver")}
print(json.dumps({"setup_s": time.perf_counter() - began, "versions": versions}), flush=True)
for line in sys.stdin:
    settings = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    model.solve(**start, **settings)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    np.save(sys.argv[1] + ".out", np.asarray(model.getValueVector()))
    print(json.dumps(took), flush=True)
