"""Runs every recipe of a document in a directory: SQL in DuckDB, Python in Polars. Prints how many rows each gave."""

import json
import os
import re
import sys

import duckdb


def rows(language, recipe):
    if language == "sql":
        return duckdb.sql(f"SELECT count(*) FROM ({recipe.strip().rstrip(';')})").fetchone()[0]
    names = {}
    exec(recipe, names)
    return names["answer"].height


document, directory = sys.argv[1:]
text = open(document).read()
os.chdir(directory)
found = re.findall(r"```(sql|python)\n(.*?)```", text, flags=re.DOTALL)
print(json.dumps([{"language": language, "recipe": recipe, "rows": rows(language, recipe)} for language, recipe in found]))
