"""Addresses and pages. Every page is complete as it is sent; scripts only fetch it again."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from unisono.core.words import clean_lines
from unisono.core.words import number as upper
from unisono.dashboard import detail, shapes
from unisono.dashboard.catalogue import Catalogue, CatalogueEntry, trouble
from unisono.dashboard.guard import REPORT_POLICY, Guard, GuardedDoor
from unisono.dashboard.parties import viewers
from unisono.dashboard.summary import moment, path_text, summarise
from unisono.reports.page import STYLE
from unisono.reports.reading import who
from unisono.reports.state import SIMULATED
from unisono.runs.folder import Run

FORMAT = "unisono-dashboard-1"
_THEMES = ("light", "dark")
_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "This page needs the token of the dashboard that serves it",
    HTTPStatus.MISDIRECTED_REQUEST: "The dashboard does not answer to this name",
    HTTPStatus.METHOD_NOT_ALLOWED: "The dashboard can only be read",
    HTTPStatus.NOT_FOUND: "There is no such page, or no longer",
}


def make_app(catalogue: Catalogue, door: GuardedDoor) -> ASGIApp:
    """The dashboard of these runs, behind its door."""
    pages = _Pages(catalogue)
    routes = {
        "/": pages.runs,
        "/about": pages.about,
        "/runs/{run}": pages.run,
        "/runs/{run}/report": pages.report,
        "/api/runs": pages.runs_json,
        "/api/runs/{run}": pages.run_json,
        "/static/{name}": pages.static,
    }
    inner = Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()],
        exception_handlers={HTTPException: _no_page},
    )
    return Guard(inner, door, _refusal)


class _Pages:
    """One method for each address."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        # Versions of pages from before a restart are worth nothing.
        self.start = secrets.token_hex(8)
        package = resources.files("unisono.dashboard") / "static"
        own = {name: (package / name).read_bytes() for name in _STATIC if name != _STYLE}
        sheet = (package / _STYLE).read_text("utf-8")
        self.files = {**own, _STYLE: f"{STYLE}\n{sheet}".encode()}

    def runs(self, request: Request) -> Response:
        entries = self.catalogue.entries()

        def values() -> dict[str, Any]:
            found = [summarise(entry) for entry in entries]
            running = sum(one.state == "running" for one in found)
            return {
                "runs": found,
                "running": running,
                "folders": [path_text(folder) for folder in self.catalogue.folders],
            }

        return self._page(request, "runs.html", entries, values)

    def run(self, request: Request) -> Response:
        entry, wanted = self._entry(request), request.query_params.get("viewer")

        def values() -> dict[str, Any]:
            run, viewer = entry.run, None if entry.run is None else detail.chosen(entry.run, wanted)
            return {
                "summary": summarise(entry),
                "run": run,
                "viewer": viewer,
                "choices": [(one, who(one)) for one in viewers(run)] if run else [],
                "sections": detail.sections(run, viewer) if run else [],
            }

        try:
            return self._page(request, "run.html", [entry], values)
        except Exception as error:  # a document of another shape than any that we write
            entry = replace(entry, run=None, trouble=trouble(error))
            return self._page(request, "run.html", [entry], values)

    def about(self, request: Request) -> Response:
        return self._page(request, "about.html", [], dict)

    def report(self, request: Request) -> Response:
        content = self.catalogue.report(request.path_params["run"])
        if content is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(
            content, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
        )

    def runs_json(self, request: Request) -> Response:
        found = [summarise(entry).to_json() for entry in self.catalogue.entries()]
        return JSONResponse({"format": FORMAT, "runs": found})

    def run_json(self, request: Request) -> Response:
        entry = self._entry(request)
        document = {"format": FORMAT, **summarise(entry).to_json()}
        if entry.run is not None:
            try:
                document["documents"] = shapes.strict(_documents(entry.run))
            except RecursionError as error:
                document["error"] = trouble(error)
        return JSONResponse(document)

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.files:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(self.files[name], media_type=_STATIC[name])

    def _entry(self, request: Request) -> CatalogueEntry:
        entry = self.catalogue.entry(request.path_params["run"])
        if entry is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return entry

    def _page(
        self,
        request: Request,
        template: str,
        entries: list[CatalogueEntry],
        values: Callable[[], dict[str, Any]],
    ) -> Response:
        """The page, or a word that it is still the same; then nothing is drawn."""
        shown = [(entry.identifier, entry.version, entry.state) for entry in entries]
        key = repr((self.start, request.url.path, request.url.query, shown))
        version = f'"{sha256(key.encode()).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == version:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": version})
        theme = request.cookies.get("unisono-theme", "")
        page = _render(
            template,
            theme=theme if theme in _THEMES else "",
            version=version,
            base=request.scope["root_path"],
            **values(),
        )
        return Response(page, media_type="text/html", headers={"ETag": version})


_STYLE = "dashboard.css"
_STATIC = {_STYLE: "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
_ENVIRONMENT = Environment(
    loader=PackageLoader("unisono.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters.update(moment=moment, upper_bound=upper)
_ENVIRONMENT.globals["simulation"] = SIMULATED


def _render(template: str, **values: Any) -> str:
    return clean_lines(_ENVIRONMENT.get_template(template).render(**values))


def _documents(run: Run) -> dict[str, Any]:
    names = (
        "study",
        "progress",
        "timeline",
        "budgets",
        "result",
        "certificate",
        "evaluation",
        "transcript",
        "attacks",
        "damaged",
        "thinned",
    )
    return {name: getattr(run, name) for name in names}


def _refusal(status: HTTPStatus, door: GuardedDoor, base: str) -> Response:
    page = _render(
        "refused.html",
        theme="",
        version="",
        status=status.value,
        door=door,
        base=base,
        title=_REFUSALS[status],
    )
    return Response(page, status, media_type="text/html")


def _no_page(request: Request, error: Exception) -> Response:
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else 404)
    page = _render(
        "refused.html",
        theme="",
        version="",
        status=status.value,
        door=None,
        base=request.scope["root_path"],
        title=_REFUSALS.get(status, status.phrase),
    )
    return Response(page, status, media_type="text/html")


__all__ = ["make_app"]
