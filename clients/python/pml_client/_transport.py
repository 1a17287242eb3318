"""How requests reach pml: HTTP by the standard library. NATS is in `_nats`."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from ._errors import PmlError, Refused, TooLarge, Unreachable

Json = dict[str, Any]
#: Answers after which the same request may succeed.
_RETRIED = {408, 429, 500, 502, 503, 504, 507}
_DEFAULT_URL = "http://127.0.0.1:8080"


class Transport(Protocol):
    def publish(self, events: Sequence[Json], timeout: float) -> list[Json]:
        """Sends events; one result for each."""
        ...

    def ask(self, question: str, body: Mapping[str, Any], timeout: float) -> Json: ...

    def predictions(self, session: str | None, timeout: float | None) -> Iterator[Json]: ...

    def close(self) -> None: ...


def connect(url: str | None, key: str | None, workspace: str) -> Transport:
    url = url or os.environ.get("PML_URL") or _DEFAULT_URL
    if url.startswith(("nats://", "tls://")):
        from ._nats import NatsTransport

        return NatsTransport(url, workspace)
    return HttpTransport(url, key or os.environ.get("PML_KEY"))


class HttpTransport:
    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PmlError(f"url: '{url}' is not http://HOST:PORT, https://HOST or nats://HOST:PORT")
        self.url = url
        self._connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        # One connection per thread: they are not made for sharing.
        self._local = threading.local()

    def publish(self, events: Sequence[Json], timeout: float) -> list[Json]:
        status, answer = self._request("POST", "/v1/events", json.dumps(events), timeout)
        if "results" in answer:
            return list(answer["results"])
        raise _error(status, answer)

    def ask(self, question: str, body: Mapping[str, Any], timeout: float) -> Json:
        if question in ("related", "state", "models"):
            path = f"/v1/{question}?{urlencode(body)}" if body else f"/v1/{question}"
            status, answer = self._request("GET", path, None, timeout)
        else:
            status, answer = self._request("POST", f"/v1/{question}", json.dumps(body), timeout)
        if status >= 400:
            raise _error(status, answer)
        return answer

    def predictions(self, session: str | None, timeout: float | None) -> Iterator[Json]:
        connection = self._connect(timeout)
        query = f"?session={quote(session, safe='')}" if session else ""
        try:
            connection.request("GET", f"{self._prefix}/v1/predictions{query}", headers=self._headers)
            # The answer begins when pml listens: whoever has it misses nothing after.
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error
        if response.status != 200:
            raise _error(response.status, _parse(response.read()))
        return self._heard(connection, response)

    def _heard(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[Json]:
        try:
            for line in response:
                if line.startswith(b"data: {"):
                    message = json.loads(line[6:])
                    if "ranked" in message:
                        yield message
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        return self._connection_class(self._host, self._port, timeout=timeout)

    def _request(self, method: str, path: str, body: str | None, timeout: float) -> tuple[int, Json]:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        data = body.encode() if body is not None else None
        if kept is not None and kept.sock is not None:
            kept.sock.settimeout(timeout)
            try:
                return self._exchange(kept, method, path, data)
            except TimeoutError as error:
                kept.close()
                raise Unreachable(f"{self.url}: no answer within {timeout} s") from error
            except (OSError, http.client.HTTPException):
                # The server may have closed it while it was idle; ids make a second attempt harmless.
                kept.close()
        connection = self._connect(timeout)
        self._local.connection = connection
        try:
            return self._exchange(connection, method, path, data)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, data: bytes | None) -> tuple[int, Json]:
        connection.request(method, self._prefix + path, data, self._headers)
        response = connection.getresponse()
        return response.status, _parse(response.read())


def _parse(body: bytes) -> Json:
    try:
        answer = json.loads(body)
    except ValueError:
        return {"error": body[:200].decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"error": "the answer is not an object"}


def _error(status: int, answer: Json) -> PmlError:
    message = str(answer.get("error", f"answered with status {status}"))
    if status in _RETRIED:
        return Unreachable(message)
    return TooLarge(status, message) if status == 413 else Refused(status, message)
