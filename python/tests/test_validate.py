"""Verdicts on files."""

import pytest

import tiffjet


def test_a_cog_is_valid(cog):
    verdict = tiffjet.validate(cog)
    assert verdict == {"valid": True, "tiff": True, "geotiff": True, "cog": True, "claims_cog": True, "errors": [], "warnings": []}
    with open(cog, "rb") as file:
        assert tiffjet.validate(file.read()) == verdict


def test_what_is_wrong_has_a_place(folder, pixels):
    tiffjet.to_geotiff(pixels, "plain.tif", strips=True)
    verdict = tiffjet.validate("plain.tif")
    assert verdict["valid"] and not verdict["cog"] and all(error["rules"] == "cog" for error in verdict["errors"])
    with open("text.tif", "w") as file:
        file.write("no TIFF at all, but long enough")
    verdict = tiffjet.validate("text.tif")
    assert not verdict["valid"] and verdict["errors"][0]["offset"] == 0 and verdict["errors"][0]["rules"] == "tiff"
    with pytest.raises(FileNotFoundError):
        tiffjet.validate("none.tif")
