"""The table of NAS-Bench-201 from every kind of file it comes in, and from nothing that runs."""

from __future__ import annotations

import bz2
import hashlib
import os
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import test_getting

from dbsurf_paper.commands.main import main
from dbsurf_paper.data import CATALOG, nasbench, store, unpickling
from dbsurf_paper.data.catalog import Content, sha256
from dbsurf_paper.data.fetching import fetch
from dbsurf_paper.data.importing import import_files

server = test_getting.server  # on loopback

DATA = Path(os.environ.get("DBSURF_DATA", "-"))
SOURCES, SHARDS = DATA / "nasbench201-sources", DATA / "nats-bench-shards"
needs_sources = pytest.mark.skipif(not SOURCES.is_dir(), reason="nasbench201-sources is not here")
needs_shards = pytest.mark.skipif(not SHARDS.is_dir(), reason="nats-bench-shards is not here")
needs_table = pytest.mark.skipif(
    not (DATA / "nasbench201.npz").is_file(), reason="nasbench201.npz is not here"
)

FILE_C = "mini-bench-arch-cell-accs.pd"
CELLS = 12
RANDOM = np.random.default_rng(5)
FRAMES: dict[str, dict[str, object]] = {}
for _file, _title in nasbench.SOURCES.values():
    FRAMES.setdefault(_file, {})[_title] = 100 * RANDOM.random(CELLS)
for _file, _title in nasbench.ARCHITECTURES.items():
    FRAMES[_file][_title] = [f"|cell {index}|" for index in range(CELLS)]
ARRAYS = {
    "arch": np.array(FRAMES[FILE_C]["cellstr"], "S95"),
    **{
        name: nasbench.rounded(np.asarray(FRAMES[file][title]))
        for name, (file, title) in nasbench.SOURCES.items()
    },
}


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Text as Python strings, as in the public file, not in the arrays of pyarrow."""
    frame = frame.astype({name: object for name in frame if frame[name].dtype == "str"})
    frame.columns = frame.columns.astype(object)
    return frame


def contents() -> dict[str, bytes]:
    """The public files of a small table."""
    found = {}
    for file, columns in FRAMES.items():
        frame = pd.DataFrame(columns)
        found[file] = (
            pickle.dumps(plain(frame), 4)
            if file == FILE_C
            else frame.rename_axis("file id").to_csv().encode()
        )
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table of a few cells in the place of the real one."""
    files = contents()
    entry = replace(
        CATALOG["nasbench201"],
        arrays={name: Content(array.shape, sha256(array)) for name, array in ARRAYS.items()},
        sources={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )
    monkeypatch.setitem(CATALOG, "nasbench201", entry)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def good(folder: Path, *, lacking: frozenset[str] = frozenset()) -> bool:
    found = store.load_arrays("nasbench201", folder)
    wanted = ARRAYS.keys() - lacking
    return found.keys() == wanted and all((found[name] == ARRAYS[name]).all() for name in wanted)


# --- import ---------------------------------------------------------------------------------------


def test_import_of_the_public_files(tmp_path, small):
    import_files([write(tmp_path / "files", contents())], tmp_path / "d")
    assert good(tmp_path / "d")


def test_without_the_pickle_the_table_lacks_12_epochs_and_import_says_so(tmp_path, small, capsys):
    files = {name: content for name, content in contents().items() if name != FILE_C}
    source, target = write(tmp_path / "files", files), tmp_path / "d"
    assert main(["data", "import", str(source), "--data-dir", str(target)]) == 0
    assert "without cifar10_val_12, cifar10_test_12, cifar100_val_12" in capsys.readouterr().out
    assert good(target, lacking=nasbench.TWELVE_EPOCHS)


@pytest.mark.parametrize("kind", ["one array", "columns"])
def test_import_of_a_ready_table(tmp_path, small, kind):
    names = list(nasbench.SOURCES)
    if kind == "one array":
        table = np.stack([ARRAYS[name] for name in names], 1)
        np.savez(tmp_path / "t.npz", arch=ARRAYS["arch"], columns=np.array(names), acc=table)
    else:
        np.savez(tmp_path / "t.npz", **ARRAYS)
    (file,) = (path for path in tmp_path.iterdir())
    import_files([file], tmp_path / "d")
    assert good(tmp_path / "d")


def test_files_that_disagree_about_the_cells_are_refused(tmp_path, small):
    files = contents()
    files["nats_bench.csv"] = files["nats_bench.csv"].replace(b"|cell 3|", b"|cell 7|")
    with pytest.raises(ValueError, match="same cells in the same order"):
        import_files([write(tmp_path / "files", files)], tmp_path / "d")


def test_a_wrong_number_is_refused(tmp_path, small, capsys):
    wrong = {**ARRAYS, "cifar10_val_12": ARRAYS["cifar10_val_12"] + 1}
    np.savez(tmp_path / "t.npz", **wrong)
    words = ["data", "import", str(tmp_path / "t.npz"), "--name", "nasbench201"]
    assert main([*words, "--data-dir", str(tmp_path / "d")]) == 2
    error = capsys.readouterr().err
    assert "corrupt: sha256 of cifar10_val_12 must be" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "d").exists()


