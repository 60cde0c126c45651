"""``python -m dbsurf_paper`` is the command ``dbsurf``."""

from dbsurf_start import main

raise SystemExit(main())
