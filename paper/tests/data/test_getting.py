"""Import and fetch, on a small set that is put into the catalog, from a server on loopback."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from test_formats import idx, tar

from dbsurf_paper.commands.main import main
from dbsurf_paper.data import CATALOG, assemble, store
from dbsurf_paper.data.catalog import Content, DataSet, sha256
from dbsurf_paper.data.fetching import fetch
from dbsurf_paper.data.importing import import_files

RANDOM = np.random.default_rng(3)
ARRAYS = {
    "x_train": RANDOM.integers(0, 256, (6, 28, 28), dtype=np.uint8),
    "y_train": RANDOM.integers(0, 10, 6, dtype=np.uint8),
    "x_test": RANDOM.integers(0, 256, (4, 28, 28), dtype=np.uint8),
    "y_test": RANDOM.integers(0, 10, 4, dtype=np.uint8),
}
NAMES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
FILES = {NAMES[key]: gzip.compress(idx(array)) for key, array in ARRAYS.items()}


@dataclass
class Server:
    """What a server on loopback gives out, and what it was asked for."""

    url: str
    files: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)  # files whose transfer breaks off in the middle


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            state.asked.append(name)
            if name not in state.files:
                self.send_error(404)
                return
            content = state.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:20] if name in state.cut else content)

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state = Server(f"http://127.0.0.1:{httpd.server_port}", dict(FILES))
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield state
        httpd.shutdown()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """A set called small, like MNIST."""
    entry = DataSet(
        title="a small set",
        licence="none",
        file="small.npz",
        arrays={key: Content(array.shape, sha256(array)) for key, array in ARRAYS.items()},
        assemble=assemble.idx_quartet,
        urls=tuple(f"{server.url}/{name}" for name in NAMES.values()),
    )
    monkeypatch.setitem(CATALOG, "small", entry)


def good(folder: Path) -> bool:
    found = store.load_arrays("small", folder)
    return all((found[key] == array).all() for key, array in ARRAYS.items())


# --- import ---------------------------------------------------------------------------------------


def test_import_of_a_package(tmp_path):
    (tmp_path / "package").write_bytes(tar({f"data/{k}": v for k, v in FILES.items()}))
    assert [name for name, _ in import_files([tmp_path / "package"], tmp_path / "d")] == ["small"]
    assert good(tmp_path / "d")


def test_import_of_idx_files_and_of_their_folder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name, content in FILES.items():
        (source / name).write_bytes(content)
    import_files(sorted(source.iterdir()), tmp_path / "one")
    import_files([source], tmp_path / "two", "small")
    assert good(tmp_path / "one")
    assert good(tmp_path / "two")


def test_import_of_npz(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS)
    import_files([tmp_path / "a.npz"], tmp_path / "d")
    assert good(tmp_path / "d")


def test_what_is_not_recognised_is_not_imported(tmp_path):
    changed = {**ARRAYS, "x_test": 255 - ARRAYS["x_test"]}
    np.savez(tmp_path / "a.npz", **changed)
    with pytest.raises(ValueError, match="no known data set was recognised in .*a.npz"):
        import_files([tmp_path / "a.npz"], tmp_path / "d")
    with pytest.raises(ValueError, match="corrupt: sha256 of x_test must be"):
        import_files([tmp_path / "a.npz"], tmp_path / "d", "small")
    np.savez(tmp_path / "b.npz", other=changed["x_test"])
    with pytest.raises(ValueError, match="does not hold all of small: got other"):
        import_files([tmp_path / "b.npz"], tmp_path / "d", "small")
    assert not (tmp_path / "d").exists()


def test_own_images_need_the_right_shape(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.zeros((3, 9, 7)), x_test=np.zeros((3, 9, 7)))
    with pytest.raises(
        ValueError, match=r"x_train of .* must be square images.*got uint8 of .*9, 7"
    ):
        import_files([tmp_path / "a.npz"], tmp_path, "mine")
    np.savez(tmp_path / "a.npz", x_train=np.full((3, 784), 7.0), x_test=np.zeros((3, 784)))
    with pytest.raises(ValueError, match=r"x_train of .* must be square images.*got float64"):
        import_files([tmp_path / "a.npz"], tmp_path, "mine")
    np.savez(tmp_path / "a.npz", x_train=np.zeros((3, 784)))
    with pytest.raises(ValueError, match="x_train and x_test, or pictures, got x_train"):
        import_files([tmp_path / "a.npz"], tmp_path, "mine")


# --- fetch ----------------------------------------------------------------------------------------


def test_fetch_brings_the_set_and_leaves_nothing_else(tmp_path, server):
    assert fetch("small", tmp_path) == tmp_path / "small.npz"
    assert good(tmp_path)
    assert sorted(server.asked) == sorted(NAMES.values())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["small.npz"]
    fetch("small", tmp_path)
    assert len(server.asked) == 4  # not again


def test_another_gzip_header_is_the_same_content(tmp_path, server):
    server.files = {
        NAMES[key]: gzip.compress(idx(array), compresslevel=1, mtime=1)
        for key, array in ARRAYS.items()
    }
    fetch("small", tmp_path)
    assert good(tmp_path)


def test_broken_transfer_is_taken_up_again(tmp_path, server):
    third = NAMES["x_test"]
    server.cut = {third}
    with pytest.raises(ValueError, match=f"{third} could not be downloaded"):
        fetch("small", tmp_path)
    assert not (tmp_path / "small.npz").exists()
    server.cut, server.asked = set(), []
    fetch("small", tmp_path)
    assert server.asked == [NAMES["x_test"], NAMES["y_test"]]  # the first two were kept
    assert good(tmp_path)


def test_wrong_content_is_refused_and_not_kept(tmp_path, server):
    server.files[NAMES["y_test"]] = gzip.compress(idx(ARRAYS["y_test"][::-1].copy()))
    with pytest.raises(ValueError, match="corrupt: sha256 of y_test must be"):
        fetch("small", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    server.files = dict(FILES)
    fetch("small", tmp_path)
    assert good(tmp_path)


def test_a_set_without_a_home_cannot_be_fetched(tmp_path):
    with pytest.raises(ValueError, match="cifar10-subset is not in .*: `dbsurf data import FILE`"):
        fetch("cifar10-subset", tmp_path)


# --- the command ----------------------------------------------------------------------------------


def test_command_fetches_lists_and_checks(tmp_path, capsys):
    where = ["--data-dir", str(tmp_path)]
    assert main(["data", "fetch", "small", *where]) == 0
    assert main(["data", "list", *where]) == 0
    listed = capsys.readouterr().out
    assert "small           here     a small set; licence: none" in listed
    assert "mnist           missing" in listed
    assert main(["data", "check", "small", *where]) == 0
    assert "small: good (x_train 6x28x28" in capsys.readouterr().out


def test_command_imports(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", x_train=ARRAYS["x_train"], x_test=ARRAYS["x_test"])
    where = ["--data-dir", str(tmp_path)]
    assert main(["data", "import", str(tmp_path / "a.npz"), "--name", "mine", *where]) == 0
    assert "mine" in capsys.readouterr().out
    assert main(["data", "check", *where]) == 0
    assert "mine: good" in capsys.readouterr().out
    assert main(["data", "list", *where]) == 0
    assert "your own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["fetch"], "names must give at least one data set"),
        (["fetch", "mnits"], "dataset must be one of"),
        (["import"], "names must give at least one file"),
        (["import", "nothing.npz"], "nothing.npz does not exist"),
        (["check", "mnits"], "dataset must be one of"),
    ],
)
def test_bad_words_end_with_one_line_and_status_2(tmp_path, capsys, words, reason):
    assert main(["data", *words, "--data-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_server_that_is_not_there(tmp_path, capsys, server):
    server.files = {}
    assert main(["data", "fetch", "small", "--data-dir", str(tmp_path)]) == 2
    assert "could not be downloaded: 404" in capsys.readouterr().err
