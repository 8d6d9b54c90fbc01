"""One file over HTTP: goes on where it was cut off, never joins two versions, gives up at once where nobody answers."""

import json
import re
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mhgrn.errors import UserError
from mhgrn.io.atomic import PARTIAL
from mhgrn.io.markers import write_json
from mhgrn.progress import bar, say

TIMEOUT = 10  # seconds to connect, and to wait for the next byte
RETRIES = 4
PAUSE = 0.5  # seconds before the first retry, doubled before each further one
CHUNK = 1 << 16
CHANGED = 416  # the server has not as many bytes as we have already


class NoAnswer(Exception):
    """The server cannot be reached, or refuses the file: trying again at once is of no use."""


class _Lost(Exception):
    """The connection broke off: the next attempt goes on from what was received."""


def partial_of(target: Path) -> Path:
    """Where a file is gathered until it is whole."""
    return target.with_name(f".{target.name}{PARTIAL}download")


def _notes_of(target: Path) -> Path:
    return target.with_name(f".{target.name}{PARTIAL}download.json")


def forget(target: Path) -> None:
    """Remove what was gathered for ``target``."""
    partial_of(target).unlink(missing_ok=True)
    _notes_of(target).unlink(missing_ok=True)


def download(url: str, target: Path) -> Path:
    """Receive ``url`` beside ``target``, going on from what an earlier attempt left; where the whole file is, to be checked."""
    for attempt in range(RETRIES + 1):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _receive(url, target, is_first=not attempt)
        except _Lost as error:
            lost = error
        else:
            return partial_of(target)
    raise UserError(
        f"{url}: the connection broke off {RETRIES + 1} times ({lost}); what was received is kept. Run the command again to go on."
    )


def _receive(url: str, target: Path, is_first: bool) -> None:
    partial, notes = partial_of(target), _read_notes(target, url)
    have = partial.stat().st_size if notes and partial.exists() else 0
    if have and have == notes["size"]:
        return  # only the check or the renaming was cut off
    with _open(url, target, have, notes, is_first) as response:
        goes_on = response.status == 206
        if goes_on and not _is_same(response.headers, notes, have):
            forget(target)
            raise _Lost("the file changed in the meantime")
        size: int | None
        if goes_on:
            size = notes["size"]
            say(f"{url}: going on after {have:,} of {size:,} bytes")
        else:
            have, size = 0, response.length
            if size is None and not response.chunked:
                raise NoAnswer(f"{url} comes without its length, so that a cut could not be told from its end")
            say(f"{url}: {'length unknown' if size is None else f'{size:,} bytes'}")
        try:
            with partial.open("ab" if goes_on else "wb") as file, bar(target.name, size) as advance:
                if not goes_on:  # the file is empty now: these notes are not of older bytes
                    write_json(_notes_of(target), {"url": url, "size": size, **_version(response.headers)})
                while chunk := _read(response):
                    file.write(chunk)
                    have += len(chunk)
                    advance(have)
        except OSError as error:
            error.filename = error.filename or str(partial)
            raise
    if size is not None and have != size:
        raise _Lost(f"{have:,} of {size:,} bytes")


def _open(url: str, target: Path, have: int, notes: Mapping[str, Any], is_first: bool) -> HTTPResponse:
    headers = {"User-Agent": "mhgrn", "Accept-Encoding": "identity"}
    if have:
        # the server sends the whole file if it is no longer the one that was begun
        headers |= {"Range": f"bytes={have}-", "If-Range": notes.get("ETag") or notes["Last-Modified"]}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == CHANGED and have:
            forget(target)
            raise _Lost("the file became shorter in the meantime") from None
        raise NoAnswer(f"{url} answers {error.code} {error.reason}".rstrip()) from None
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        if is_first:
            raise NoAnswer(f"{url} cannot be reached ({reason})") from None
        raise _Lost(str(reason)) from None
    except (ValueError, HTTPException) as error:
        if isinstance(error, ConnectionError):  # closed before an answer
            raise _Lost(str(error)) from None
        raise NoAnswer(f"{url} cannot be asked for ({error})") from None
    except OSError as error:
        raise _Lost(str(error)) from None
    return response


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Lost(str(error)) from None


def _version(headers: HTTPMessage) -> dict[str, str]:
    """What tells one version of a file from another. A weak ETag does not."""
    found = {name: str(headers[name]) for name in ("ETag", "Last-Modified") if headers[name]}
    return {name: value for name, value in found.items() if not value.startswith("W/")}


def _is_same(headers: HTTPMessage, notes: Mapping[str, Any], have: int) -> bool:
    """Whether a part continues what we have: it begins where we are, in a file of the same length and version."""
    part = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", str(headers["Content-Range"]))
    if not have or part is None or int(part[1]) != have or part[2] not in ("*", str(notes["size"])):
        return False
    return all(notes.get(name, value) == value for name, value in _version(headers).items())


def _read_notes(target: Path, url: str) -> dict[str, Any]:
    """What is known of the file begun beside ``target``; nothing, if it cannot be gone on with."""
    try:
        notes = json.loads(_notes_of(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    usable = isinstance(notes, dict) and notes.get("url") == url and notes.get("size")
    return notes if usable and (notes.get("ETag") or notes.get("Last-Modified")) else {}
