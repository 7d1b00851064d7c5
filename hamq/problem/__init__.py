"""What is solved: grids, kernels, the law of the next state, and the zoo of problems."""
