"""The same client over NATS: PML_TEST_NATS is the address of a server that a pml works on."""

from __future__ import annotations

import os
import unittest

from pml_client import Client, PmlError, Refused

from support import PATIENCE, eventually


class OverNats(unittest.TestCase):
    def test_runs_questions_and_predictions(self) -> None:
        pml = Client(os.environ["PML_TEST_NATS"])
        self.addCleanup(pml.close)
        for _ in range(6):
            with pml.run("bake bread") as run:
                dough = run.step("bake:knead", lambda: "dough")
                run.step("bake:heat", lambda dough: None, dough)
        self.assertTrue(pml.flush(PATIENCE))
        self.assertEqual((pml.stats().sent, pml.stats().dropped), (36, 0))

        def learnt() -> bool | None:
            ranked = pml.predict("bake bread", context=["bake:knead"])["ranked"]
            return True if ranked and ranked[0]["item"] == "bake:heat" else None

        eventually(learnt)
        heard = pml.subscribe("a.session", timeout=PATIENCE)
        with pml.run("bake bread", session="a.session") as run:
            self.assertEqual(next(heard)["execution"], run.id)
        with self.assertRaisesRegex(Refused, "limit"):
            pml.predict("x", limit=0)
        with self.assertRaisesRegex(PmlError, "HTTP only"):
            pml.record({"intent": "x", "steps": []})


if __name__ == "__main__":
    unittest.main()
