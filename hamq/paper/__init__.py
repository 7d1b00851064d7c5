"""The figures and claims of the paper, one declarative file each; no algorithm is here."""
