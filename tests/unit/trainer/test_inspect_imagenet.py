"""ImageNet's class folders of JPEGs."""

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer.data import image_files, imagenet, inspect_dataset
from orchestrator.trainer.data.inspection import DataError
from tests import samples
from tests.samples import JPEG

PNG = image_files.PNG_START + b"not decodable, but whole" + bytes(4) + image_files.PNG_END + bytes(4)
WHOLE = {"train/n02/b.JPEG": JPEG, "train/n01/a.jpg": JPEG, "train/n01/c.JPG": JPEG, "val/n02/d.jpeg": JPEG}


def test_images_are_counted_and_listed_split_by_split(tmp_path: Path) -> None:
    dataset = inspect_dataset.inspect("imagenet", samples.imagenet(tmp_path, WHOLE))
    assert (dataset.train, dataset.test) == (3, 1)
    assert dataset.files == ["train/n01/a.jpg", "train/n01/c.JPG", "train/n02/b.JPEG", "val/n02/d.jpeg"]


def test_labels_are_positions_of_the_sorted_class_names(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, WHOLE)
    assert imagenet.images(tmp_path) == (
        ["n01", "n02"],
        [("train/n01/a.jpg", 0), ("train/n01/c.JPG", 0), ("train/n02/b.JPEG", 1)],
        [("val/n02/d.jpeg", 1)],
    )


