"""`python -m hamq`: the command line."""

import sys

from hamq.cli import main

sys.exit(main())
