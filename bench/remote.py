#!/usr/bin/env python3
"""Remote COGs: open and a window, open and one overview, tiffjet against every rival; requests counted by a proxy.

    python bench/remote.py [--data FOLDER] [--out FILE.json] [--rounds 9] [--engines a,b] [--files a,b] [--side 8192]
                           [--windows 512,1024,2048,4096] [--cores N]

nginx serves the files on the loopback, a proxy in front of it writes down every request and makes each of them wait
(0 and 20 ms). Each engine is a process that stays, so that connections are kept; every reading has a URL of its own
for the same file, so that nothing of the one before is in a cache. Then once more as the first reading of a process has
it: the proxy hangs up before each, and a new connection takes 20 ms as well. Engines take turns in an order that rotates; the
table has medians. All pixels are compared with those that GDAL reads from the local file.

Where the tiles of a window lie only the header tells, so nobody has a window in less than two round trips; a large index
takes one more, and so does a new connection. The less there is to decode, the more of everybody's time they are: beside
each ratio stands the one that an engine would have which needs no time of its own.

With --cores the engines share that many cores, the servers and the proxy have the others, as if they were elsewhere.

Throughput: a whole COG from nginx itself, without the proxy, against a plain download of the same bytes in parallel
ranges. Needs `make servers`.
"""

import argparse
import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python" / "tests" / "remote")]

ROUNDS = 9
# Seconds that a request takes, and whether connections are new.
NETWORKS = ((0.0, False), (0.02, False), (0.02, True))
# The first row and column of the windows: off the grid of tiles, as windows are; and their sides.
CORNER = (2100, 2700)
SIDES = (512, 1024, 2048, 4096)
# Of the file with a large index this window alone: it is there for its requests.
LARGE_INDEX, ITS_SIDE = "many-tiles", 1024
OVERVIEW = 512
NO_LISTING = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}

# Name: class, environment.
ENGINES = {
    "tiffjet": ("Tiffjet", {}),
    "gdal": ("Gdal", {}),
    "gdal-no-listing": ("Gdal", NO_LISTING),
    "gdal-tuned": ("Gdal", NO_LISTING | {
        "GDAL_INGESTED_BYTES_AT_OPEN": "65536", "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
        "GDAL_NUM_THREADS": "ALL_CPUS", "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif", "VSI_CACHE": "FALSE",
    }),
    "async-geotiff": ("AsyncGeotiff", {}),
    "xarray-spatial": ("XarraySpatial", {"XRSPATIAL_GEOTIFF_ALLOW_PRIVATE_HOSTS": "1"}),
}


# ---------------------------------------------------------------------------------------------- engines


class Tiffjet:
    def __init__(self):
        import tiffjet

        self.tiffjet = tiffjet

    def version(self):
        return self.tiffjet.__version__

    def window(self, url, rows, columns):
        return np.asarray(self.tiffjet.open(url).read(window=(rows, columns), device="cpu"))

    def whole(self, url):
        return np.asarray(self.tiffjet.open(url).read(device="cpu"))

    def overview(self, url, size):
        image = self.tiffjet.open(url)
        level = next(level for level in image.levels if max(level.shape[1:]) <= size)
        return np.asarray(image.read(level=level.level, device="cpu"))


class Gdal:
    def __init__(self):
        import rasterio

        self.rasterio = rasterio
        self.env = rasterio.Env()
        self.env.__enter__()

    def version(self):
        return f"{self.rasterio.__gdal_version__} (rasterio {self.rasterio.__version__})"

    def window(self, url, rows, columns):
        with self.rasterio.open(f"/vsicurl/{url}") as dataset:
            return dataset.read(window=self.rasterio.windows.Window.from_slices(rows, columns))

    def overview(self, url, size):
        # The overviews are known from the first open: the second asks the cache of /vsicurl, not the server.
        with self.rasterio.open(f"/vsicurl/{url}") as dataset:
            factors, longest = dataset.overviews(1), max(dataset.shape)
        level = next(i for i, factor in enumerate(factors) if longest / factor <= size)
        with self.rasterio.open(f"/vsicurl/{url}", overview_level=level) as dataset:
            return dataset.read()


