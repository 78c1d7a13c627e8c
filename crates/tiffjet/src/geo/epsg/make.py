#!/usr/bin/env python3
"""Writes the EPSG tables from PROJ's database.   make.py PROJ_DB"""

import math
import sqlite3
import sys
from pathlib import Path

db = sqlite3.connect(sys.argv[1])
folder = Path(__file__).parent


def query(columns, table, where="auth_name = 'EPSG'"):
    return db.execute(f"SELECT {columns} FROM {table} WHERE {where}").fetchall()


def write(name, rows):
    lines = ("\t".join(map(str, row)).rstrip("\t") + "\n" for row in sorted(rows))
    (folder / f"{name}.tsv").write_text("".join(lines))


def number(value):
    text = repr(float(value))
    return text.removesuffix(".0")


EXACT = {
    9102: math.pi / 180,
    9122: math.pi / 180,
    9103: math.pi / 10800,
    9104: math.pi / 648000,
    9105: math.pi / 200,
    9106: math.pi / 200,
}
DMS = 9110  # DDD.MMSSsss
units = {int(c): (n, t, f) for c, n, t, f in query("code, name, type, conv_factor", "unit_of_measure")}
esri = {}
for table, code, name in query(
    "table_name, code, alt_name", "alias_name", "auth_name = 'EPSG' AND source = 'ESRI'"
):
    esri.setdefault((table, int(code)), name)


def degrees(value, unit):
    unit = int(unit)
    if unit == DMS:
        whole, fraction = f"{abs(value):.10f}".split(".")
        seconds = float(f"{fraction[2:4]}.{fraction[4:]}")
        return math.copysign(int(whole) + int(fraction[:2]) / 60 + seconds / 3600, value)
    if unit in (9102, 9122):
        return value
    if unit in (9105, 9106):
        return value * 0.9
    return math.degrees(value * units[unit][2])


def rounded(value, unit):
    return number(round(degrees(value, unit), 13))


kinds = {"length": "l", "angle": "a", "scale": "s"}
write(
    "unit",
    [
        (c, kinds[t], number(EXACT.get(c, f)), "degree" if c == 9122 else n)
        for c, (n, t, f) in units.items()
        if t in kinds and f and " per " not in n and n != "(bin)"
    ],
)


def inverse_flattening(a, b, inverse):
    if inverse:
        return number(inverse)
    return number(1 / (1 - b / a)) if b and b != a else 0


write(
    "ellipsoid",
    [
        (int(c), number(a * units[int(u)][2]), inverse_flattening(a, b, f), n)
        for c, a, u, f, b, n in query(
            "code, semi_major_axis, uom_code, inv_flattening, semi_minor_axis, name", "ellipsoid"
        )
    ],
)
write(
    "meridian",
    [(int(c), rounded(l, u), n) for c, l, u, n in query("code, longitude, uom_code, name", "prime_meridian")],
)
write(
    "datum",
    [
        (int(c), int(e), int(m), n, esri.get(("geodetic_datum", int(c)), ""))
        for c, e, m, n in query("code, ellipsoid_code, prime_meridian_code, name", "geodetic_datum")
    ],
)

axes = {}
for system, direction, unit in query(
    "coordinate_system_code, orientation, uom_code",
    "axis",
    "coordinate_system_auth_name = 'EPSG' ORDER BY coordinate_system_code, coordinate_system_order",
):
    axes.setdefault(int(system), []).append((direction, int(unit or 0)))
LETTERS = {"east": "e", "north": "n", "west": "w", "south": "s", "up": "u", "down": "d"}


def letters(system):
    return "".join(LETTERS.get(direction.lower().split(" ")[0], "x") for direction, _ in axes[int(system)])


def unit_of(system):
    return axes[int(system)][0][1]


dimensions = {"geographic 2D": "2", "geographic 3D": "3", "geocentric": "c"}
write(
    "geodetic",
    [
        (int(c), dimensions[t], int(d), unit_of(s), int(old), n, esri.get(("geodetic_crs", int(c)), ""))
        for c, t, d, s, old, n in query(
            "code, type, datum_code, coordinate_system_code, deprecated, name",
            "geodetic_crs",
            "auth_name = 'EPSG' AND datum_auth_name = 'EPSG'",
        )
    ],
)
write("vertical_datum", [(int(c), n) for c, n in query("code, name", "vertical_datum")])
write(
    "vertical",
    [
        (int(c), int(d), unit_of(s), letters(s), n)
        for c, d, s, n in query(
            "code, datum_code, coordinate_system_code, name",
            "vertical_crs",
            "auth_name = 'EPSG' AND datum_auth_name = 'EPSG'",
        )
    ],
)
names = {
    int(c): n
    for table in ("projected_crs", "vertical_crs", "geodetic_crs")
    for c, n in query("code, name", table)
}
write(
    "compound",
    [
        (int(c), int(h), int(v), "" if n == f"{names[int(h)]} + {names[int(v)]}" else n)
        for c, h, v, n in query("code, horiz_crs_code, vertical_crs_code, name", "compound_crs")
    ],
)


def parameters(row):
    """(code, text) of each parameter of a row of the conversion table."""
    for i in range(7, 42, 5):
        code, value, unit = row[i], row[i + 1], row[i + 3]
        if None in (code, value, unit):
            continue
        unit = int(unit)
        kind = units[unit][1]
        if kind == "angle":
            yield int(code), rounded(value, unit)
        elif kind == "length":
            yield int(code), number(value) + ("" if unit == 9001 else f"@{unit}")
        else:
            yield int(code), number(value if unit == 9201 else value * units[unit][2])


conversions = [(int(r[1]), int(r[5]), r[2], list(parameters(r))) for r in query("*", "conversion_table")]
conversion_names = {code: name for code, _, name, _ in conversions}
projected = query(
    "code, geodetic_crs_code, conversion_code, coordinate_system_code, deprecated, name",
    "projected_crs",
    "auth_name = 'EPSG' AND geodetic_crs_auth_name = 'EPSG'",
)
used = {int(row[2]) for row in projected}
orders = {}
for _, method, _, values in conversions:
    orders.setdefault(method, set()).add(tuple(code for code, _ in values))
map_methods = {method for code, method, _, _ in conversions if code in used and len(orders[method]) == 1}
write(
    "conversion",
    [(c, m, n, " ".join(text for _, text in values)) for c, m, n, values in conversions if m in map_methods],
)


def projected_name(name, base, conversion):
    return "" if name == f"{names[int(base)]} / {conversion_names[int(conversion)]}" else name


write(
    "projected",
    [
        (int(c), int(b), int(v), unit_of(s), letters(s) + "-" * int(old), projected_name(n, b, v))
        for c, b, v, s, old, n in projected
    ],
)
successors = {}
for old, new in query(
    "deprecated_code, replacement_code",
    "deprecation",
    "deprecated_auth_name = 'EPSG' AND replacement_auth_name = 'EPSG' AND source = 'EPSG'"
    " AND table_name IN ('projected_crs', 'geodetic_crs', 'vertical_crs', 'compound_crs')",
):
    successors.setdefault(int(old), []).append(int(new))
write("replaced", [(old, new[0]) for old, new in successors.items() if len(new) == 1])
