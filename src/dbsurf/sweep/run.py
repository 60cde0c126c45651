"""One run of a sweep: a frozen configuration and the folder that its hash names."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from dbsurf.experiments.registry import experiment
from dbsurf.runs.checkpoint import NEWEST
from dbsurf.runs.experiment import Experiment
from dbsurf.runs.folder import read_summary
from dbsurf.runs.options import config_hash

Standing = Literal["done", "resume", "new"]


@dataclass(frozen=True)
class Run:
    """What is to be computed, and where.

    Attributes:
        experiment: name of the experiment in the registry.
        options: its options, with the run's own folder as ``out``.
        label: in what it differs from the sweep's other runs.
    """

    experiment: str
    options: Any
    label: str

    @property
    def folder(self) -> Path:
        """Of the results: the sweep's folder, then the experiment and the hash."""
        out: Path = self.options.out
        return out

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        """File whose lock is the right to work on the run.

        It lies beside the run folder: an experiment may replace that as a whole.
        """
        return self.folder.parent / "locks" / self.name

    @property
    def log(self) -> Path:
        """Everything the run prints."""
        return self.folder.parent / "logs" / f"{self.name}.log"

    @property
    def steps(self) -> int | None:
        """Steps in all, if that is known beforehand."""
        return self.options.config().get("steps") or None

    def standing(self) -> Standing:
        """What there is of it on the disk. Damaged results count as none: they are made again."""
        try:
            if read_summary(self.folder) is not None:
                return "done"
        except (ValueError, OSError):
            pass  # the run itself names the file, in its log
        return "resume" if (self.folder / NEWEST).exists() else "new"

    def words(self) -> list[str]:
        """The command that does this run alone."""
        record = experiment(self.experiment)
        base = record.presets.get(str(getattr(self.options, "preset", None)))
        return ["dbsurf", *record.command.split(" "), *option_words(self.options, base)]

    def command(self) -> str:
        """`words` for a shell."""
        return shlex.join(self.words())


def placed(record: Experiment, options: Any, out: Path, label: str = "") -> Run:
    """The run of ``options`` in its folder under ``out``, to be resumed if it is there.

    The folder's name depends on what the run computes and on nothing else: some words for readers,
    then a hash of the configuration. A folder of an older version has the hash alone.
    """
    code = config_hash(record.group, options.config())
    words = with_fields(options, out=None).folder().name
    name = f"{record.name}-{words}-{code}"
    if (out / f"{record.group}-{code}").is_dir():
        name = f"{record.group}-{code}"
    return Run(record.name, with_fields(options, out=out / name, resume=True), label)


def with_fields(options: Any, **values: Any) -> Any:
    """A copy of ``options`` with those of the ``values`` that it has a field for."""
    known = {item.name for item in fields(options)}
    return replace(options, **{name: value for name, value in values.items() if name in known})


def option_words(options: Any, base: Any = None) -> list[str]:
    """The command line of ``options``: every field that is not at its default.

    Args:
        options: a dataclass.
        base: where the defaults come from, if its preset has others than its class.
    """
    found: list[str] = []
    for item in fields(options):
        value = getattr(options, item.name)
        default = item.default
        if base is not None and item.name != "preset":
            default = getattr(base, item.name)
        if default is MISSING or value == default:
            continue  # the first: what has no default stands without a name
        flag = f"--{item.name.replace('_', '-')}"
        if isinstance(value, bool):
            found.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            found += [flag, *map(str, value)]
        else:
            found += [flag, str(value)]
    return found
