"""Opens every file of a snapshot with DuckDB and with Polars and prints what both say about it."""

import json
import pathlib
import sys

import duckdb
import polars

SUMS = {
    "tools": ["calls", "successes", "duration_total_ms"],
    "capabilities": ["usage", "successes"],
    "edges": ["declared", "observations", "successes"],
    "transitions": ["seen", "succeeded"],
    "traces": ["steps"],
    "intents": ["runs"],
    "texts": ["wanted"],
    "counters": ["value"],
}

report = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.parquet")):
    table = path.stem
    in_duckdb = duckdb.sql(f"select * from read_parquet('{path}')")
    in_polars = polars.read_parquet(path)
    columns = SUMS.get(table, [])
    sums = ", ".join(f"coalesce(sum({column}), 0)::bigint" for column in columns)
    counted = duckdb.sql(f"select count(*){', ' + sums if sums else ''} from read_parquet('{path}')").fetchall()[0]
    # Every value is decoded, not only counted.
    duckdb.sql(f"select max(hash(row)) from read_parquet('{path}') row").fetchall()
    report[table] = {
        "rows": {"duckdb": counted[0], "polars": in_polars.height},
        "columns": {"duckdb": in_duckdb.columns, "polars": in_polars.columns},
        "sums": {
            column: {"duckdb": counted[at + 1], "polars": int(in_polars[column].sum())} for at, column in enumerate(columns)
        },
    }
print(json.dumps(report))