class AsyncGeotiff:
    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.stores = {}

    def version(self):
        from importlib.metadata import version

        return version("async-geotiff")

    def _open(self, url):
        from async_geotiff import GeoTIFF
        from obstore.store import HTTPStore

        host, _, path = url.removeprefix("http://").partition("/")
        if host not in self.stores:
            self.stores[host] = HTTPStore.from_url(f"http://{host}", client_options={"allow_http": True})
        return GeoTIFF.open(path, store=self.stores[host])

    async def _window(self, url, rows, columns):
        from async_geotiff import Window

        tiff = await self._open(url)
        size = {"width": columns[1] - columns[0], "height": rows[1] - rows[0]}
        return (await tiff.read(window=Window(col_off=columns[0], row_off=rows[0], **size))).data

    async def _overview(self, url, size):
        tiff = await self._open(url)
        return (await next(o for o in tiff.overviews if max(o.height, o.width) <= size).read()).data

    def window(self, *arguments):
        return self.loop.run_until_complete(self._window(*arguments))

    def overview(self, *arguments):
        return self.loop.run_until_complete(self._overview(*arguments))


class XarraySpatial:
    """It has no handle: which level is wanted must be known, so it is told."""

    def __init__(self):
        import warnings

        warnings.simplefilter("ignore")
        if not hasattr(np, "row_stack"):  # gone since NumPy 2.5; xarray-spatial still asks for it
            np.row_stack = np.vstack
        from xrspatial.geotiff import open_geotiff

        self.open = open_geotiff

    def version(self):
        from importlib.metadata import version

        return version("xarray-spatial")

    @staticmethod
    def _bands_first(array):
        pixels = np.asarray(array)
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)

    def window(self, url, rows, columns):
        return self._bands_first(self.open(url, window=(rows[0], columns[0], rows[1], columns[1])).data)

    def overview(self, url, size):
        level = int(url.rpartition("-levels-")[2].split(".")[0]) + 1  # 0 is full size there
        return self._bands_first(self.open(url, overview_level=level).data)


class Download:
    """Not a reader: the bytes of the file in parallel ranges, by threads that each keep a connection."""

    PIECE = 4 << 20
    THREADS = 16

    def __init__(self):
        self.kept = threading.local()

    def version(self):
        return f"{self.THREADS} threads, ranges of {self.PIECE >> 20} MiB"

    def whole(self, url):
        host, _, path = url.removeprefix("http://").partition("/")
        size = int(self._ask("HEAD", host, path).getheader("Content-Length"))
        out = np.empty(size, "uint8")

        def fetch(start):
            end = min(start + self.PIECE, size)
            answer = self._ask("GET", host, path, {"Range": f"bytes={start}-{end - 1}"}, out[start:end])
            if answer.status != 206:
                raise OSError(f"{answer.status} for a range")

        with ThreadPoolExecutor(self.THREADS) as threads:
            list(threads.map(fetch, range(0, size, self.PIECE)))
        return out

    def _ask(self, method, host, path, fields=None, out=None):
        if getattr(self.kept, "host", None) != host:
            self.kept.host, self.kept.connection = host, http.client.HTTPConnection(host)
        self.kept.connection.request(method, f"/{path}", headers=fields or {})
        answer = self.kept.connection.getresponse()
        if out is None:
            answer.read()
        else:
            room = memoryview(out)
            while room and (count := answer.readinto(room)):
                room = room[count:]
        return answer


