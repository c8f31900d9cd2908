"""What visitors upload, well meant or not."""

import io
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vadd.errors import UserError
from vadd.recipe import recipe_for
from vadd.studio import runs as uploads
from vadd.studio.runs import accept


def png(size: int = 4) -> bytes:
    written = io.BytesIO()
    Image.new("L", (size, size), 128).save(written, "PNG")
    return written.getvalue()


def archive(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name, content)
    return path


def test_arrays_and_tables_of_integers_become_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "my codes!.npy", np.arange(12).reshape(4, 3))
    (tmp_path / "table.csv").write_text("0,1,2\n2,1,0\n")
    kept = accept(tmp_path / "my codes!.npy", tmp_path / "kept")
    assert kept.parent == tmp_path / "kept"
    assert kept.name.startswith("my-codes-")
    assert np.load(kept).tolist() == np.arange(12).reshape(4, 3).tolist()
    assert np.load(accept(tmp_path / "table.csv", tmp_path / "kept")).tolist() == [[0, 1, 2], [2, 1, 0]]


def test_a_text_is_kept_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("<script>ü</script>\n" * 50, encoding="utf-8")
    kept = accept(tmp_path / "book.txt", tmp_path / "kept")
    assert kept.read_text(encoding="utf-8").startswith("<script>ü")
    assert recipe_for(kept).data.kind == "text"


def test_a_zip_of_images_becomes_a_folder_with_names_of_our_own(tmp_path: Path) -> None:
    given = archive(tmp_path / "cats.zip", **{"a/one.png": png(), "b/two.PNG": png(), "readme.md": b"x"})
    kept = accept(given, tmp_path / "kept")
    assert sorted(file.name for file in kept.iterdir()) == ["000000.png", "000001.png"]
    assert recipe_for(kept).data.kind == "folder"


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("unpickled",))


def test_nothing_is_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "objects.npy", np.array([[Bomb()]]), allow_pickle=True)
    (tmp_path / "pickled.npy").write_bytes(pickle.dumps(Bomb()))
    for name in ("objects.npy", "pickled.npy"):
        with pytest.raises(UserError, match=r"not a readable \.npy file"):
            recipe_for(accept(tmp_path / name, tmp_path / "kept"))
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("data.exe", b"x", "is not one of"),
        ("empty.txt", b"", "has 0 bytes"),
        ("noise.npy", b"\x00\x01\x02", "not a readable .npy"),
        ("noise.txt", b"\xff\xfe\xfa", "not text in UTF-8"),
        ("zero.txt", b"a\x00b", "is not text"),
        ("noise.zip", b"PK\x03\x04 nothing", "not a zip file"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told):
        recipe_for(accept(tmp_path / name, tmp_path / "kept"))


@pytest.mark.parametrize("array", [np.zeros((3, 2)), np.zeros(3, int), np.zeros((0, 3), int), np.array([["a"]])])
def test_arrays_of_no_examples_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(UserError, match=r"integers are needed|has shape"):
        recipe_for(accept(tmp_path / "x.npy", tmp_path / "kept"))


def test_a_header_that_promises_much_costs_nothing(tmp_path: Path) -> None:
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999, 9999), }".ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match=r"not a readable \.npy"):
        recipe_for(accept(tmp_path / "x.npy", tmp_path / "kept"))


@pytest.mark.parametrize("name", ["../out.png", "/etc/out.png", "a/../../out.png", "..\\out.png", "C:\\out.png"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    given = archive(tmp_path / "x.zip", **{"a.png": png(), name: png()})
    with pytest.raises(UserError, match="points out of its folder"):
        accept(given, tmp_path / "kept")
    assert not list(tmp_path.rglob("out.png"))


def test_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as written:
        written.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="holds a link"):
        accept(tmp_path / "x.zip", tmp_path / "kept")


def test_a_bomb_does_not_go_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LARGEST_UNPACKED", 10_000)
    given = archive(tmp_path / "x.zip", **{"a.png": bytes(9_000), "b.png": bytes(9_000)})
    with pytest.raises(UserError, match="unpacks to more than"):
        accept(given, tmp_path / "kept")
    assert not any((tmp_path / "kept").iterdir())


def test_images_that_are_none_or_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = archive(tmp_path / "x.zip", **{"a.png": png(), "b.png": b"not a picture"})
    with pytest.raises(UserError, match="cannot be read"):
        accept(given, tmp_path / "kept")
    monkeypatch.setattr(uploads, "MOST_PIXELS", 15)
    with pytest.raises(UserError, match="16 pixels"):
        accept(archive(tmp_path / "y.zip", **{"a.png": png(), "b.png": png()}), tmp_path / "kept")
    assert not any((tmp_path / "kept").iterdir())


def test_one_image_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds 1 images"):
        accept(archive(tmp_path / "x.zip", **{"a.png": png()}), tmp_path / "kept")
