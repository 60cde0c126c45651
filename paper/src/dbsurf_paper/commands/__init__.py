"""The ``dbsurf`` command. Each subcommand is a frozen dataclass of options and a function."""
