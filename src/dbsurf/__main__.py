"""``python -m dbsurf`` is the command ``dbsurf``."""

from dbsurf_start import main

raise SystemExit(main())
