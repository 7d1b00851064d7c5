"""The reference: the Bellman operator in float64, value iteration between certified bounds, and the value of a policy."""
