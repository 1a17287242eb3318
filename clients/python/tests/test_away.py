"""pml away, slow, or losing answers: the agent goes on, and nothing is doubled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unittest

from pml_client import Client, Unreachable
from pml_client._sender import Sender

from support import PATIENCE, Proxy, eventually, records, trace


class Away(unittest.TestCase):
    def setUp(self) -> None:
        self.proxy = Proxy()
        self.addCleanup(self.proxy.close)

    def client(self, **options: object) -> Client:
        client = Client(self.proxy.url, timeout=1.0, **options)  # type: ignore[arg-type]
        self.addCleanup(client.close, 0.0)
        return client

    def test_events_wait_while_pml_is_away_and_arrive_when_it_is_back(self) -> None:
        self.proxy.mode = "refuse"
        pml = self.client()
        with pml.run("survive") as run:
            run.step("a:b", lambda: None)
        self.assertFalse(pml.flush(0.05))
        self.assertEqual(pml.stats().waiting, 4)
        self.proxy.mode = "forward"
        self.assertTrue(pml.flush(PATIENCE))
        self.assertEqual((pml.stats().sent, len(trace(run.id)["steps"])), (4, 1))

    def test_a_lost_answer_is_followed_by_the_same_events_and_each_is_recorded_once(self) -> None:
        self.proxy.mode = "lose"
        pml = self.client()
        with pml.run("once") as run:
            run.step("a:b", lambda: None)
        eventually(lambda: self.proxy.lost >= 2 or None)
        self.proxy.mode = "forward"
        self.assertTrue(pml.flush(PATIENCE))
        trace(run.id)
        kinds = [record["type"] for record in records(run.id) if not record["type"].endswith(("completed", "served"))]
        self.assertEqual(sorted(kinds), ["pml.execution.finished", "pml.execution.started", "pml.step.finished", "pml.step.started"])
        self.assertEqual((pml.stats().sent, pml.stats().refused), (4, 0))

    def test_a_full_buffer_drops_and_counts_and_never_blocks(self) -> None:
        self.proxy.mode = "hang"
        pml = self.client(buffer_events=10, prediction_timeout=1.0)
        begun = time.monotonic()
        with pml.run("never block", predict=True) as run:
            for _ in range(100):
                self.assertIsNone(run.step("a:b", lambda: None).prediction)
        self.assertLess(time.monotonic() - begun, 30.0, "one prediction is waited for, then none for a while")
        stats = pml.stats()
        self.assertEqual((stats.waiting, stats.dropped), (10, 192))
        with self.assertRaises(Unreachable):
            pml.predict("x")
        begun = time.monotonic()
        pml.close(0.1)
        self.assertLess(time.monotonic() - begun, 30.0)
        eventually(lambda: pml.stats().dropped == 202 or None)

    def test_a_program_that_ends_sends_what_waits(self) -> None:
        program = "import sys; from pml_client import Client; run = Client(sys.argv[1]).run('at the end'); run.finish(); print(run.id)"
        done = subprocess.run([sys.executable, "-c", program, self.proxy.url], capture_output=True, text=True, check=True)
        self.assertTrue(trace(done.stdout.strip())["success"])

    def test_a_forked_child_reports_for_itself(self) -> None:
        pml = self.client()
        with pml.run("parent") as run:
            self.assertTrue(pml.flush(PATIENCE))
            child = os.fork()
            if child == 0:
                with run.step("child:work"):
                    pass
                os._exit(0 if pml.flush(PATIENCE) else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(pml.flush(PATIENCE))
        self.assertEqual([step["tool"] for step in trace(run.id)["steps"]], ["child:work"])

    def test_a_batch_that_is_too_large_is_sent_in_parts(self) -> None:
        pml = self.client(batch_seconds=0.2)
        with pml.run("large") as run:
            for _ in range(40):
                with run.step("a:b", text="x" * 60_000) as step:
                    step.summary = "y" * 60_000
        self.assertTrue(pml.flush(PATIENCE))
        self.assertEqual((pml.stats().refusals, len(trace(run.id)["steps"])), ((), 40))
        self.assertIsInstance(pml._sender, Sender)


if __name__ == "__main__":
    unittest.main()
