"""One file per command: its options, its entry in `hamq --help` (`COMMAND`), and what it does (`run`).

A file that is put here is a command. What needs NumPy or JAX is imported inside of functions, so that help is quick.
"""
