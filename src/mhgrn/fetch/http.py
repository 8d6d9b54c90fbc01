"""Download one file over HTTP and resume it after an interruption, also in a later process.

This is own code because pooch 1.9 deletes a partial download when the connection drops, and accepts a truncated body that came
without a length; the resuming download of huggingface_hub is an internal function.
"""

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
from mhgrn.io.markers import write_json
from mhgrn.io.replacing import PARTIAL, naming_file
from mhgrn.progress import bar, say

TIMEOUT = 10  # seconds to connect, and to wait for the next byte
RETRIES = 4
PAUSE = 0.5  # seconds before the first retry, doubled before each further one
CHUNK = 1 << 16
RANGE_NOT_SATISFIABLE = 416  # the file has fewer bytes than the partial download


class Unavailable(Exception):
    """The server cannot be reached or refuses the file; a retry would not help."""


class _Interrupted(Exception):
    """The connection dropped; the next attempt resumes."""


def partial_of(target: Path) -> Path:
    """Return the path of the partial download of ``target``."""
    return target.with_name(f".{target.name}{PARTIAL}download")


def _state_of(target: Path) -> Path:
    """Return the path of the JSON file with the address, size and version of the partial download."""
    return target.with_name(f".{target.name}{PARTIAL}download.json")


def discard(target: Path) -> None:
    """Delete the partial download of ``target``."""
    partial_of(target).unlink(missing_ok=True)
    _state_of(target).unlink(missing_ok=True)


def download(url: str, target: Path) -> Path:
    """Download ``url`` to the partial file of ``target``, resuming an earlier attempt. Returns the partial file, complete but
    unverified."""
    for attempt in range(RETRIES + 1):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _receive(url, target, is_first=not attempt)
        except _Interrupted as error:
            cause = error
        else:
            return partial_of(target)
    raise UserError(
        f"{url}: the connection dropped {RETRIES + 1} times ({cause}). The partial download is kept; run the command again to"
        " resume."
    )


def _receive(url: str, target: Path, is_first: bool) -> None:
    partial, state = partial_of(target), _read_state(target, url)
    have = partial.stat().st_size if state and partial.exists() else 0
    if have and have == state["size"]:
        return  # complete: an earlier process stopped before it verified or renamed the file
    with _open(url, target, have, state, is_first) as response:
        resumes = response.status == 206
        if resumes and not _continues(response.headers, state, have):
            discard(target)
            raise _Interrupted("the file on the server changed")
        size: int | None
        if resumes:
            size = state["size"]
            say(f"{url}: resuming after {have:,} of {size:,} bytes")
        else:
            have, size = 0, response.length
            if size is None and not response.chunked:
                raise Unavailable(f"{url} is sent without its length, so a truncated download could not be detected")
            say(f"{url}: {'length unknown' if size is None else f'{size:,} bytes'}")
        with naming_file(partial), partial.open("ab" if resumes else "wb") as file, bar(target.name, size) as advance:
            if not resumes:  # written now that the partial file is empty, so it never describes older bytes
                write_json(_state_of(target), {"url": url, "size": size, **_version(response.headers)})
            while chunk := _read(response):
                file.write(chunk)
                have += len(chunk)
                advance(have)
    if size is not None and have != size:
        raise _Interrupted(f"{have:,} of {size:,} bytes")


def _open(url: str, target: Path, have: int, state: Mapping[str, Any], is_first: bool) -> HTTPResponse:
    headers = {"User-Agent": "mhgrn", "Accept-Encoding": "identity"}
    if have:
        # If-Range: the server sends the whole file if its version changed
        headers |= {"Range": f"bytes={have}-", "If-Range": state.get("ETag") or state["Last-Modified"]}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and have:
            discard(target)
            raise _Interrupted("the file on the server became shorter") from None
        raise Unavailable(f"{url} answers {error.code} {error.reason}".rstrip()) from None
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        if is_first:
            raise Unavailable(f"{url} cannot be reached ({reason})") from None
        raise _Interrupted(str(reason)) from None
    except (ValueError, HTTPException) as error:
        if isinstance(error, ConnectionError):  # closed before an answer
            raise _Interrupted(str(error)) from None
        raise Unavailable(f"{url} cannot be requested ({error})") from None
    except OSError as error:
        raise _Interrupted(str(error)) from None
    return response


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Interrupted(str(error)) from None


def _version(headers: HTTPMessage) -> dict[str, str]:
    """Return the headers that identify a version of a file. A weak ETag does not."""
    found = {name: str(headers[name]) for name in ("ETag", "Last-Modified") if headers[name]}
    return {name: value for name, value in found.items() if not value.startswith("W/")}


def _continues(headers: HTTPMessage, state: Mapping[str, Any], have: int) -> bool:
    """Whether a partial response starts where we stopped, in a file of the same length and version."""
    part = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", str(headers["Content-Range"]))
    if not have or part is None or int(part[1]) != have or part[2] not in ("*", str(state["size"])):
        return False
    return all(state.get(name, value) == value for name, value in _version(headers).items())


def _read_state(target: Path, url: str) -> dict[str, Any]:
    """Read the state of the partial download of ``target``. Returns an empty one if it cannot be resumed."""
    try:
        state = json.loads(_state_of(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    usable = isinstance(state, dict) and state.get("url") == url and state.get("size")
    return state if usable and (state.get("ETag") or state.get("Last-Modified")) else {}
