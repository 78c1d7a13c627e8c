"""What is found on this machine."""

import json

import tiffjet


def test_the_doctor_knows_this_machine():
    facts = tiffjet.doctor()
    assert facts["tiffjet"] == tiffjet.__version__ and facts["packages"]["numpy"]["version"]
    assert facts["devices"][0]["device"] == "cpu" and "threads" in facts["devices"][0]["what"]
    assert {"zstd", "deflate", "lerc", "jpeg"} <= set(facts["codecs"])
    assert json.loads(json.dumps(facts)) == facts
