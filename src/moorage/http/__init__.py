"""The HTTP layer that every API is built on: routes, calls, answers, and the OpenAPI documents generated from them."""

from moorage.http.answers import NO_STORE, Answer
from moorage.http.app import App, Limits
from moorage.http.calls import Call, Headers, NoBody, NoQuery, current_request_id
from moorage.http.declarations import SPEC_RELEASE, Deprecation, Example
from moorage.http.errors import WIRE, ErrorAnswer, Wire, render_error
from moorage.http.inputs import Int64
from moorage.http.routes import FORM, Api, Route

__all__ = [
    "FORM",
    "NO_STORE",
    "SPEC_RELEASE",
    "WIRE",
    "Answer",
    "Api",
    "App",
    "Call",
    "Deprecation",
    "ErrorAnswer",
    "Example",
    "Headers",
    "Int64",
    "Limits",
    "NoBody",
    "NoQuery",
    "Route",
    "Wire",
    "current_request_id",
    "render_error",
]
