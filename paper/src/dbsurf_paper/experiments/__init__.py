"""The experiments of the paper, one folder each. They use the library's public names only."""