def serve(name):
    """An engine in its process: a task a line on stdin, `{"seconds": s}` or `{"error": ...}` a line on stdout."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = Download() if name == "download" else globals()[ENGINES[name][0]]()
    print(json.dumps({"version": engine.version()}), file=replies)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            call = getattr(engine, task["verb"])
            start = time.perf_counter()
            pixels = call(task["url"], *task["arguments"])
            seconds = time.perf_counter() - start
            if task["out"]:
                np.save(task["out"], np.ascontiguousarray(pixels))
            del pixels
            reply = {"seconds": seconds}
        except Exception as error:  # whatever an engine raises is its answer
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(reply), file=replies)


class Engine:
    """The other end of `serve`."""

    def __init__(self, name, cores):
        self.name = name
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", name]
        environment = {**os.environ, **(ENGINES[name][1] if name in ENGINES else {})}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.version = json.loads(self.process.stdout.readline() or '{"version": null}')["version"]

    def ask(self, verb, url, arguments, out):
        task = {"verb": verb, "url": url, "arguments": arguments, "out": out and str(out)}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process ended"}

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)


def start_engines(names, cores):
    """Those that can be started here; the others are said."""
    running = []
    for engine in (Engine(name, cores) for name in names):
        if engine.version is None:
            print(f"{engine.name} is left out: it can't be started here", flush=True)
            engine.process.wait(30)
        else:
            running.append(engine)
    return running


# ---------------------------------------------------------------------------------------------- files


def make_files(folder, names=(), side=8192):
    """COGs by GDAL: a float DEM, an RGB picture, and one with so many tiles that its index is large.

    All of them, or those that are named; the last one has twice as many rows and columns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)

    def smooth(size, step):
        coarse = rng.normal(size=(size // step + 2, size // step + 2)).cumsum(0).cumsum(1)
        at = np.arange(size) / step
        i, f = at.astype(int), (at % 1)[:, None]
        rows = coarse[i] * (1 - f) + coarse[i + 1] * f
        return rows[:, i] * (1 - f.T) + rows[:, i + 1] * f.T

    def dem():
        grid = smooth(side, 64).astype("float32")
        return (grid + rng.normal(scale=0.1, size=grid.shape).astype("float32"))[None]

    def rgb():
        grid = smooth(side, 32)
        grid = (grid - grid.min()) / (grid.max() - grid.min()) * 200
        return np.stack([(grid + shift + rng.integers(0, 8, grid.shape)).astype("uint8") for shift in (0, 20, 40)])

    def many():
        grid = smooth(2 * side, 64)
        return ((grid - grid.min()) / (grid.max() - grid.min()) * 250).astype("uint8")[None]

    made = {}
    for name, make, options in (
        ("dem", dem, {"compress": "ZSTD", "predictor": "YES", "blocksize": 512, "level": 1}),
        ("rgb", rgb, {"compress": "DEFLATE", "predictor": "YES", "blocksize": 512, "level": 1}),
        ("many-tiles", many, {"compress": "DEFLATE", "blocksize": 64, "level": 1}),
        ("plain", dem, {"compress": "NONE", "blocksize": 512, "overviews": "NONE"}),
    ):
        if names and name not in names:
            continue
        found = list(folder.glob(f"{name}-levels-*.tif"))
        made[name] = found[0] if found else make_cog(folder, name, make(), options)
    return made


def make_cog(folder, name, pixels, options):
    """The file's name says which overview is the one that is read."""
    import rasterio
    from rasterio.shutil import copy
    from rasterio.transform import Affine

    profile = {"driver": "GTiff", "count": len(pixels), "height": pixels.shape[1], "width": pixels.shape[2],
               "dtype": pixels.dtype, "crs": "EPSG:32633", "transform": Affine(10, 0, 5e5, 0, -10, 6e6)}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        plain, cog = Path(scratch) / "plain.tif", Path(scratch) / "cog.tif"
        with rasterio.open(plain, "w", **profile) as dataset:
            dataset.write(pixels)
        copy(plain, cog, driver="COG", overview_resampling="nearest", num_threads="ALL_CPUS", **options)
        with rasterio.open(cog) as dataset:
            small = (i for i, f in enumerate(dataset.overviews(1)) if max(dataset.shape) / f <= OVERVIEW)
            level = next(small, 0)
        path = folder / f"{name}-levels-{level}.tif"
        cog.rename(path)
    return path


def window_of(side):
    """Rows and columns of a window."""
    return [[start, start + side] for start in CORNER]


def tasks_of(name, sides):
    """What is read of a file: the name of the task, the verb of the engine, its arguments."""
    for side in [ITS_SIDE] if name == LARGE_INDEX else sides:
        yield f"window {side}", "window", window_of(side)
    yield "overview", "overview", [OVERVIEW]


def expected(path, verb, arguments):
    """The right pixels, from the local file, and how many rows of tiles they lie in."""
    import rasterio

    if verb == "overview":
        with rasterio.open(path, overview_level=int(path.stem.rpartition("-")[2])) as dataset:
            return dataset.read(), None
    with rasterio.open(path) as dataset:
        top, bottom = arguments[0]
        tile = dataset.block_shapes[0][0]
        pixels = dataset.read(window=rasterio.windows.Window.from_slices(*arguments))
        return pixels, (bottom - 1) // tile - top // tile + 1


# ---------------------------------------------------------------------------------------------- measuring


def data_requests(requests):
    """What the engine asked of the server for its task; listings and side files count, they take time."""
    return len(requests), sum(request.received for request in requests)


def measure(server, engines, files, rounds, sides, scratch):
    again = 0
    results = []
    for name, path in files.items():
        for task, verb, arguments in tasks_of(name, sides):
            pixels, tile_rows = expected(path, verb, arguments)
            for latency, new in NETWORKS:
                rows = {engine.name: {"seconds": [], "requests": [], "bytes": [], "error": None} for engine in engines}
                for turn in range(rounds + 1):  # the first one warms up
                    shift = turn % len(engines)
                    for engine in engines[shift:] + engines[:shift]:
                        again += 1
                        server.proxy.latency(latency)
                        server.proxy.clear()
                        if new:
                            server.proxy.hang_up()
                        out = scratch / f"{engine.name}.npy"
                        reply = engine.ask(verb, server.url(f"again-{again}/{path.name}"), arguments, out)
                        count, received = data_requests(server.proxy.requests())
                        row = rows[engine.name]
                        if "error" in reply:
                            row["error"] = reply["error"]
                        elif not np.array_equal(np.load(out), pixels):
                            row["error"] = "wrong pixels"
                        elif turn:
                            row["seconds"].append(reply["seconds"])
                            row["requests"].append(count)
                            row["bytes"].append(received)
                for engine, row in rows.items():
                    results.append({"file": name, "task": task, "latency": latency, "new": new, "engine": engine,
                                    "tile_rows": tile_rows, **row})
                    shown = ("file", "task", "latency", "new", "engine", "error")
                    print(json.dumps({key: results[-1][key] for key in shown}
                                     | {"ms": median(row["seconds"], 1000), "requests": median(row["requests"])}),
                          flush=True)
    return results


def opening(server, files, latency=0.02):
    """Requests of `open` alone, of our own package."""
    import tiffjet

    counts = {}
    server.proxy.latency(latency)
    for name, path in files.items():
        server.proxy.clear()
        tiffjet.open(server.url(f"again-0/{path.name}"))
        counts[name] = [len(server.proxy.requests()), sum(request.received for request in server.proxy.requests())]
    return counts


def throughput(server, path, rounds, cores):
    """Seconds for a whole file: ours, and a plain download of its bytes."""
    engines = [Engine("tiffjet", cores), Engine("download", cores)]
    seconds = {engine.name: [] for engine in engines}
    try:
        for turn in range(rounds + 1):
            for engine in engines[turn % 2 :] + engines[: turn % 2]:
                reply = engine.ask("whole", f"{server.direct}/again-{turn}/{path.name}", [], None)
                if "error" in reply:
                    raise SystemExit(f"{engine.name}: {reply['error']}")
                if turn:
                    seconds[engine.name].append(reply["seconds"])
    finally:
        for engine in engines:
            engine.stop()
    return {"bytes": path.stat().st_size, **seconds}


def share_cores(count):
    """The cores of the engines. All else, which is what this process starts from now on, has the others."""
    every = sorted(os.sched_getaffinity(0))
    if not count or count >= len(every):
        return every
    os.sched_setaffinity(0, every[count:])
    return every[:count]


def median(values, scale=1.0):
    return round(statistics.median(values) * scale, 2) if values else None


def report(record):
    """The table, and the bars that it must keep."""
    lines = ["| file | task | latency | engine | requests | KiB | ms | against tiffjet |", "|---|---|---|---|---|---|---|---|"]
    bars = []
    results = record["results"]
    def key_of(row):
        return row["file"], row["task"], f"{row['latency'] * 1000:.0f} ms{', new connections' if row.get('new') else ''}"

    for key in dict.fromkeys(map(key_of, results)):
        rows = [r for r in results if key_of(r) == key]
        ours = next((r for r in rows if r["engine"] == "tiffjet"), None)
        mine = median(ours["seconds"], 1000) if ours else None
        for r in rows:
            ms = median(r["seconds"], 1000)
            ratio = f"{ms / mine:.2f}" if ms and mine else ""
            shown = [r["error"]] if r["error"] else []
            numbers = [median(r["requests"]), median(r["bytes"], 1 / 1024), ms] if r["seconds"] else ["", "", ""]
            cells = [*key, r["engine"], *map(str, numbers), ratio + " ".join(shown)]
            lines.append("| " + " | ".join(cells) + " |")
        rivals = [r for r in rows if r["engine"] != "tiffjet" and r["seconds"] and not r["error"]]
        if mine and rivals:
            bars += judge(key, ours, mine, rivals)
    for name, (count, received) in record.get("open", {}).items():
        limit = 2 if name == LARGE_INDEX else 1
        bars.append((verdict(count <= limit), f"open of {name}: {count} requests, {received} bytes (at most {limit})"))
    for name, one in record.get("throughput", {}).items():
        ours, plain = (one["bytes"] / statistics.median(one[engine]) / 1e6 for engine in ("tiffjet", "download"))
        said = f"all of {name}: {ours:.0f} MB/s of the file, a plain download {plain:.0f} MB/s: {ours / plain:.0%} (70 %)"
        bars.append((verdict(ours >= 0.7 * plain), said))
    facts = [f"- {name}: {value}" for name, value in record["machine"].items() if name != "memory settings"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    out = ["# Remote COGs", "", *facts, f"- {versions}", "", *lines, "", "## Bars", ""]
    return "\n".join(out + [f"- {verdict}: {what}" for verdict, what in bars]) + "\n"


def verdict(kept):
    return "kept" if kept else "MISSED"


def judge(key, ours, mine, rivals):
    label = ", ".join(key)
    fewest = min(median(r["requests"]) for r in rivals)
    yield verdict(median(ours["requests"]) <= fewest), f"{label}: {median(ours['requests'])} requests, the best rival {fewest}"
    if not key[1].startswith("window"):
        return
    allowed = ours["tile_rows"] + (2 if key[0] == LARGE_INDEX else 1)
    yield verdict(median(ours["requests"]) <= allowed), f"{label}: open + {ours['tile_rows']} rows of tiles, at most {allowed}"
    if ours["latency"]:
        trips = 2 + (key[0] == LARGE_INDEX) + bool(ours.get("new"))
        waited = trips * ours["latency"] * 1000
        best = min(median(r["seconds"], 1000) for r in rivals)
        ratio, most = best / mine, best / waited
        said = f"{label}: {ratio:.2f} x faster than the best rival (1.5); {trips} round trips alone would be {most:.2f} x"
        yield "out of reach" if ratio < 1.5 and most < 1.5 else verdict(ratio >= 1.5), said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parent / "build" / "bench-data-remote")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench-remote.json")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--files", default="")
    parser.add_argument("--side", type=int, default=8192, help="rows and columns of the files that are made")
    parser.add_argument("--windows", default=",".join(map(str, SIDES)), help="their sides")
    parser.add_argument("--cores", type=int, help="cores that the engines share; the servers have the others")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    import machine
    import servers

    files = make_files(options.data, [name for name in options.files.split(",") if name], options.side)
    plain = files.pop("plain", None)
    names = options.engines.split(",")
    sides = [int(side) for side in options.windows.split(",")]
    cores = share_cores(options.cores)
    with tempfile.TemporaryDirectory() as scratch:
        server = servers.start_nginx(Path(scratch))
        engines = []
        try:
            for path in (*files.values(), *([plain] if plain else [])):
                (Path(scratch) / "files" / path.name).symlink_to(path.resolve())
            engines = start_engines(names, cores)
            facts = machine.facts() | {"cores of the engines": len(cores)}
            record = {"machine": facts, "versions": {engine.name: engine.version for engine in engines}}
            record["results"] = measure(server, engines, files, options.rounds, sides, Path(scratch))
            if "tiffjet" in names:
                record["open"] = opening(server, files)
                if plain:
                    record["throughput"] = {"plain": throughput(server, plain, options.rounds, cores)}
        finally:
            for engine in engines:
                engine.stop()
            server.stop()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1))
    options.out.with_suffix(".md").write_text(report(record))
    print(report(record))


if __name__ == "__main__":
    sys.exit(main())
