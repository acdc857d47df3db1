"""Scripts for the Makefile.

The modules that install packages use only the standard library, because they run before anything is installed.
"""

import sys

# Python reads this file first, and even an old Python can parse it.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("missing: Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11 …")
