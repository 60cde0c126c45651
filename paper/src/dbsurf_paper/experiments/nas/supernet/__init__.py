"""Supernet search: all cells share weights, and each step trains n sampled ones."""
