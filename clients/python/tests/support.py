"""A real pml, found by PML_TEST_URL, and a connection to it that can fail on demand."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from pml_client import Client

URL = os.environ.get("PML_TEST_URL", "http://127.0.0.1:8080")
PATIENCE = 30.0
T = TypeVar("T")


def eventually(ask: Callable[[], T | None]) -> T:
    until = time.monotonic() + PATIENCE
    while (answer := ask()) is None:
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
    return answer


def get(path: str) -> Any:
    try:
        with urllib.request.urlopen(URL + path) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def records(execution: str) -> list[dict[str, Any]]:
    """The records of an execution in the log."""
    with urllib.request.urlopen(URL + "/v1/events") as answer:
        lines = [json.loads(line) for line in answer]
    return [record for record in lines if record["data"].get("execution") == execution]


def trace(execution: str) -> dict[str, Any]:
    """An execution, once it is closed."""

    def closed() -> dict[str, Any] | None:
        found = get(f"/v1/traces/{execution}")
        return found if found and found["status"] != "open" else None

    return eventually(closed)


def indexed(intent: str, tool: str) -> dict[str, Any]:
    """A tool as discover answers it, once the index that follows the log has it."""

    def found() -> dict[str, Any] | None:
        body = json.dumps({"intent": intent, "limit": 50}).encode()
        asked = urllib.request.Request(URL + "/v1/discover", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            return next((one for one in json.load(answer)["results"] if one["id"] == tool), None)

    return eventually(found)


def suggested(intent: str) -> dict[str, Any]:
    """The plan for an intent, once the index that follows the log has its runs."""

    def plan() -> dict[str, Any] | None:
        body = json.dumps({"intent": intent}).encode()
        asked = urllib.request.Request(URL + "/v1/suggest", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            found: dict[str, Any] | None = json.load(answer)["plan"]
            return found

    return eventually(plan)


class ClientCase(unittest.TestCase):
    def setUp(self) -> None:
        self.pml = Client(URL, timeout=PATIENCE, prediction_timeout=PATIENCE)
        self.addCleanup(self.pml.close)

    def sent(self) -> None:
        """All that was reported is in the log."""
        self.assertTrue(self.pml.flush(PATIENCE))
        stats = self.pml.stats()
        self.assertEqual((stats.refused, stats.dropped, stats.refusals), (0, 0, ()))


class Proxy:
    """A TCP connection to pml. `mode` is forward, refuse, hang, or lose: the request arrives and its answer does not."""

    def __init__(self) -> None:
        host, port = URL.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self.mode = "forward"
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            if self.mode == "refuse":
                client.close()
            elif self.mode != "hang":
                server = socket.create_connection(self._target)
                self._open.append(server)
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer and self.mode == "lose":
                    self.lost += 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
