"""What pytest does not import where the extra ``integrations`` is not installed."""

from importlib.util import find_spec

NEEDS = {"language.py": "transformers", "trl.py": "trl", "pyro.py": "pyro"}
collect_ignore = [
    f"src/dbsurf/integrations/{file}" for file, needed in NEEDS.items() if find_spec(needed) is None
]
