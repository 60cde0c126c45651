"""Runs of experiments: their folders, checkpoints, records and processes."""
