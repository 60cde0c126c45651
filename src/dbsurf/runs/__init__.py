"""Where the results of experiments live on disk."""
