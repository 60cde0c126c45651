"""``dbsurf completion SHELL``: the script that lets a shell complete this command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from dbsurf.cli import LOOK, every_command


@dataclass(frozen=True)
class Options:
    """Print the script by which bash, zsh or fish completes this command line."""

    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="{bash,zsh,fish}"),
    ]
    """Which shell it is for; "Command line" in the documentation says where to put it."""


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Print the script."""
    words = ["--tyro-write-completion", options.shell, "-"]
    try:
        tyro.cli(every_command(), args=words, prog="dbsurf", config=LOOK)
    except SystemExit as done:  # tyro stops after printing; here nothing is wrong with 0
        if done.code:
            raise
