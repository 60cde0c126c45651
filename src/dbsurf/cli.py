"""The command line's former home, for scripts that call ``python -m dbsurf.cli``."""

from dbsurf.commands.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
