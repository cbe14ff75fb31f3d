"""Retries of a request that another client is in the way of: between two attempts it holds no thread.

The handler calls `retries_of` and `pause` as for any retry. On a thread of the server's pool the pause ends the attempt
by RetryLaterError, and the endpoint serves the request again after that time, with the same count of retries. An
attempt has to leave nothing behind.
"""

import logging
from contextvars import ContextVar
from dataclasses import replace

from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop


class RetryLaterError(Exception):
    """The request is to be served again after this number of seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request is served again in {seconds:.2f} s")
        self.seconds = seconds


class RequestRetries:
    """The retries of one request over all of its attempts."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop: RetryLoop | None = None


request_retries: ContextVar[RequestRetries | None] = ContextVar("request_retries", default=None)
"""The retries of the request that this thread serves; None where a pause has to be slept through."""


def retries_of(backoff: ExponentialBackoff, what: str, log: logging.Logger) -> RetryLoop:
    """Return the retries of some work; within a request, those that its earlier attempts have counted."""
    request = request_retries.get()
    if request is None:
        return backoff.start(what, log)
    if request.loop is None:
        request.loop = replace(backoff, sleep=_end_attempt).start(what, log)
    return request.loop


def _end_attempt(seconds: float) -> None:
    raise RetryLaterError(seconds)
