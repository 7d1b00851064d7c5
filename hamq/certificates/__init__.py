"""Error bounds of a table, chain diagnostics, the comparison with the exact answer, and the paper's bounds."""