# --- fetch ----------------------------------------------------------------------------------------


def at(server: test_getting.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the table's addresses be those of the server."""
    entry = CATALOG["nasbench201"]
    urls = tuple(f"{server.url}/{url.rsplit('/', 1)[-1]}" for url in entry.urls)
    monkeypatch.setitem(CATALOG, "nasbench201", replace(entry, urls=urls))


def test_fetch_builds_the_table(tmp_path, small, server, monkeypatch):
    server.files = contents()
    at(server, monkeypatch)
    fetch("nasbench201", tmp_path)
    assert good(tmp_path)
    assert len(server.asked) == 5
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["nasbench201.npz"]


def test_a_file_with_a_wrong_checksum_is_refused_before_it_is_read(
    tmp_path, small, server, monkeypatch, capsys
):
    server.files = {**contents(), FILE_C: pickle.dumps(Trap())}
    at(server, monkeypatch)
    assert main(["data", "fetch", "nasbench201", "--data-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{FILE_C} is corrupt: its sha256 must be" in error
    assert error.count("\n") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@needs_table
@needs_sources
def test_fetch_of_the_real_files(tmp_path, server, monkeypatch):
    """The four CSV files byte for byte; the pickle, which is not here, made from the table."""
    with np.load(DATA / "nasbench201.npz") as table:
        columns = dict(zip(table["columns"].tolist(), table["acc"].T, strict=True))
        strings = table["arch"].astype(str)
    frame = pd.DataFrame({"arch": range(len(strings)), "cellstr": strings})
    for name in sorted(nasbench.TWELVE_EPOCHS):
        frame[nasbench.SOURCES[name][1]] = columns[name].astype(np.float64)
    server.files = {path.name: path.read_bytes() for path in SOURCES.iterdir()}
    server.files[FILE_C] = pickle.dumps(plain(frame), 4)
    at(server, monkeypatch)
    entry = CATALOG["nasbench201"]
    made = hashlib.sha256(server.files[FILE_C]).hexdigest()
    monkeypatch.setitem(
        CATALOG, "nasbench201", replace(entry, sources={**entry.sources, FILE_C: made})
    )
    fetch("nasbench201", tmp_path)
    assert not store.lacking("nasbench201", tmp_path)
    assert store.load_arrays("nasbench201", tmp_path)["cifar10_test_200"].max() == np.float32(
        94.37333
    )


# --- pickled tables -------------------------------------------------------------------------------


class Trap:
    """Unpickling this would leave a mark."""

    def __reduce__(self):
        return (os.system, ("exit 1",))


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickled_table_of_todays_pandas(protocol):
    frame = pd.DataFrame({"a": [1, 2], "text": ["x", "yy"], "b": [0.5, 1.5], "c": [2.5, 3.5]})
    found = unpickling.read_frame(pickle.dumps(plain(frame), protocol))
    assert {name: column.tolist() for name, column in found.items()} == {
        "a": [1, 2],
        "text": [b"x", b"yy"],
        "b": [0.5, 1.5],
        "c": [2.5, 3.5],
    }


class BlockManager:
    """Pickles as pandas before 1.3 did: all in the state."""

    def __init__(self, axes: list[object], blocks: list[dict[str, object]]) -> None:
        self.axes, self.blocks = axes, blocks

    def __getstate__(self):
        values = [block["values"] for block in self.blocks]
        extra = {"0.14.1": {"axes": self.axes, "blocks": self.blocks}}
        return (self.axes, values, [None] * len(values), extra)


class DataFrame:
    def __init__(self, manager: BlockManager) -> None:
        self.manager = manager

    def __getstate__(self):
        return {"_data": self.manager, "_typ": "dataframe", "_metadata": [], "attrs": {}}


class Index:
    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __reduce__(self):
        return (_new_Index, (Index, {"data": self.data, "name": None}))


def _new_Index(kind: type, state: dict[str, object]) -> None:
    raise AssertionError("a pickle was run")


def test_a_pickled_table_of_pandas_before_1_3():
    names = np.array(["a", "text", "b", "c"], dtype=object)
    blocks = [
        {"values": np.array([[1, 2]]), "mgr_locs": slice(0, 1, 1)},
        {"values": np.array([["x", "yy"]], dtype=object), "mgr_locs": slice(1, 2, 1)},
        {"values": np.array([[0.5, 1.5], [2.5, 3.5]]), "mgr_locs": np.array([2, 3])},
    ]
    frame = DataFrame(BlockManager([Index(names), Index(np.arange(2))], blocks))
    data = pickle.dumps(frame, 2)
    here = f"c{__name__}\n".encode()
    data = data.replace(here + b"DataFrame\n", b"cpandas.core.frame\nDataFrame\n")
    data = data.replace(
        here + b"BlockManager\n", b"cpandas.core.internals.managers\nBlockManager\n"
    )
    for name in (b"Index\n", b"_new_Index\n"):
        data = data.replace(here + name, b"cpandas.core.indexes.base\n" + name)
    found = unpickling.read_frame(data)
    assert list(found) == ["a", "text", "b", "c"]
    assert found["c"].tolist() == [2.5, 3.5]
    assert found["text"].tolist() == [b"x", b"yy"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pickle.dumps({"_mgr": Trap()}), "plain containers only, got .*system"),
        (pickle.dumps([1, 2]), "the layout of the pickled table is not known"),
        (
            pickle.dumps(pd.DataFrame({"a": [1.0]}))[:-9],
            "the layout of the pickled table is not known",
        ),
    ],
)
def test_other_pickles_are_no_tables(data, reason):
    with pytest.raises(ValueError, match=reason):
        unpickling.read_frame(data)


# --- the official folder --------------------------------------------------------------------------


def record(index: int) -> dict[str, object]:
    """A cell as NATS-Bench records it: two seeds, accuracies that tell the epoch."""
    found: dict[str, object] = {}
    for epochs in (12, 200):
        results = {}
        for name in ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120"):
            for seed in (777, 888):
                accuracies = {
                    f"{split}@{epoch}": np.float64(epoch / 4 + seed / 1e3 + index)
                    for split in ("x-valid", "x-test", "ori-test")
                    for epoch in range(epochs)
                }
                results[name, seed] = {"eval_acc1es": accuracies, "epochs": epochs}
        found[str(epochs)] = {"arch_str": f"|cell {index}|", "all_results": results}
    return found


@pytest.fixture
def official(tmp_path: Path) -> Path:
    folder = tmp_path / "official" / "NATS-tss-v1_0-3ffb9-simple"
    folder.mkdir(parents=True)
    files = {f"{index:06d}": record(index) for index in range(3)}
    files["meta"] = {"meta_archs": [f"|cell {index}|" for index in range(3)]}
    for name, content in files.items():
        (folder / f"{name}.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(content)))
    return folder


def test_an_official_folder(official, tmp_path, monkeypatch):
    monkeypatch.setattr(nasbench.read_folder, "__defaults__", (3,))
    entry = CATALOG["nats-bench"]
    arrays = {name: Content((3,), None) for name in entry.arrays}
    monkeypatch.setitem(CATALOG, "nats-bench", replace(entry, arrays=arrays))
    ((name, _),) = import_files([official.parent], tmp_path / "d")
    assert name == "nats-bench"
    found = store.load_arrays("nats-bench", tmp_path / "d")
    assert found["nats_arch"].tolist() == [b"|cell 0|", b"|cell 1|", b"|cell 2|"]
    # Mean over the two seeds after the last epoch: 11/4 + 0.8325, and 199/4 + 0.8325.
    np.testing.assert_allclose(found["nats_cifar10_val_12"], [3.5825, 4.5825, 5.5825], rtol=1e-6)
    np.testing.assert_allclose(found["nats_imagenet16-120_test_200"][1], 51.5825, rtol=1e-6)


def test_an_incomplete_folder_is_named(official, tmp_path, capsys):
    (official / "000001.pickle.pbz2").unlink()
    assert main(["data", "import", str(official), "--data-dir", str(tmp_path / "d")]) == 2
    error = capsys.readouterr().err
    assert (
        "must hold all 15,625 cells of NATS-Bench, got 2; the first that is missing is 000001"
        in (error)
    )
    assert error.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_a_malicious_record_is_refused(official, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(nasbench.read_folder, "__defaults__", (3,))
    poison = {**record(2), "200": Trap()}
    (official / "000002.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(poison)))
    assert main(["data", "import", str(official), "--data-dir", str(tmp_path / "d")]) == 2
    error = capsys.readouterr().err
    assert "000002.pickle.pbz2 cannot be read: a pickle may hold" in error
    assert "system" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bz2.compress(pickle.dumps({"200": {}})), "is not a record of a NATS-Bench cell"),
        (bz2.compress(pickle.dumps([])), "is not a record of a NATS-Bench cell"),
        (b"hello", "cannot be read"),
        (bz2.compress(pickle.dumps(record(1))), "must be .cell 2., got another"),
    ],
)
def test_what_is_no_record_is_named(official, content, reason):
    (official / "000002.pickle.pbz2").write_bytes(content)
    with pytest.raises(ValueError, match=f"000002.pickle.pbz2 {reason}"):
        nasbench.read_folder(official, 3)


@needs_shards
@needs_table
@pytest.mark.parametrize("index", [0, 11, 284])
def test_real_records_agree_with_the_table(index):
    folder = nasbench.find_folder(SHARDS)
    found = nasbench.read_cell(folder / f"{index:06d}.pickle.pbz2")
    table = store.load_arrays("nasbench201", DATA)
    assert found["arch"].encode() == table["arch"][index]
    for name in nasbench.COLUMNS_OF_RECORDS:
        assert found[name] == pytest.approx(table[name][index], abs=1e-4)


@needs_shards
def test_the_real_shards_are_an_incomplete_folder(tmp_path):
    with pytest.raises(ValueError, match="must hold all 15,625 cells of NATS-Bench, got 3"):
        import_files([SHARDS], tmp_path / "d")


@needs_table
@needs_sources
def test_real_files_of_every_kind_give_the_same_table(tmp_path):
    for place in (DATA / "nasbench201.npz", SOURCES):
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        assert [name for name, _ in import_files([place], tmp_path / "d")] == ["nasbench201"]
