"""Command lines that no machine can do end in one line, before anything is computed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dbsurf_paper.commands.main import main, out_of_memory

SUPERNET = ["nas", "supernet", "--dataset", "digits"]
TABLE = ["nas", "table", "--dataset", "synthetic"]
HUGE = "99999999999999"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *[
            ([*command, "--estimator-options", text], "must not name n, name, validate")
            for command in (["vae"], TABLE, SUPERNET)
            for text in ("validate=false", "n=3", "name=x")
        ],
        (["vae", "--n", "2147483648"], "n must be at most 65536, got 2147483648"),
        ([*TABLE, "--n", "2147483648"], "n must be at most 65536"),
        ([*SUPERNET, "--n", "2147483648"], "n must be at most 65536"),
        (["vae", "--hidden", HUGE], "hidden must be at most"),
        (["vae", "--hidden", "900000"], "must fit into the memory of this machine"),
        (["vae", "--batch", "1000000", "--n", "60000"], "must fit into the memory"),
        ([*TABLE, "--steps", "1000000000", "--n", "60000"], "must fit into the memory"),
        (["vae", "--latents", HUGE], "latents must be at most"),
        (["vae", "--steps", "9" * 30], "steps must be at most"),
        (["vae", "--seed", "9" * 30], "seed must be at most"),
        (["vae", "--threads", HUGE], "threads must be at most"),
        (["vae", "--evaluation-samples", HUGE], "evaluation_samples must be at most"),
        (["vae", "--learning-rate", "inf"], "learning_rate must be finite"),
        (["vae", "--learning-rate", "nan"], "learning_rate must be above 0"),
        ([*SUPERNET, "--image-size", HUGE], "image_size must be at most 512"),
        ([*SUPERNET, "--cosine-epochs", "inf"], "cosine_epochs must be finite"),
        ([*SUPERNET, "--nodes", "2"], "nodes must be 1 unless torchrun or srun starts it"),
        ([*SUPERNET, "--devices", "1000"], "devices must be at most 64"),
        ([*SUPERNET, "--channels", HUGE], "channels must be at most"),
        ([*TABLE, "--seeds", HUGE], "seeds must be at most"),
        ([*TABLE, "--logits-rate", "inf"], "logits_rate must be finite"),
        (["toy", "--points", HUGE], "points must be at most"),
        (["toy", "--seed", "9" * 30], "seed must be at most"),
        (["toy", "--target", "1e300"], "--target must be a finite number"),
        (["toy", "--function", "math:sqrt", "--n", HUGE], "--n must be at most"),
        (["sweep", "vae", "--grid", "seed=0..99999999999"], "at most 100,000 values"),
    ],
)
def test_it_ends_in_one_line(line, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(line)
    except SystemExit as stop:  # what the options refuse themselves, tyro reports in a box
        status = stop.code
    assert status == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert reason in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


def test_memory_that_is_not_there_is_one_line(monkeypatch, capsys):
    import torch

    from dbsurf_paper.commands import estimators

    def greedy(options: object) -> None:
        torch.empty(2**55)

    monkeypatch.setattr(estimators, "run", greedy)
    assert main(["estimators"]) == 2
    assert capsys.readouterr().err == "dbsurf: error: this machine does not have enough memory\n"
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("something else"))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
@pytest.mark.usefixtures("signals_heard")
def test_ctrl_c_while_torch_is_imported_is_one_line():
    code = "import sys; from dbsurf_paper.commands.main import main; sys.exit(main())"
    line = [sys.executable, "-c", code, "vae", "--help"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    maps, end = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 60
    while "libtorch_cpu" not in maps.read_text():
        assert time.monotonic() < end
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output, error) == (130, "", "dbsurf: interrupted\n")