def test_files_that_are_no_images_are_ignored(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/readme.txt": b"", "train/list.csv": b"", "labels.json": b"{}"})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 3


def adding(**images: bytes) -> Callable[[Path], object]:
    """Return a function that writes a complete data set with these images added, "__" standing for "/"."""
    added = {f"{name.replace('__', '/')}.jpg": content for name, content in images.items()}
    return lambda directory: samples.imagenet(directory, {**WHOLE, **added})


def only(*names: str) -> Callable[[Path], object]:
    return lambda directory: samples.imagenet(directory, dict.fromkeys(names, JPEG))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (adding(train__n01__x=JPEG[:-2]), "train/n01/x.jpg: truncated JPEG"),
        (adding(val__n01__x=b"\x89PNG" + JPEG), "val/n01/x.jpg: not a JPEG"),
        (adding(train__n01__x=PNG[:-12]), "train/n01/x.jpg: truncated PNG"),
        (
            adding(**{f"train__extra{number}__x": JPEG for number in range(999)}),
            "train/ has 1001 classes, at most 1000",
        ),
        (adding(train__n01__x=b""), "train/n01/x.jpg: not a JPEG"),
        (adding(val__n03__x=JPEG, val__n04__x=JPEG), "val/ has classes that train/ lacks: n03, n04"),
        (only("train/n01/a.jpg"), "folder val/ with a folder of images per class is missing"),
        (only("val/n01/a.jpg"), "folder train/ with a folder"),
        (only("train/n01/a.bmp", "val/n01/a.jpg"), r"no image in train/\*/; 1 .bmp files are ignored: only .jpeg, "),
        (only("train/n01/a.jpg", "val/n01/a.webp"), "no image in val"),
    ],
)
def test_incomplete_data_set_is_refused(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    make(tmp_path)
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("imagenet", tmp_path)


def test_bytes_after_the_end_of_a_jpeg_are_ignored(tmp_path: Path) -> None:
    """Some published images of ImageNet have a few."""
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/padded.JPEG": JPEG + bytes(10)})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 4


def camera_jpeg(segment: bytes = b"", fill: bytes = b"") -> bytes:
    """Return a JPEG with a segment before its frame, `fill` before each marker, and pixels after the header."""
    frame = struct.pack(">BHHB", 8, 24, 32, 1) + bytes(3)
    parts = [fill, b"\xff\xe1", struct.pack(">H", len(segment) + 2), segment]
    parts += [fill, b"\xff\xc0", struct.pack(">H", 12), frame]
    return image_files.JPEG_START + b"".join(parts) + b"coded pixels" + image_files.JPEG_END


@pytest.mark.parametrize("fill", [b"", b"\xff", b"\xff" * 20])
def test_data_that_a_phone_appends_to_a_jpeg_is_ignored(tmp_path: Path, fill: bytes) -> None:
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/phone.JPEG": camera_jpeg(fill=fill) + bytes(208)})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 4


def test_preview_in_a_truncated_jpeg_is_not_its_end(tmp_path: Path) -> None:
    truncated = camera_jpeg(segment=camera_jpeg())[:-2] + bytes(208)
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/x.jpg": truncated})
    with pytest.raises(DataError, match=r"train/n01/x.jpg: truncated JPEG"):
        inspect_dataset.inspect("imagenet", tmp_path)


def test_class_without_training_images_is_refused(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {**WHOLE, "train/n03/x.gif": JPEG, "val/n03/x.jpg": JPEG})
    with pytest.raises(DataError, match=r"train/n03 has no image, expected some as in val/n03$"):
        inspect_dataset.inspect("imagenet", tmp_path)


def test_png_files_are_images(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, dict.fromkeys(["train/n01/x.png", "train/n02/x.PNG", "val/n02/y.Png"], PNG))
    dataset = inspect_dataset.inspect("imagenet", tmp_path)
    assert (dataset.train, dataset.test, dataset.classes, dataset.note) == (2, 1, 2, "")


def test_hidden_entries_are_neither_classes_nor_images(tmp_path: Path) -> None:
    """Jupyter, file managers and macOS leave copies, thumbnails and notes with the names of images."""
    hidden = ("train/.ipynb_checkpoints/a-checkpoint.jpg", "train/.thumbnails/b.jpg", "val/.Trash-1000/c.jpg")
    samples.imagenet(tmp_path, {**WHOLE, **dict.fromkeys(hidden, JPEG), "train/n01/._a.jpg": b"\x00\x05\x16\x07"})
    dataset = inspect_dataset.inspect("imagenet", tmp_path)
    assert (dataset.train, dataset.test, dataset.classes, dataset.note) == (3, 1, 2, "")
    assert imagenet.images(tmp_path)[0] == ["n01", "n02"]


def test_note_names_what_is_in_class_folders_and_not_read(tmp_path: Path) -> None:
    left_out = ("n01/x.bmp", "n02/y.TIF", "n02/z.bmp", "n02/night/a.jpg", "n02/day/a.jpg", "n03/x.webp")
    samples.imagenet(tmp_path, {**WHOLE, **{f"train/{name}": JPEG for name in left_out}})
    note = inspect_dataset.inspect("imagenet", tmp_path).note
    assert note.startswith("1 .webp, 2 .bmp, 1 .tif files are ignored: only .jpeg, .jpg and .png files are read; ")
    assert re.search(r"; folders within class folders are ignored: \S+/train/n02/(night|day) and 1 more; ", note)
    assert note.endswith("; folders of train/ without an image are no classes: n03")


def test_each_class_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On shared storage, listing a thousand folders of ImageNet takes a while."""
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/x.bmp": b"", "val/n02/night/a.jpg": JPEG})
    listed, scandir = list[str](), os.scandir

    def listing(path: Path) -> object:
        listed.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    assert "1 .bmp files are ignored" in inspect_dataset.inspect("imagenet", tmp_path).note
    folders = sorted(name for name in listed if Path(name).name.startswith("n0"))
    assert folders == [f"{tmp_path}/{name}" for name in ("train/n01", "train/n02", "val/n02")]


def test_classes_with_training_images_are_counted(tmp_path: Path) -> None:
    (samples.imagenet(tmp_path, WHOLE) / "train" / "n03").mkdir()
    assert inspect_dataset.inspect("imagenet", tmp_path).classes == 2


def test_class_in_train_only_is_accepted(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {**WHOLE, "train/n03/x.jpg": JPEG})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 4


def test_png_named_jpeg_is_accepted(tmp_path: Path) -> None:
    """ImageNet has one, published as n02105855_2933.JPEG."""
    samples.imagenet(tmp_path, {**WHOLE, "train/n01/png.JPEG": PNG})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 4


def test_thousand_classes_are_accepted(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {**WHOLE, **{f"train/extra{number}/x.jpg": JPEG for number in range(998)}})
    assert inspect_dataset.inspect("imagenet", tmp_path).train == 1001


def test_unreadable_images_are_named_and_the_rest_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adding(train__n01__x=JPEG[:-2], val__n02__y=b"")(tmp_path)
    output = {}
    for skip in (False, True):
        inspect_dataset.main("imagenet", tmp_path, skip)
        output[skip] = json.loads(capsys.readouterr().out)
    problem = f"{tmp_path}/train/n01/x.jpg: truncated JPEG, and 1 more that cannot be read"
    assert output[False] == {"error": problem, "damaged": True}
    assert (output[True]["train"], output[True]["test"]) == (4, 2)
    assert output[True]["note"] == f"unreadable images will be skipped: {problem}"


def test_skip_does_not_accept_another_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only("train/n01/a.jpg")(tmp_path)
    inspect_dataset.main("imagenet", tmp_path, True)
    assert not json.loads(capsys.readouterr().out)["damaged"]
