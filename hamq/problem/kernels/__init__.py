"""Families of transition densities, one file each."""
