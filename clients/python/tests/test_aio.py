"""The asyncio client against a real pml."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from pml_client import AsyncClient, AsyncStep

from support import PATIENCE, URL, trace


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.pml = AsyncClient(URL, timeout=PATIENCE)

    async def asyncTearDown(self) -> None:
        await self.pml.close()

    async def test_parallel_steps_and_their_data_flow(self) -> None:
        together = asyncio.Barrier(3) if hasattr(asyncio, "Barrier") else None

        async def fetch(page: int) -> int:
            if together is not None:
                await together.wait()
            return page

        async with self.pml.run("fetch three pages") as run:
            steps: list[AsyncStep[Any]] = await asyncio.gather(*(run.step("web:get", fetch, page) for page in range(3)))
            total = await run.step("math:sum", sum, steps)
            self.assertEqual(total.result, 3)
            async with run.step("mail:send", total=total):
                pass
        self.assertTrue(await self.pml.flush(PATIENCE))
        found = await asyncio.to_thread(trace, run.id)
        flows = {step["tool"]: sorted(step["depends_on"]) for step in found["steps"]}
        self.assertEqual(flows, {"web:get": [], "math:sum": ["s1", "s2", "s3"], "mail:send": ["s4"]})

    async def test_a_subscription_hears_its_session(self) -> None:
        heard = self.pml.subscribe("py-async", timeout=PATIENCE)
        first = asyncio.ensure_future(anext(heard))
        while not first.done():
            async with self.pml.run("talk", session="py-async"):
                await asyncio.wait([first], timeout=1.0)
        self.assertEqual(first.result()["session"], "py-async")
        self.assertEqual(self.pml.stats().dropped, 0)


if __name__ == "__main__":
    unittest.main()
