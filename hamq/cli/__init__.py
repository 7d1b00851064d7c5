"""The command `hamq`: parsing and printing only. What a command needs is imported when it runs, JAX included."""

from hamq.cli.entry import command as command
from hamq.cli.entry import main as main
