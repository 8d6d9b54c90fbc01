"""URLs of folders: recognized, joined, and refused as places to write to."""

from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.io.atomic import check_file_writable
from mhgrn.io.folders import new_folder
from mhgrn.io.places import places, relative_place
from mhgrn.io.remote import cached_versions, joined, local_folder, origin_of, place_of, refuse_fetched, url_of
from storage import sealed, upload


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/a/graph", "s3://bucket/a/graph"),
        ("S3://bucket//a/./graph/", "s3://bucket/a/graph"),
        ("gs://bucket/graph", "gs://bucket/graph"),
        ("memory://graph", "memory://graph"),
        ("file:///data/graph", "file:///data/graph"),
        ("https://host:8000/graph", "https://host:8000/graph"),
        ("graph", None),
        ("/data/graph", None),
        ("C:/data/graph", None),
        ("notes:/graph", None),
        ("a:b", None),
    ],
)
def test_a_url_is_recognized_also_as_a_path(text: str, url: str | None) -> None:
    assert url_of(text) == url
    assert url_of(Path(text)) == url


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://host/graph", "ftp:// is not supported; use"),
        ("s3://", "names no folder"),
        ("s3://bucket/../other", "names no folder"),
        ("https://me:secret@host/graph", "has a user name or a password"),
        ("https://host/graph?token=1", "no [?] and no #"),
    ],
)
def test_other_urls_are_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        url_of(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "relative", "result"),
    [
        ("s3://bucket/runs/one", "../../graph", "s3://bucket/graph"),
        ("s3://bucket/run", "graph", "s3://bucket/run/graph"),
        ("s3://bucket/run", "../../other/graph", None),
        ("s3://bucket/run", "..", None),
        ("https://host/run", "../../169.254.169.254/x", None),
        ("file:///data/run", "../graph", "file:///data/graph"),
        ("memory://run", "../graph", "memory://graph"),
        ("memory://run", "../../..", None),
    ],
)
def test_a_relative_place_stays_in_its_bucket(url: str, relative: str, result: str | None) -> None:
    assert joined(url, relative) == result


@pytest.mark.parametrize("target", ["s3://bucket/output", Path("s3://bucket/output"), "memory://output"])
def test_nothing_is_written_to_a_url(target: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"//.*output: nothing is written to URLs"), new_folder(Path(target), "marker.json"):
        pass
    with pytest.raises(UserError, match="nothing is written to URLs"):
        check_file_writable(Path(target))
    assert not list(tmp_path.iterdir())


class TestPlaces:
    """Folders that name other folders, at URLs."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))

    def test_a_fetched_folder_knows_its_url(self, tmp_path: Path) -> None:
        url = upload(sealed(tmp_path / "graph", {"a.npy": b"1"}), "memory://known/graph")
        folder = local_folder(url)
        assert origin_of(folder) == place_of(folder) == url
        assert origin_of(folder / "index") == f"{url}/index"
        assert origin_of(tmp_path / "graph") is None
        assert place_of(tmp_path / "graph") == str(tmp_path / "graph")
        assert origin_of(tmp_path / "cache") is None
        with pytest.raises(UserError, match=f"a result cannot be stored at {url}; copy the folder"):
            refuse_fetched(folder, "a result")

    def test_what_was_beside_it_is_fetched_too(self, tmp_path: Path) -> None:
        run = local_folder(upload(sealed(tmp_path / "run", {"a": b"1"}), "memory://beside/runs/one"))
        upload(sealed(tmp_path / "graph", {"b": b"2"}), "memory://beside/graph")
        assert [(place / "b").read_bytes() for place in places(run, "../../graph", "/nowhere")] == [b"2"]
        assert list(places(run, "../../nothing", "/nowhere")) == []
        assert list(places(run, "a", None)) == [run / "a"]

    def test_a_place_outside_of_the_folder_is_not_one_in_the_cache(self, tmp_path: Path) -> None:
        run = local_folder(upload(sealed(tmp_path / "run", {"a": b"1"}), "memory://inside/run"))
        (tmp_path / "cache" / "fetched" / "secret").mkdir()
        assert list(places(run, "../../secret", None)) == []

    def test_a_stored_url_is_looked_for_in_the_cache_only(self, tmp_path: Path) -> None:
        url = upload(sealed(tmp_path / "graph", {"b": b"2"}), "memory://stored/graph")
        assert list(places(tmp_path / "run", None, url)) == []
        folder = local_folder(url)
        assert list(places(tmp_path / "run", None, url)) == list(cached_versions(url)) == [folder]
        assert relative_place(folder, tmp_path / "run") is None
