"""The application: its routes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import fastapi_swagger
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from mhgrn.errors import UserError
from mhgrn.serve import schemas
from mhgrn.serve.computing import Unavailable
from mhgrn.serve.errors import JsonResponse, failure, invalid, wrong
from mhgrn.serve.gate import GONE, Gate, Observe, queue_full
from mhgrn.serve.models import LONGEST_LISTED
from mhgrn.serve.queue import DeadlinePassed, Job, QueueFull
from mhgrn.serve.service import Service

PAGE = Path(__file__).parent / "page"
SWAGGER = Path(fastapi_swagger.__file__).parent / "resources"
DOCS = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>HTTP interface · mhgrn</title>
  <link rel="stylesheet" href="docs/swagger-ui.css">
  <script defer src="docs/swagger-ui-bundle.js"></script>
  <script defer src="docs/start.js"></script>
</head>
<body><div id="docs"></div></body>
</html>
"""
START = 'SwaggerUIBundle({ url: "openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null });\n'
_PROBLEMS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    422: "The request is wrong; the field and the limit are given.",
    500: "An unexpected error.",
    503: "Not ready, too busy, or the deadline passed. Retry-After says when to try again.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorBody, "description": text} for status, text in _PROBLEMS.items()
}
MISSING: dict[int | str, dict[str, Any]] = {404: {"model": schemas.ErrorBody, "description": "There is no such concept."}}
ModelName = Annotated[str | None, Query(max_length=schemas.LIMITS.name, description="name of a served model")]


def create_app(service: Service) -> FastAPI:
    """Make the application of a service."""
    app = FastAPI(
        title="mhgrn",
        summary="Answers to questions with and without choices, with the facts behind them.",
        version="1",
        docs_url=None,
        redoc_url=None,
    )
    _add_errors(app)
    _add_asking(app, service)
    _add_looking_up(app, service)
    _add_status(app, service)
    _add_page(app)
    app.add_middleware(Gate, settings=service.settings, metrics=service.metrics, check_room=service.worker.check_room)
    app.add_middleware(Observe, metrics=service.metrics, log=service.log)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        return invalid(error)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        headers = None if error.headers is None else dict(error.headers)
        return failure(error.status_code, error.detail, headers=headers)

    @app.exception_handler(UserError)
    async def _(request: Request, error: UserError) -> Response:
        return wrong(error)

    @app.exception_handler(NotReady)
    async def _(request: Request, error: NotReady) -> Response:
        return failure(503, str(error), headers={"Retry-After": "1"})


class NotReady(Exception):
    """The models are not loaded yet, or the service is about to end."""


def _check_ready(service: Service) -> None:
    if not service.is_ready:
        service.metrics.rejected.labels("not ready").inc()
        if service.is_closing:
            raise NotReady("the service is shutting down.")
        raise NotReady("no replica is running; try again." if service.models else "the models are still loading; try again.")


def _add_asking(app: FastAPI, service: Service) -> None:
    @app.post("/v1/ask", responses={200: {"model": schemas.AnswerBody}, **PROBLEMS}, tags=["ask"])
    async def ask(request: Request, body: schemas.AskBody) -> Response:
        """Answer a question, with the paths behind the answer."""
        _check_ready(service)
        job = service.job(body)
        _note(request, service, [body])
        refused = await _computed(request, service, [job])
        if refused is not None:
            return refused
        error = job.future.exception()
        return JsonResponse(job.future.result()) if error is None else _failed(error)

    @app.post("/v1/ask_many", responses={200: {"model": schemas.AnswersBody}, **PROBLEMS}, tags=["ask"])
    async def ask_many(request: Request, body: schemas.AskManyBody) -> Response:
        """Answer several questions. One that is wrong has an error in place of its answer."""
        _check_ready(service)
        answers: list[bytes | Job] = []
        for one in body.questions:
            try:
                answers.append(service.job(one))
            except UserError as error:
                answers.append(bytes(wrong(error).body))
        _note(request, service, body.questions)
        refused = await _computed(request, service, [job for job in answers if isinstance(job, Job)])
        if refused is not None:
            return refused
        texts = [answer if isinstance(answer, bytes) else _outcome(answer) for answer in answers]
        return JsonResponse(b'{"answers": [' + b", ".join(texts) + b"]}")


def _note(request: Request, service: Service, bodies: Sequence[schemas.AskBody]) -> None:
    """Add to the request's log line. The texts of questions are private."""
    noted = request.scope["noted"]
    noted["questions"] = len(bodies)
    if service.settings.log_questions:
        noted["asked"] = [{"question": body.question, "choices": body.choices} for body in bodies]


