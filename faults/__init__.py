"""The fault campaign: what happens to runs when machines, disks, people and other programs do their worst.

`python -m faults.run` (or `make faults`) carries it out and writes docs/reliability.md. One file per part; each has a
`main(is_quick) -> dict` whose dict goes into the record, and fails with an AssertionError where hamq does.
"""
