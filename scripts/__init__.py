"""What the Makefile runs. Standard library only: these scripts exist before anything is installed."""

import sys

# Here, because this file is the first to be read and even an old Python can read it.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("missing: Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11 …")
