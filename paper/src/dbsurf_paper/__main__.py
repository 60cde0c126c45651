"""``python -m dbsurf_paper`` is the command ``dbsurf``."""

from dbsurf_paper.commands.main import main

raise SystemExit(main())
