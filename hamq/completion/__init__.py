"""The entries of Q that were not backed up, from those that were."""
