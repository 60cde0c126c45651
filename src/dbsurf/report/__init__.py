"""One page from whatever runs there are: tables, figures, and where each number comes from."""
