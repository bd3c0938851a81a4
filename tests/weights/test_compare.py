"""Two checkpoints compared: every way in which a tensor can differ is told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from dflash_viz.weights.compare import TensorDifference, differing_tensors

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def folder(path: Path, **tensors: np.ndarray) -> Path:
    """A checkpoint of one file."""
    path.mkdir()
    save_file(tensors, path / "model.safetensors")
    return path


def how(tmp_path: Path, first: np.ndarray, second: np.ndarray) -> str | None:
    """How a tensor of one name differs; None when it does not."""
    found = differing_tensors(folder(tmp_path / "a", w=first), folder(tmp_path / "b", w=second))
    assert [one.name for one in found] in ([], ["w"])
    return found[0].how if found else None


def test_a_copy_is_no_difference(tmp_path: Path) -> None:
    assert how(tmp_path, ROWS, ROWS.copy()) is None


@pytest.mark.parametrize("second", [ROWS[[2, 0, 1]], ROWS[:, ::-1].copy(), ROWS.T.reshape(3, 4).copy()])
def test_the_same_numbers_elsewhere_are_reordered(second: np.ndarray, tmp_path: Path) -> None:
    assert how(tmp_path, ROWS, second) == "reordered"


def test_one_other_number_is_a_change(tmp_path: Path) -> None:
    second = ROWS.copy()
    second[1, 2] += 1e-6
    assert how(tmp_path, ROWS, second) == "changed"


def test_a_number_that_comes_more_often_is_a_change(tmp_path: Path) -> None:
    second = ROWS.copy()
    second[0, 0] = second[0, 1]
    assert how(tmp_path, ROWS, second) == "changed"


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_numbers_are_compared_and_not_their_bytes(kind: str, tmp_path: Path) -> None:
    size = np.dtype(kind).itemsize
    first = np.arange(size * 4, dtype=np.uint8).view(kind)
    mixed = first[::-1].copy()
    assert how(tmp_path, first, mixed) == "reordered"
    if size == 1:
        return
    # The same bytes, in the opposite order within each number: none of them is what it was.
    swapped = first.byteswap()
    assert [one.how for one in differing_tensors(tmp_path / "a", folder(tmp_path / "c", w=swapped))] == [
        "changed"
    ]


@pytest.mark.parametrize("second", [ROWS.T.copy(), ROWS.reshape(12), ROWS.astype(np.float16), ROWS[:2]])
def test_another_shape_or_number_format(second: np.ndarray, tmp_path: Path) -> None:
    assert how(tmp_path, ROWS, second) == "shape"


def test_the_same_bits_in_another_number_format_are_no_copy(tmp_path: Path) -> None:
    assert how(tmp_path, ROWS, ROWS.view(np.int32)) == "shape"


def test_tensors_of_one_side_only(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", both=ROWS, gone=ROWS, z=ROWS)
    second = folder(tmp_path / "b", both=ROWS, fresh=ROWS, z=ROWS[::-1].copy())
    assert differing_tensors(first, second) == [
        TensorDifference("fresh", "added"),
        TensorDifference("gone", "missing"),
        TensorDifference("z", "reordered"),
    ]
    assert [one.how for one in differing_tensors(second, first)] == ["missing", "added", "reordered"]


def test_it_does_not_matter_how_tensors_are_spread_over_files(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", one=ROWS, two=ROWS + 1)
    second = tmp_path / "b"
    second.mkdir()
    save_file({"two": ROWS + 1}, second / "model-00001-of-00002.safetensors")
    save_file({"one": ROWS}, second / "model-00002-of-00002.safetensors")
    (second / "config.json").write_text("{}")
    assert differing_tensors(first, second) == []


def test_tensors_without_a_number(tmp_path: Path) -> None:
    empty = np.zeros((0, 4), dtype=np.float32)
    assert how(tmp_path, empty, empty.copy()) is None


@pytest.mark.parametrize("keep", [0, 7, 60, -1])
def test_a_file_that_cannot_be_read_is_named(keep: int, tmp_path: Path) -> None:
    first, second = folder(tmp_path / "a", w=ROWS), folder(tmp_path / "b", w=ROWS)
    file = second / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"^model\.safetensors cannot be read: "):
        differing_tensors(first, second)
    with pytest.raises(ValueError, match=r"^model\.safetensors cannot be read: "):
        differing_tensors(second, first)


def test_a_folder_in_place_of_a_file_is_an_os_error(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", w=ROWS)
    (tmp_path / "b" / "model.safetensors").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        differing_tensors(first, tmp_path / "b")
