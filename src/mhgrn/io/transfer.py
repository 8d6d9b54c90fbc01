"""Fetch a folder at a URL into the cache: in parallel, resumable, and verified against its checksums before it is used.

A folder of mhgrn lists its files in ``checksums.json``; nothing else is fetched. Its files are fetched in ranges, and each range
is compared with its checksums when it arrives. A text encoder in the format of Hugging Face has no checksums: its files are those
of the listing that no program is in, and their sizes are compared.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_bytes
from mhgrn.io.cache import user_cache
from mhgrn.io.checksums import BLOCK, CHECKSUMS, FileChecksums, Recorded, block_sums, parse_checksums
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_json
from mhgrn.io.remote import FETCHED, ORIGIN, name_of
from mhgrn.io.replacing import PARTIAL, flush, naming_file
from mhgrn.printing import shown
from mhgrn.progress import bar, say

RANGE = 16 * BLOCK  # bytes fetched at once
THREADS = 8
TRIES = 3  # times a folder that changes while it is fetched is fetched again
LARGEST_CHECKSUMS = 1 << 28  # bytes of checksums.json: of 16 TB
LARGEST_GROWING = 1 << 30  # bytes of a file to which lines are appended
PARTS = ("index",)  # sub-folders that are fetched with their folder, if they are there: the concept index of a graph
MOST_FILES = 10_000
LONGEST_NAME = 200  # characters of a file's name
TEXT_ENCODER = ("*.json", "*.txt", "*.model", "*.safetensors")  # nothing that is code or pickled
TEXT_ENCODER_MARKERS = ("config.json", "adapter_config.json")
_UNUSED = "The folder is damaged, or still being uploaded. It is not used; upload it again."
PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "http": ("aiohttp", "http"), "https": ("aiohttp", "http")}


class Missing(UserError):
    """There is no such folder at the URL."""


class _File(NamedTuple):
    """A file to fetch. ``blocks`` are its checksums; None: only its size is known."""

    size: int
    blocks: NDArray[np.uint64] | None


@dataclass(frozen=True)
class _Content:
    """What a folder at a URL consists of now."""

    version: str  # another one for any other content
    checksums: bytes | None  # of checksums.json
    recorded: Recorded  # the files that checksums.json lists
    listed: dict[str, int]  # sizes of the files of a folder without checksums


def fetch(url: str) -> Path:
    """Return the folder of the cache with the content that is now at a URL. It is fetched if it is not there.

    Args:
        url: the folder, as :func:`mhgrn.io.remote.url_of` gives it.
    """
    store = _Store.of(url)
    content = store.content()
    for tries_left in reversed(range(TRIES)):
        entry = user_cache() / FETCHED / fingerprint(url, content.version)
        target = entry / name_of(url)
        if target.is_dir():
            return target
        with locked(entry.with_name(f".{entry.name}.lock"), wait=True):
            if target.is_dir():
                return target  # another process has fetched it
            partial = entry / f".{target.name}{PARTIAL}fetch"
            partial.mkdir(parents=True, exist_ok=True)
            write_json(entry / ORIGIN, {"format": 1, "url": url})
            try:
                _fill(partial, store, content)
                for part in PARTS:
                    _fill_part(partial / part, store.inside(part))
                is_current = content.checksums is not None or store.content().version == content.version
            except UserError:
                now = store.content()
                if not tries_left or now.version == content.version:
                    raise
                is_current = False
            if is_current:
                for path in partial.rglob("*"):
                    flush(path)
                partial.rename(target)
                flush(entry)
                return target
            shutil.rmtree(entry, ignore_errors=True)
        content = store.content()
    raise UserError(f"{url} is being changed again and again; try again later.")


def _fill_part(partial: Path, store: "_Store") -> None:
    """Fetch a sub-folder, if it is there."""
    try:
        content = store.sealed()
    except UserError:  # without the permission to list, a missing file is one without permission
        return
    if content is not None:
        partial.mkdir(exist_ok=True)
        _fill(partial, store, content)


def _fill(partial: Path, store: "_Store", content: _Content) -> None:
    """Fetch the files of a folder that ``partial`` does not have yet."""
    growing = {name: sums for name, sums in content.recorded.items() if any(one.grows for one in sums)}
    versions = {
        name: [_File(one.size, one.blocks) for one in sums] for name, sums in content.recorded.items() if name not in growing
    }
    versions |= {name: [_File(size, None)] for name, size in content.listed.items()}
    total = sum(files[0].size for files in versions.values())
    missing = {name: _missing(partial / name, files[0]) for name, files in versions.items()}
    needed = sum(stop - start for ranges in missing.values() for start, stop in ranges)
    if needed > (free := shutil.disk_usage(partial).free):
        raise UserError(
            f"{store.url} needs {needed:,} bytes, {partial.parent} has {free:,} left; set MHGRN_CACHE to a folder with more space."
        )
    for name, files in versions.items():
        _allocate(partial / name, files[0].size)
    resumed = f", {total - needed:,} of them fetched before" if needed < total else ""
    say(f"fetching {store.url}: {len(versions) + len(growing):,} files, {total:,} bytes{resumed}")
    with bar(name_of(store.url), total) as advance:
        done = total - needed
        todo = {name: files[0] for name, files in versions.items()}
        while todo:
            with _pool() as pool:
                jobs = {
                    pool.submit(_copy_range, store, partial / name, file, start, stop): (name, start, stop)
                    for name, file in todo.items()
                    for start, stop in missing[name]
                }
                damaged: dict[str, int] = {}
                for job in as_completed(jobs):
                    name, start, stop = jobs[job]
                    if not job.result():
                        damaged[name] = min(start, damaged.get(name, start))
                    done += stop - start
                    advance(done, f"{name_of(store.url)}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB")
            todo = {}
            for name, start in damaged.items():  # a file that was rewritten may have its content of before
                versions[name].pop(0)
                if not versions[name]:
                    raise UserError(f"{store.url}/{name}: the range from byte {start:,} has another checksum or length. {_UNUSED}")
                todo[name] = versions[name][0]
                missing[name] = _missing(partial / name, todo[name])
                _allocate(partial / name, todo[name].size)
    for name, sums in growing.items():
        write_bytes(partial / name, store.growing(name, sums))
    if content.checksums is not None:
        write_bytes(partial / CHECKSUMS, content.checksums)


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="fetch")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _missing(path: Path, file: _File) -> list[tuple[int, int]]:
    """Return the ranges of a file that have to be fetched. What an interrupted fetch has left is verified."""
    ranges = [(start, min(start + RANGE, file.size)) for start in range(0, file.size, RANGE)]
    if file.blocks is None or not path.is_file():
        return ranges
    found = FileChecksums.of(path)
    if found.size != file.size:
        return ranges
    is_wrong = found.blocks != file.blocks
    return [(start, stop) for start, stop in ranges if is_wrong[start // BLOCK : -(-stop // BLOCK)].any()]


def _allocate(path: Path, size: int) -> None:
    """Give a partial file its size; it takes no space before it is written."""
    with naming_file(path), path.open("ab") as file:
        file.truncate(size)


def _copy_range(store: "_Store", path: Path, file: _File, start: int, stop: int) -> bool:
    """Fetch a range of a file. Returns False, and writes nothing, if it is not as expected."""
    try:
        content = store.range(path.name, start, stop)
    except Missing as error:
        raise UserError(f"{error} {_UNUSED}") from None
    if len(content) != stop - start:
        return False
    if file.blocks is not None and block_sums(content) != file.blocks[start // BLOCK : -(-stop // BLOCK)].tolist():
        return False
    with naming_file(path), path.open("r+b") as target:
        target.seek(start)
        target.write(content)
    return True


@dataclass(frozen=True)
class _Store:
    """A folder of a file system of fsspec. Every failure is a :class:`UserError`."""

    url: str
    files: Any  # the file system
    root: str  # the folder in it

    @classmethod
    def of(cls, url: str) -> "_Store":
        scheme = url.split("://")[0]
        try:
            import fsspec

            with _explained(url):
                files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError:
            package, extra = PACKAGES.get(scheme, ("fsspec", "s3"))
            raise UserError(f"{url}: {scheme}:// needs the package {package}: pip install 'mhgrn[{extra}]'") from None
        return cls(url, files, root.rstrip("/"))

    def inside(self, name: str) -> "_Store":
        return _Store(f"{self.url}/{name}", self.files, f"{self.root}/{name}")

    def content(self) -> _Content:
        """What the folder consists of now. Raises :class:`Missing` if there is none."""
        return self.sealed() or self._listed()

    def sealed(self) -> _Content | None:
        """The content that ``checksums.json`` describes; None if there is no such file."""
        try:
            content = self.whole(CHECKSUMS, LARGEST_CHECKSUMS)
        except Missing:
            return None
        recorded = parse_checksums(content, f"{self.url}/{CHECKSUMS}")
        if wrong := [name for name, sums in recorded.items() if not _is_plain(name) or not sums]:
            raise UserError(f"{self.url}/{CHECKSUMS} is not used: it names the file {shown(wrong[0])[:80]!r}.")
        if len(recorded) > MOST_FILES:
            raise UserError(f"{self.url}/{CHECKSUMS} is not used: it lists more than {MOST_FILES:,} files.")
        return _Content(fingerprint(content), content, recorded, {})

    def _listed(self) -> _Content:
        """The files of a text encoder, which has no checksums."""
        if self.url.startswith("http"):
            raise Missing(f"{self.url} holds no {CHECKSUMS}: there is no folder of mhgrn. Text encoders are not read from http.")
        with _explained(self.url):
            entries = self.files.ls(self.root, detail=True)
            found = {str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]: entry for entry in entries if entry["type"] == "file"}
            found = {name: entry for name, entry in found.items() if any(fnmatch(name, kind) for kind in TEXT_ENCODER)}
            if not any(name in found for name in TEXT_ENCODER_MARKERS):
                raise Missing(f"{self.url} is no folder of mhgrn (it holds no {CHECKSUMS}) and no text encoder (no config.json).")
            if len(found) > MOST_FILES or not all(map(_is_plain, found)):
                raise UserError(f"{self.url} is not used: it has more than {MOST_FILES:,} files, or files of strange names.")
            sizes = {name: int(entry["size"]) for name, entry in found.items()}
            versions = {name: str(self.files.checksum(entry["name"])) for name, entry in found.items()}
        return _Content(fingerprint(sizes, versions), None, {}, sizes)

    def growing(self, name: str, sums: tuple[FileChecksums, ...]) -> bytes:
        """The content of a file to which lines are appended; its beginning is verified."""
        content = self.whole(name, LARGEST_GROWING)
        for one in sums:
            is_whole = one.grows or len(content) == one.size
            if is_whole and len(content) >= one.size and block_sums(content[: one.size]) == one.blocks.tolist():
                return content
        raise UserError(f"{self.url}/{name} begins with other bytes than it should. {_UNUSED}")

    def whole(self, name: str, largest: int) -> bytes:
        """Read a file of unknown size, up to ``largest`` bytes."""
        content = self._opened(name, 0, largest + 1)
        if len(content) > largest:
            raise UserError(f"{self.url}/{name} is larger than {largest:,} bytes; it is not used.")
        return content

    def range(self, name: str, start: int, stop: int) -> bytes:
        """Read a range of a file, or what there is of it."""
        if self.url.startswith("http"):  # a server that ignores the range would send the whole file
            return self._opened(name, start, stop)
        with _explained(f"{self.url}/{name}"):
            try:
                content: bytes = self.files.cat_file(f"{self.root}/{name}", start=start, end=stop)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return b""  # the file ends before the range
        return content

    def _opened(self, name: str, start: int, stop: int) -> bytes:
        received: list[bytes] = []
        size = 0
        with _explained(f"{self.url}/{name}"), self.files.open(f"{self.root}/{name}", "rb", cache_type="none") as file:
            if start:
                file.seek(start)
            while size < stop - start and (more := file.read(stop - start - size)):
                received.append(more)
                size += len(more)
        return b"".join(received)[: stop - start]


def _is_plain(name: str) -> bool:
    """Whether a name can only be that of a file directly in its folder, of any operating system."""
    is_visible = (
        name.isprintable() and not set(name) & set('/\\:*?"<>|') and not name.startswith(".") and not name.endswith((".", " "))
    )
    return 0 < len(name) <= LONGEST_NAME and is_visible and name == os.path.basename(name) and name not in (CHECKSUMS, ORIGIN)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn the errors of a file system into one message."""
    try:
        yield
    except (UserError, ImportError):
        raise
    except Exception as error:
        raise _explanation(url, error) from None


def _explanation(url: str, error: BaseException) -> UserError:
    if isinstance(error, FileNotFoundError) and type(error.__cause__).__module__.startswith("aiohttp"):
        error = error.__cause__ or error  # every failure of a web server is reported as a missing file
    kind, status = type(error).__name__, getattr(error, "status", None) or getattr(error, "code", None)
    reason = shown(" ".join(str(error).split()), 300) or kind
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError) or status in (404, 410):
        return Missing(f"{url} does not exist.")
    if isinstance(error, PermissionError) or status in (401, 403):
        return UserError(f"{url}: no permission to read it ({reason}); check the credentials and their rights.")
    if "Credential" in kind or "RefreshError" in kind:
        return UserError(f"{url}: no credentials ({reason}); log in, or set the environment variables of the storage.")
    if isinstance(error, ValueError) and ("seek" in reason or "range" in reason):
        return UserError(f"{url}: the server does not answer requests for a part of a file (Range); use another one.")
    if isinstance(error, OSError | TimeoutError) or "Connect" in kind or "Timeout" in kind or kind.startswith("Client"):
        return UserError(f"{url} cannot be reached ({reason}).")
    return UserError(f"{url} cannot be read ({kind}: {reason}).")
