"""One page about a set of runs: tables, figures, and the command behind every number."""
