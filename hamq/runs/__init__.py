"""Run folders: what was asked for and found, checkpoints, and the solvers that write and continue them."""
