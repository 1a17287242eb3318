"""Counts the rows of events files with DuckDB and with Polars, file by file and all together, and adds up what a state also knows."""

import glob
import json
import sys

import duckdb
import polars as pl

directory = sys.argv[1]
pattern = f"{directory}/*/*.parquet"
steps = "count(*) FILTER (WHERE kind = 'step.finished')"
by_duckdb = duckdb.sql(f"""
    SELECT count(*), sum(seq)::BIGINT, max(seq)::BIGINT, {steps}, count(DISTINCT day), sum(steps)::BIGINT, sum(duration_ms)::BIGINT,
           min(epoch_us(recorded_at))
    FROM read_parquet('{pattern}', hive_partitioning = true)
""").fetchone()
frame = pl.read_parquet(pattern, hive_partitioning=True)
by_polars = (
    frame.height,
    frame["seq"].sum(),
    frame["seq"].max(),
    frame.filter(pl.col("kind") == "step.finished").height,
    frame["day"].n_unique(),
    frame["steps"].sum(),
    frame["duration_ms"].sum(),
    frame["recorded_at"].dt.epoch("us").min(),
)
kinds = dict(duckdb.sql(f"SELECT kind, count(*) FROM '{pattern}' GROUP BY kind").fetchall())
files = sorted(glob.glob(pattern))
each = [[duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchone()[0], pl.read_parquet(file).height] for file in files]
types = [[name, kind] for name, kind in duckdb.sql(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '{files[0]}')").fetchall()]
print(json.dumps({"duckdb": by_duckdb, "polars": by_polars, "kinds": kinds, "files": each, "types": types}))
