"""The page *Recovery* in Airflow: a FastAPI application, built when the first request comes. It only shows; what changes anything goes through Airflow's
own API, from the browser.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from airflow.api_fastapi.core_api.security import requires_authenticated
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as PlainHTTPException

from streams_recovery.core.escaping import logger
from streams_recovery.ui.access import VisitorDep
from streams_recovery.ui.pages import Pages, page, static_file

LOGGER = logger("streams_recovery.ui")

Name = Annotated[str, Path(max_length=255)]
Moment = Annotated[str, Query(max_length=80)]
Window = Annotated[str, Query(max_length=10)]


def build(pages: Pages | None = None) -> FastAPI:
    """The application. Its routes are plain functions, so they run in threads: one that waits for a repository holds no other."""
    shown = pages or Pages()
    # No page that describes the interface: it would be a route without a guard.
    app = FastAPI(dependencies=[Depends(requires_authenticated())], docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_routes(app, shown)
    app.add_exception_handler(PlainHTTPException, refused)
    app.add_exception_handler(RequestValidationError, misunderstood)
    app.add_exception_handler(Exception, failed)
    return app


def _add_routes(app: FastAPI, pages: Pages) -> None:
    @app.get("/")
    def applications(visitor: VisitorDep, dag: Annotated[str, Query(max_length=300)] = "") -> Response:
        return pages.of_dag(visitor, dag) if dag else pages.applications(visitor)

    @app.get("/applications/{name}")
    def application(visitor: VisitorDep, name: Name, at: Moment = "", time: Moment = "", window: Window = "") -> Response:
        return pages.application(visitor, name, time or at, window)

    @app.get("/applications/{name}/instant")
    def instant(visitor: VisitorDep, name: Name, at: Moment = "", window: Window = "") -> Response:
        return pages.instant(visitor, name, at, window)

    @app.get("/applications/{name}/start/{what}")
    def start(visitor: VisitorDep, name: Name, what: Name, at: Moment = "") -> Response:
        return pages.start(visitor, name, what, at)

    @app.get("/applications/{name}/savepoints/{savepoint_id}")
    def savepoint(visitor: VisitorDep, name: Name, savepoint_id: Name) -> Response:
        return pages.savepoint(visitor, name, savepoint_id)

    @app.get("/applications/{name}/savepoints/{savepoint_id}/start/{what}")
    def start_on_savepoint(visitor: VisitorDep, name: Name, savepoint_id: Name, what: Name) -> Response:
        return pages.start_on_savepoint(visitor, name, savepoint_id, what)

    @app.get("/static/{name}")
    def static(name: Name) -> Response:
        found = static_file(name)
        if found is None:
            raise HTTPException(404, "There is no such file.")
        return found


def _root(request: Request) -> str:
    """From the address of the request to the page's first one."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return "../" * max(0, path.count("/") - 1) or "./"


async def refused(request: Request, error: Exception) -> Response:
    """The answer for a page that a person may not see, or that is not there."""
    status = getattr(error, "status_code", 500)
    return page("error.html", root=_root(request), status=status, code=status, text=_said(status, error))


async def misunderstood(request: Request, _error: Exception) -> Response:
    """The answer for an address that is none of the page's."""
    return page("error.html", root=_root(request), status=400, code=400, text="The address of this page is not complete or too long.")


async def failed(request: Request, error: Exception) -> Response:
    """The answer for a mistake in this software: the log has it, the page does not."""
    LOGGER.error("The page %s failed", request.url.path, exc_info=error)
    return page("error.html", root=_root(request), status=500, code=500, text="This page failed. The log of Airflow's API server says why.")


def _said(status: int, error: Exception) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return "You are not logged in, or your login has expired. Log in to Airflow."
    return str(getattr(error, "detail", ""))
