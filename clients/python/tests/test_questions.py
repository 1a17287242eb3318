"""Questions, on a server that has seen nothing but these runs: what other runs do would be learnt too."""

from __future__ import annotations

import asyncio
import unittest

from pml_client import AsyncClient, PmlError, Refused

from support import PATIENCE, URL, ClientCase, eventually, indexed, suggested, trace


class Questions(ClientCase):
    def learn(self, runs: int = 6) -> None:
        for _ in range(runs):
            with self.pml.run("copy the ledger") as run:
                page = run.step("book:open", lambda: "page")
                run.step("book:copy", lambda page: None, page)
        self.sent()
        trace(run.id)

        def learnt() -> bool | None:
            ranked = self.pml.predict("copy the ledger")["ranked"]
            return True if ranked and ranked[0]["item"] == "book:open" else None

        # The words of an intent count once their vector is in the log.
        eventually(learnt)
        indexed("copy the ledger", "book:open")
        suggested("copy the ledger")

    def test_what_was_learnt_is_predicted_found_suggested_and_explained(self) -> None:
        self.learn()
        prediction = self.pml.predict("copy the ledger", context=["book:open"])
        self.assertEqual(prediction["ranked"][0]["item"], "book:copy")
        self.assertIn("book:open", [one["id"] for one in self.pml.discover("copy the ledger", limit=50)["results"]])
        plan = self.pml.suggest("copy the ledger")["plan"]
        assert plan is not None
        self.assertIn("book:copy", [task["tool"] for task in plan["tasks"]])
        explanation = self.pml.explain("copy the ledger", context=["book:open"])
        self.assertTrue(explanation["item"] == "book:copy" and explanation["taught"])
        self.assertIn("applied_seq", self.pml.ask("state"))
        self.assertIn("tool", str(self.pml.ask("related", {"tool": "book:open"})))
        self.pml.feedback("accepted", suggestion=plan["id"])
        with self.pml.run("copy the ledger", predict=True) as run:
            step = run.step("book:open", lambda: None)
            self.assertEqual(run.predict()["ranked"][0]["item"], "book:copy")  # type: ignore[index]
        assert step.prediction is not None
        self.assertEqual(step.prediction["ranked"][0]["item"], "book:open")
        self.sent()

    def test_predictions_arrive_after_the_start_and_after_each_step(self) -> None:
        self.learn()
        heard = self.pml.subscribe("py-stream", timeout=PATIENCE)
        with self.pml.run("copy the ledger", session="py-stream") as run:
            first = next(heard)
            run.step("book:open", lambda: None)
            second = next(heard)
            self.pml.feedback("accepted", prediction=second["prediction"])
        self.assertEqual([one["execution"] for one in (first, second)], [run.id] * 2)
        self.assertEqual([one["ranked"][0]["item"] for one in (first, second)], ["book:open", "book:copy"])
        self.sent()

    def test_a_whole_run_is_recorded_as_one_document(self) -> None:
        answer = self.pml.record({"intent": "x", "steps": [{"tool": "a:b"}, {"tool": "a:c", "depends_on": ["s1"]}]})
        self.assertEqual(answer["accepted"], 4)
        self.assertEqual(len(trace(answer["execution"])["steps"]), 2)
        with self.assertRaisesRegex(Refused, r"steps\[0\]\.tool: is missing"):
            self.pml.record({"intent": "x", "steps": [{}]})

    def test_a_wrong_question_is_told_and_a_refused_event_is_counted(self) -> None:
        with self.assertRaisesRegex(Refused, "limit"):
            self.pml.predict("x", limit=0)
        with self.assertRaises(PmlError):
            self.pml.feedback("accepted")
        with self.assertLogs("pml_client", "WARNING"):
            self.pml.register("not a tool", "x")
            self.assertTrue(self.pml.flush(PATIENCE))
        stats = self.pml.stats()
        self.assertEqual((stats.refused, stats.dropped), (1, 0))
        self.assertIn("data.tool", stats.refusals[0])


class AsyncQuestions(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.pml = AsyncClient(URL, timeout=PATIENCE, prediction_timeout=PATIENCE)

    async def asyncTearDown(self) -> None:
        await self.pml.close()

    async def test_questions_predictions_and_decorators(self) -> None:
        @self.pml.tool("tea:boil")
        async def boil() -> str:
            """Boils water."""
            return "hot water, enough for two cups"

        @self.pml.tool("tea:pour")
        async def pour(water: str) -> None:
            """Pours it."""

        for _ in range(6):
            async with self.pml.run("make tea") as run:
                await pour(await boil())
        self.assertTrue(await self.pml.flush(PATIENCE))
        found = await asyncio.to_thread(trace, run.id)
        self.assertEqual(found["steps"][1]["depends_on"], ["s1"])
        answer = await self.pml.predict("make tea", context=["tea:boil"])
        self.assertEqual(answer["ranked"][0]["item"], "tea:pour")
        await asyncio.to_thread(indexed, "boil water", "tea:boil")
        await asyncio.to_thread(suggested, "make tea")
        self.assertTrue((await self.pml.discover("boil water"))["results"])
        self.assertIsNotNone((await self.pml.suggest("make tea"))["plan"])
        self.assertEqual((await self.pml.explain("make tea", context=["tea:boil"]))["item"], "tea:pour")
        self.assertEqual((await self.pml.record({"intent": "x", "steps": [{"tool": "a:b"}]}))["accepted"], 3)
        async with self.pml.run("make tea", predict=True) as run:
            step = await run.step("tea:boil", lambda: None)
            self.assertEqual(step.prediction["ranked"][0]["item"], "tea:boil")  # type: ignore[index]
            self.assertEqual((await run.predict())["ranked"][0]["item"], "tea:pour")  # type: ignore[index]


if __name__ == "__main__":
    unittest.main()
