"""What can go wrong when pml is asked. Reporting runs raises none of these."""

from __future__ import annotations


class PmlError(Exception):
    """Any error of this package."""


class Unreachable(PmlError):
    """pml did not answer, or cannot answer at the moment. The same request may succeed later."""


class Refused(PmlError):
    """pml answered that the request is wrong; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Refused):
    """The body is larger than pml takes."""
