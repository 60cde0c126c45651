"""The numbers of a storm, written into docs/reliability.md.

Run with `make storm MINUTES=30 OUT=docs/results/storm.json`, then `python
paper/studies/reliability.py`. A row of the page is what was tried; every failure is listed below.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pages import insert

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "docs" / "results" / "storm.json", ROOT / "docs" / "reliability.md"
HEADS = {
    "trials": "trials",
    "inputs": "inputs",
    "compared": "against an oracle",
    "kills": "kills",
    "faults": "faults",
    "wrong": "silently wrong",
    "lost": "lost",
    "unclear": "traceback or unclear",
}
KINDS = {
    "api": "random lines of Python",
    "oracle": "estimators",
    "sequences": "`dbsurf.sequences`",
    "processes": "several processes",
    "commands": "command line",
    "kills": "killed runs",
    "sweeps": "killed sweeps",
    "corruption": "damaged files",
    "surroundings": "bad surroundings",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=RESULTS, help="what a storm wrote")
    found = json.loads(parser.parse_args().file.read_text())
    insert(PAGE, "storm", text(found))


def text(found: dict[str, Any]) -> str:
    """What the page says of a storm: sums, the table, the joint test, failures."""
    rows = found["rows"]
    total = {name: sum(row[name] for row in rows) for name in HEADS}
    lines = [
        f"{found['minutes']:g} minutes with seed {found['seed']}, Python {found['python']}, torch "
        f"{found['torch']}: **{total['inputs']:,} inputs**, {total['compared']:,} of them with an "
        f"independent oracle behind the answer, **{total['kills']:,} kills**, {total['faults']:,} "
        f"faults of files, disks and clocks. **{total['wrong']} silently wrong, {total['lost']} "
        f"lost, {total['unclear']} tracebacks or unclear answers.**",
        "",
        f"| what | {' | '.join(HEADS.values())} |",
        "|---|" + "--:|" * len(HEADS),
    ]
    for kind, words in KINDS.items():
        for row in [row for row in rows if row["kind"] == kind]:
            numbers = " | ".join(f"{row[name]:,}" if row[name] else "–" for name in HEADS)
            lines.append(f"| {words}: {row['subject']} | {numbers} |")
    sums = " | ".join(f"**{total[name]:,}**" for name in HEADS)
    lines.append(f"| **all** | {sums} |")
    if found["cells"]:
        lines += [
            "",
            f"{found['estimates']:,} estimates were also tested together, in {found['cells']} "
            "pairs of an estimator and a setting. The mean error along the gradient was at most "
            f"{found['closest']['score']:.2f} times what chance allows for "
            f"({found['closest']['cell']}); a storm in which nothing is wrong fails with "
            f"probability {found['failure rate']:g} or less.",
        ]
    for failure in found["failures"]:
        lines += ["", "```text", failure, "```"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
