"""Algorithm 1, and the only place that draws for many pairs at once."""
