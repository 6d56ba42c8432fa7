"""`python -m gpumf`, and the command `gpumf`."""

import sys

from gpumf.command_line import main

if __name__ == "__main__":
    sys.exit(main())
