type Pair<T> = [T, T];
async function twice<T>(f: (x: T) => Promise<T>, x: T): Promise<T> { return await f(await f(x)); }
const step = async (n: number) => (await mcp.calc.add({ a: n, b: 1 })).sum;
let total = await twice(step, 1);
try { total += await mcp.calc.mul({ a: total, b: 2 }); } catch (error) { console.log(error); } finally { total++; }
const [a, b]: Pair<number> = await Promise.all([step(total), step(0)]);
switch (a) { case 1: break; default: while (false) {} }
return { a, b, total, deep: { list: [1, , 2], ...null } };
