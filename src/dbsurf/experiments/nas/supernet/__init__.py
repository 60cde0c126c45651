"""Supernet search: shared weights, one path in memory, n paths a batch (appendix C.2)."""
