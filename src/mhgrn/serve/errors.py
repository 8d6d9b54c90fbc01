"""Errors as JSON: what is wrong, in which field, and the limit."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from mhgrn.errors import UserError, did_you_mean
from mhgrn.inference import WrongOption
from mhgrn.printing import shown, strict_json
from mhgrn.serve.schemas import AskBody, AskManyBody

_LIMITS = ("max_length", "min_length", "le", "ge")
_MESSAGES = {  # by the type of pydantic's error
    "string_too_long": "at most {max_length:,} characters are allowed",
    "string_too_short": "the text is empty",
    "string_pattern_mismatch": "the text is empty",
    "string_type": "a text is expected",
    "string_unicode": "the text is not valid Unicode",
    "too_long": "at most {max_length:,} items are allowed",
    "too_short": "at least {min_length:,} items are needed",
    "list_type": "a list is expected",
    "bool_type": "true or false is expected",
    "int_type": "an integer is expected",
    "int_parsing": "an integer is expected",
    "less_than_equal": "at most {le:,} is allowed",
    "greater_than_equal": "at least {ge:,} is needed",
    "missing": "this field is needed",
    "extra_forbidden": "there is no such field",
    "model_attributes_type": "an object is expected",
}
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
    known = _MESSAGES.get(first["type"])
    said = f"{shown(first['msg']) if known is None else known.format(**first.get('ctx', {}))}."
    if first["type"] == "extra_forbidden":
        fields = AskManyBody if len(place) == 1 and isinstance(error.body, dict) and "questions" in error.body else AskBody
        said += did_you_mean(place[-1], fields.model_fields)
    return failure(422, f"{'the body' if name is None else name}: {said}", name, limit if isinstance(limit, int) else None)
