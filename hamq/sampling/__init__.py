"""Draws of the next state of one pair of a state and an action."""
