"""Runs and steps against a real pml."""

from __future__ import annotations

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from pml_client import current_run

from support import PATIENCE, ClientCase, indexed, records, trace


class Runs(ClientCase):
    def test_a_run_is_in_the_log_with_its_steps_and_their_data_flow(self) -> None:
        with self.pml.run("zip the reports", session="py-1") as run:
            self.assertIs(current_run(), run)
            files = run.step("fs:list", lambda path: [path + "/a"], path="reports")
            self.assertEqual(files.result, ["reports/a"])
            packed = run.step("zip:pack", lambda files, level: len(files), [files], level=9)
            self.assertEqual((packed.result, run.calls), (1, ["fs:list", "zip:pack"]))
        self.assertIsNone(current_run())
        self.sent()
        found = trace(run.id)
        self.assertEqual((found["success"], found["intent"]), (True, "zip the reports"))
        self.assertEqual([step["tool"] for step in found["steps"]], ["fs:list", "zip:pack"])
        self.assertEqual(found["steps"][1]["depends_on"], ["s1"])
        finished = [record["data"] for record in records(run.id) if record["type"] == "pml.step.finished"]
        self.assertEqual(finished[1]["arguments"], {"files": ["$OUTPUT[s1]"], "level": 9})

    def test_an_exception_is_a_failed_step_and_a_failed_run_and_is_not_swallowed(self) -> None:
        with self.assertRaises(TimeoutError), self.pml.run("fetch the page") as run:
            with run.step("web:get", url="x"):
                raise TimeoutError("too slow")
        self.sent()
        found = trace(run.id)
        self.assertEqual((found["success"], found["steps"][0]["success"]), (False, False))
        self.assertEqual(found["steps"][0]["error_kind"], "timeout")

    def test_a_step_inside_another_worked_for_it_and_runs_nest(self) -> None:
        with self.pml.run("research") as run:
            with run.step("web:research"):
                run.step("web:search", lambda: None)
            with run.run("a part of it") as inner, inner.step("web:read"):
                pass
        self.sent()
        steps = {step["tool"]: step for step in trace(run.id)["steps"]}
        self.assertEqual(steps["web:research"]["depends_on"], [steps["web:search"]["step"]])
        self.assertEqual(records(inner.id)[0]["data"]["parent"], run.id)

    def test_steps_on_several_threads_are_steps_of_one_run(self) -> None:
        together = threading.Barrier(4)
        with self.pml.run("look at everything") as run, ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda at: run.step("fs:read", together.wait, PATIENCE), range(4)))
            run.step("text:join", lambda parts: None, parts)
        self.sent()
        last = trace(run.id)["steps"][-1]
        self.assertEqual((last["tool"], sorted(last["depends_on"])), ("text:join", ["s1", "s2", "s3", "s4"]))

    def test_open_steps_end_with_their_run(self) -> None:
        with self.pml.run("two calls") as run:
            run.step("fs:stat", path="a")
            run.fail("not found")
        self.sent()
        found = trace(run.id)
        self.assertEqual((found["success"], found["steps"][0]["error_kind"]), (False, "unfinished"))

    def test_decorated_functions_are_steps_and_their_values_are_data_flow(self) -> None:
        @self.pml.tool("shop:find")
        def find(words: str, limit: int = 3) -> list[str]:
            """Finds things to buy."""
            return [words] * limit

        @self.pml.tool("shop:order")
        def order(things: list[str]) -> None:
            """Orders them."""

        self.assertEqual(find("soap", limit=1), ["soap"], "as it was, outside of a run")
        with self.pml.run("buy soap") as run:
            order(find("soap"))
        self.sent()
        steps = trace(run.id)["steps"]
        self.assertEqual([(step["tool"], step["depends_on"]) for step in steps], [("shop:find", []), ("shop:order", ["s1"])])
        schema = indexed("things to buy", "shop:find")["input_schema"]
        self.assertEqual(schema["properties"], {"words": {"type": "string"}, "limit": {"type": "integer"}})
        self.assertEqual(schema["required"], ["words"])

    def test_arguments_that_are_no_json_or_too_long_harm_nothing(self) -> None:
        with self.pml.run("odd arguments") as run:
            run.step("odd:one", lambda thing: None, object())
            run.step("odd:two", lambda text: None, "x" * 100_000)
            run.step("odd:three", lambda number: None, float("nan"))
        self.sent()
        given = [record["data"]["arguments"] for record in records(run.id) if record["type"] == "pml.step.finished"]
        self.assertTrue(given[0]["thing"].startswith("<object"))
        self.assertEqual(given[2], {"omitted": "not JSON"})
        self.assertIn("bytes", given[1]["omitted"])


if __name__ == "__main__":
    unittest.main()
