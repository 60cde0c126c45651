"""The storm kit: seeded trials of everything that can go wrong. See docs/reliability.md.

Every kind of trial is a module with ``LIMIT`` (seconds that a trial may take) and
``trial(draw, place)``, which does one trial with the random numbers of ``draw`` in the folder
``place`` and returns a `Result`. The runner is ``python -m storm`` (with ``tests`` in the path).
"""