async def _computed(request: Request, service: Service, jobs: list[Job]) -> Response | None:
    """Let jobs wait until all are done, the deadline has passed, or the client hangs up. Returns an answer if they are not done."""
    if not jobs:
        return None
    try:
        service.submit(jobs)
    except QueueFull as full:
        if service.is_closing:
            raise NotReady("the service is shutting down.") from None
        return queue_full(full, service.worker.capacity, service.metrics)
    gone = asyncio.ensure_future(_hung_up(request))
    done = asyncio.ensure_future(asyncio.wait([job.future for job in jobs]))
    try:
        await asyncio.wait([gone, done], timeout=service.settings.deadline, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            request.scope["noted"]["batch"] = max(job.batch for job in jobs)
            return None
        if gone.done():
            return Response(status_code=GONE)  # nobody reads it
        return _failed(DeadlinePassed())
    finally:
        gone.cancel()
        done.cancel()
        for job in jobs:
            job.is_dropped = not job.future.done()
            job.future.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _outcome(job: Job) -> bytes:
    error = job.future.exception()
    return job.future.result() if error is None else bytes(_failed(error).body)


def _failed(error: BaseException) -> JsonResponse:
    if isinstance(error, UserError):
        return wrong(error)
    if isinstance(error, DeadlinePassed):
        return failure(503, "the question was not answered in time; try again later.", headers={"Retry-After": "5"})
    if isinstance(error, Unavailable):
        return failure(503, "the question could not be computed now; try again.", headers={"Retry-After": "1"})
    return failure(500, "an unexpected error; it is in the log of the service.")


def _add_looking_up(app: FastAPI, service: Service) -> None:
    @app.get("/v1/concepts", responses={200: {"model": schemas.ConceptsBody}, **PROBLEMS}, tags=["graph"])
    def concepts(
        prefix: Annotated[str, Query(max_length=schemas.LIMITS.name)] = "",
        limit: Annotated[int, Query(ge=1, le=LONGEST_LISTED)] = 20,
        model: ModelName = None,
    ) -> Response:
        """Concepts whose names begin with a text, those with most facts first."""
        _check_ready(service)
        return JsonResponse({"concepts": service.model(model).concepts(prefix, limit)})

    @app.get("/v1/concept/{name:path}", responses={200: {"model": schemas.ConceptFactsBody}, **MISSING, **PROBLEMS}, tags=["graph"])
    def concept(name: str, limit: Annotated[int, Query(ge=1, le=LONGEST_LISTED)] = 100, model: ModelName = None) -> Response:
        """The facts of a concept as sentences."""
        _check_ready(service)
        found = service.model(model).concept(name[: schemas.LIMITS.name + 1], limit)
        return failure(404, "the graph has no such concept.", "name") if found is None else JsonResponse(found)

    @app.get("/v1/relations", responses={200: {"model": schemas.RelationsBody}, **PROBLEMS}, tags=["graph"])
    def relations(model: ModelName = None) -> Response:
        """The relations of the graph, and how their facts are said."""
        _check_ready(service)
        return JsonResponse({"relations": service.model(model).relations()})

    @app.get("/v1/model", responses={200: {"model": schemas.ModelsBody}, **PROBLEMS}, tags=["service"])
    def model() -> Response:
        """The models that are served, and the limits of requests."""
        _check_ready(service)
        limits = vars(service.settings.limits)
        return JsonResponse({"models": [one.about() for one in service.models.values()], "limits": limits})

    @app.get("/v1/examples", responses={200: {"model": schemas.ExamplesBody}, **PROBLEMS}, tags=["service"])
    def examples() -> Response:
        """Questions to begin with."""
        _check_ready(service)
        return JsonResponse({"examples": service.model(None).examples()})


def _add_status(app: FastAPI, service: Service) -> None:
    @app.get("/livez", responses={200: {"model": schemas.StatusBody}}, tags=["service"])
    async def livez() -> Response:
        """Whether the process answers."""
        return JsonResponse({"status": "alive"})

    @app.get("/readyz", responses={200: {"model": schemas.StatusBody}, 503: PROBLEMS[503]}, tags=["service"])
    async def readyz() -> Response:
        """Whether the models are loaded and warm."""
        _check_ready(service)
        return JsonResponse({"status": "ready"})

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, tags=["service"])
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(DOCS)

    @app.get("/docs/start.js", include_in_schema=False)
    async def start() -> Response:
        return Response(START, media_type="text/javascript")

    app.mount("/docs", StaticFiles(directory=SWAGGER), name="docs")
    app.mount("/static", StaticFiles(directory=PAGE), name="static")
