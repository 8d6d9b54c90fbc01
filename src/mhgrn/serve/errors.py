"""Errors as JSON: what is wrong, in which field, and the limit."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from mhgrn.errors import UserError
from mhgrn.inference import WrongOption
from mhgrn.printing import shown, strict_json

_LIMITS = ("max_length", "min_length", "le", "ge")
_SOURCES = ("body", "query", "path", "header")


class JsonResponse(Response):
    """JSON that every parser reads, also with half characters in it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else strict_json(content).encode()


def problem(message: str, field: str | None = None, limit: int | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "field": field, "limit": limit}}


def failure(
    status: int, message: str, field: str | None = None, limit: int | None = None, headers: dict[str, str] | None = None
) -> JsonResponse:
    """A response that says what is wrong."""
    return JsonResponse(problem(message, field, limit), status, headers)


def wrong(error: UserError) -> JsonResponse:
    """A request that fits its schema, but not the graph or the models."""
    return failure(422, str(error), error.option if isinstance(error, WrongOption) else None)


def invalid(error: RequestValidationError) -> JsonResponse:
    """The first problem of a request that does not fit its schema."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if place and place[0] in _SOURCES:
        place = place[1:]
    if first["type"] == "json_invalid":
        return failure(422, f"the body is not JSON ({shown(first.get('ctx', {}).get('error', ''))}).")
    name = shown(".".join(place)) if place else None
    limit = next((first["ctx"][key] for key in _LIMITS if key in first.get("ctx", {})), None)
    what = "The body" if name is None else name
    return failure(422, f"{what}: {shown(first['msg'])}.", name, limit if isinstance(limit, int) else None)
