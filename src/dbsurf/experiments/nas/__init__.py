"""Neural architecture search on NAS-Bench-201 (section 4.3, appendix C.2, table 2)."""
