"""`python -m hamq`: the command line."""

from hamq.cli import command

if __name__ == "__main__":
    command()
