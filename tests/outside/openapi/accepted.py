"""A check for schemathesis: data that the description allows is accepted."""

import re

import schemathesis

# Not wrong by itself, but at this moment: not known, in the way of something else, too much.
OF_THE_MOMENT = {401, 403, 404, 409, 413, 429}
# What a JSON Schema cannot say: how members relate to each other, what is known, limits that are configured.
BEYOND_A_SCHEMA = re.compile(
    r"\(limits\.|is blank|is given besides an intent|is given twice|is not a (node|step above)|is not one of them"
    r"|there is no plan|cannot be (given|tool)|no known tool or capability|no capability is called|several servers"
    r"|not among the outcomes|was not served|is not the id of a record|success: is missing|closes? the cycle"
    r"|publish execution\.started|is closed|already (started|finished)|unknown step|agree"
)


@schemathesis.check
def valid_data_is_accepted(ctx, response, case):
    body = getattr(case, "media_type", None)
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_valid or not 400 <= response.status_code < 500 or body == "application/x-ndjson":
        return
    if response.status_code in OF_THE_MOMENT or BEYOND_A_SCHEMA.search(response.text):
        return
    raise AssertionError(f"valid data was refused with {response.status_code}: {response.text}")
