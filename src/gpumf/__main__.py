"""`python -m gpumf`, and the command `gpumf`."""

import sys


def main() -> int:
    """Run `gpumf.command_line.main`; return 130 also where its imports are interrupted."""
    try:
        from gpumf import command_line
    except KeyboardInterrupt:
        return 130
    return command_line.main()


if __name__ == "__main__":
    sys.exit(main())
