"""Files on other machines: object stores and web servers on the loopback, every request counted."""

import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import pytest
from conftest import GRID
from remote import servers

import tiffjet

KINDS = tuple(servers.STARTERS)
TILE = 256
OPTIONS = {"crs": 32633, "transform": GRID, "cog": True, "tile_size": TILE, "compression_level": 1}
WINDOW = ((300, 900), (500, 1100))


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    """Servers by kind, started when they are first asked for."""
    running = {}

    def start(kind):
        if kind not in running:
            running[kind] = servers.STARTERS[kind](tmp_path_factory.mktemp(kind))
        return running[kind]

    yield start
    for server in running.values():
        server.stop()


@pytest.fixture
def serve(started):
    """One of them, quick and with an empty log."""

    def serve(kind):
        try:
            server = started(kind)
        except servers.Missing as missing:
            if os.environ.get("TIFFJET_TEST_REMOTE"):
                pytest.fail(f"TIFFJET_TEST_REMOTE is set, and {missing}")
            pytest.skip(str(missing))
        server.proxy.latency(0)
        server.proxy.clear()
        return server

    return serve


@pytest.fixture(params=KINDS)
def server(request, serve):
    return serve(request.param)


@pytest.fixture(scope="session")
def raster():
    """Two bands that hardly compress: tiles, and what lies between the rows of a window, are much larger than a header."""
    return numpy.random.default_rng(3).integers(0, 30000, (2, 1200, 2800)).astype("uint16")


@pytest.fixture(scope="session")
def cog_bytes(raster, tmp_path_factory):
    path = tmp_path_factory.mktemp("cog") / "cog.tif"
    tiffjet.to_geotiff(raster, path, **OPTIONS)
    return path.read_bytes()


def cut(raster, window):
    (top, bottom), (left, right) = window
    return raster[:, top:bottom, left:right]


def tile_rows(window):
    return (window[0][1] - 1) // TILE - window[0][0] // TILE + 1


# ---------------------------------------------------------------------------------------------- reading


def test_open_is_one_request_and_a_window_one_for_each_row_of_tiles(server, raster, cog_bytes):
    server.put("cog.tif", cog_bytes)
    image = tiffjet.open(server.url("cog.tif"), storage_options=server.storage_options)
    assert image.shape == raster.shape and image.crs.epsg == 32633 and image.transform == GRID
    assert image.file_size == len(cog_bytes) and len(image.levels) > 2
    (request,) = server.proxy.requests()
    assert request.method == "GET" and request.received < len(cog_bytes) / 4
    server.proxy.clear()
    assert (numpy.asarray(image.read(window=WINDOW)) == cut(raster, WINDOW)).all()
    requests = server.proxy.requests()
    assert len(requests) <= tile_rows(WINDOW), requests
    assert sum(request.received for request in requests) < len(cog_bytes)
    assert (numpy.asarray(image.read()) == raster).all()


def test_a_large_index_takes_a_second_request(serve):
    server = serve("http")
    many = (numpy.arange(4096 * 4096, dtype="uint32") >> 9).astype("uint8").reshape(4096, 4096)
    tiffjet.to_geotiff(many, server.folder / "files" / "many.tif", cog=True, tile_size=16, overviews="none")
    image = tiffjet.open(server.url("many.tif"))
    read = numpy.asarray(image.read(window=((1000, 1200), (2000, 2100))))
    assert (read[0] == many[1000:1200, 2000:2100]).all()
    requests = server.proxy.requests()
    assert len(requests) <= 2 + 13, requests  # the rows of tiles it touches
    assert len([request for request in requests if request.received > 0]) == len(requests)


def test_levels_by_resolution_and_size(serve, raster, cog_bytes):
    pytest.importorskip("xarray")
    server = serve("http")
    server.put("levels.tif", cog_bytes)
    image = tiffjet.open(server.url("levels.tif"))
    for choice, level in ({"max_size": 1400}, 1), ({"max_size": 800}, 2), ({"resolution": 20}, 1), ({"resolution": 39}, 1):
        server.proxy.clear()
        da = tiffjet.open_geotiff(server.url("levels.tif"), **choice)
        assert da.shape == image.levels[level].shape
        assert (da.values == numpy.asarray(image.read(level=level))).all()
        assert sum(request.received for request in server.proxy.requests()) < len(cog_bytes) / 2


def test_a_file_that_changes_is_an_error(server, raster, cog_bytes):
    if server.kind == "gcs":
        pytest.skip("the emulator has no ETags")
    server.put("changes.tif", cog_bytes)
    image = tiffjet.open(server.url("changes.tif"), storage_options=server.storage_options)
    kept = pickle.dumps(image)
    server.put("changes.tif", cog_bytes[:-2] + bytes(2))
    if server.kind == "http":  # nginx makes ETags of time and length
        os.utime(server.folder / "files" / "changes.tif", (1, 1))
    with pytest.raises(OSError, match=r"changes\.tif: .*changed"):
        image.read(window=WINDOW)
    with pytest.raises(OSError, match="changed"):
        pickle.loads(kept)
    again = tiffjet.open(server.url("changes.tif"), storage_options=server.storage_options)
    assert (numpy.asarray(again.read(window=WINDOW)) == cut(raster, WINDOW)).all()


def test_many_windows_of_many_files(serve, raster, cog_bytes):
    server = serve("s3")
    urls = [server.url(f"many/{number}.tif") for number in range(12)]
    for number in range(12):
        server.put(f"many/{number}.tif", cog_bytes)
    windows = [(url, ((i * 30, i * 30 + 300), (i * 50, i * 50 + 200))) for i, url in enumerate(urls * 2)]
    batch = tiffjet.read_many(windows, storage_options=server.storage_options)
    for read, (_, window) in zip(numpy.asarray(batch), windows):
        assert (read == cut(raster, window)).all()
    firsts = [request for request in server.proxy.requests() if (request.range or "").startswith("bytes=0-")]
    assert len(firsts) <= 12  # each file is opened once
    gone = [(server.url("many/gone.tif"), windows[0][1]), windows[1]]
    filled = tiffjet.read_many(gone, storage_options=server.storage_options, on_error="fill", pad=7)
    assert (numpy.asarray(filled)[0] == 7).all() and "gone.tif" in filled.report.failures[0][1]
    with pytest.raises(FileNotFoundError, match=r"gone\.tif"):
        tiffjet.read_many(gone, storage_options=server.storage_options)


def test_a_burst_of_errors_is_survived(serve, raster, cog_bytes):
    server = serve("http")
    server.put("burst.tif", cog_bytes)
    for status in (503, 500):
        server.proxy.fail(status, "/burst.tif")
    image = tiffjet.open(server.url("burst.tif"), storage_options={"backoff": 0.01})
    server.proxy.fail(503, "/burst.tif")
    assert (numpy.asarray(image.read(window=WINDOW)) == cut(raster, WINDOW)).all()
    assert [request.status for request in server.proxy.requests()].count(503) == 2


# ---------------------------------------------------------------------------------------------- other processes


def test_engine_and_dask_in_other_processes(serve, raster, cog_bytes):
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask")
    server = serve("s3")
    server.put("engine.tif", cog_bytes)
    options = {"engine": "tiffjet", "chunks": {"y": 512, "x": 512}, "mask_and_scale": False,
               "storage_options": server.storage_options}
    dataset = xarray.open_dataset(server.url("engine.tif"), **options)
    with dask.config.set(scheduler="processes", num_workers=2, **{"multiprocessing.context": "spawn"}):
        assert (dataset["band_data"].values == raster).all()
    assert dataset["band_data"].encoding["source"] == server.url("engine.tif")
    lazy = tiffjet.open_geotiff(server.url("engine.tif"), storage_options=server.storage_options)
    there = subprocess.run(
        [sys.executable, "-P", "-c", "import pickle, sys; print(pickle.load(sys.stdin.buffer).values.sum(dtype='uint64'))"],
        input=pickle.dumps(lazy), capture_output=True, timeout=120,
    )
    assert int(there.stdout or 0) == raster.sum(dtype="uint64"), there.stderr.decode()


def test_levels_as_groups_open_the_file_once(serve, raster, cog_bytes):
    xarray = pytest.importorskip("xarray")
    server = serve("http")
    server.put("groups.tif", cog_bytes)
    tree = xarray.open_datatree(server.url("groups.tif"), engine="tiffjet", mask_and_scale=False)
    assert len(server.proxy.requests()) == 1 and len(tree.children) > 2
    assert (tree["/0/band_data"].values == raster).all()


def test_credentials_of_the_environment_stay_there(serve, cog_bytes, monkeypatch):
    server = serve("s3")
    server.put("secret.tif", cog_bytes)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key-of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-of-the-environment")
    public = {"endpoint": server.endpoint, "region": "us-east-1"}
    image = tiffjet.open(server.url("secret.tif"), storage_options=public)
    assert b"of-the-environment" not in pickle.dumps(image)
    assert pickle.loads(pickle.dumps(image)).shape == image.shape
    given = tiffjet.open(server.url("secret.tif"), storage_options=server.storage_options | {"secret": "given-by-hand"})
    assert b"given-by-hand" in pickle.dumps(given)
    with pytest.raises(FileNotFoundError) as raised:
        tiffjet.open(server.url("gone.tif"), storage_options=public | {"key": "a-key", "secret": "given-by-hand"})
    assert "given-by-hand" not in f"{raised.value!r} {image!r}"


# ---------------------------------------------------------------------------------------------- refusals


def test_what_is_not_there(server):
    with pytest.raises(FileNotFoundError, match=r"gone\.tif"):
        tiffjet.open(server.url("gone.tif"), storage_options=server.storage_options)


def test_bad_credentials_and_none(serve, cog_bytes):
    server = serve("azure")
    server.put("private.tif", cog_bytes)
    bad = server.storage_options | {"account_key": "bm90IHRoZSBrZXk="}
    with pytest.raises(PermissionError, match=r"private\.tif"):
        tiffjet.open(server.url("private.tif"), storage_options=bad)
    nobody = {key: value for key, value in server.storage_options.items() if key != "account_key"}
    with pytest.raises(OSError, match=r"private\.tif") as raised:
        tiffjet.open(server.url("private.tif"), storage_options=nobody | {"anonymous": True})
    assert "bm90" not in str(raised.value)
    s3 = serve("s3")
    s3.put("private.tif", cog_bytes)
    with pytest.raises(PermissionError, match=r"403.*private\.tif"):
        tiffjet.open(s3.url("private.tif"), storage_options={"endpoint": s3.endpoint, "anonymous": True})


def test_names_have_no_secrets(serve, cog_bytes):
    server = serve("http")
    server.put("named.tif", cog_bytes)
    host = server.endpoint.removeprefix("http://")
    for name in ("named.tif", "gone.tif"):
        url = f"http://user:passw0rd@{host}/{name}?signature=abcdef"
        try:
            shown = repr(tiffjet.open(url))
        except FileNotFoundError as error:
            shown = f"{error!r} {error} {error.filename}"
        assert name in shown and "passw0rd" not in shown and "abcdef" not in shown


def test_private_hosts_can_be_refused(serve, cog_bytes):
    server = serve("http")
    server.put("inside.tif", cog_bytes)
    url = server.url("inside.tif")
    assert tiffjet.open(url, limits={"private_hosts": True}).file_size == len(cog_bytes)
    server.proxy.clear()
    with pytest.raises((OSError, ValueError), match="private"):
        tiffjet.open(url, limits={"private_hosts": False})
    assert server.proxy.requests() == []


def test_options_have_names(serve, cog_bytes):
    with pytest.raises(ValueError, match="no_such_option"):
        tiffjet.open("s3://bucket/file.tif", storage_options={"no_such_option": 1})
    with pytest.raises(ValueError, match="storage_options"):
        tiffjet.open(cog_bytes, storage_options={"region": "eu-west-1"})
    with pytest.raises(NotImplementedError, match="ftp://"):
        tiffjet.open("ftp://host/file.tif")


# ---------------------------------------------------------------------------------------------- fsspec and obstore


def s3_file_system(server):
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs")
    client = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
    return fsspec.filesystem("s3", key="testing", secret="testing", client_kwargs=client, skip_instance_cache=True)


def s3_store(server):
    store = pytest.importorskip("obstore.store")
    return store.S3Store(
        servers.BUCKET, endpoint=server.endpoint, access_key_id="testing", secret_access_key="testing",
        region="us-east-1", client_options={"allow_http": True},
    )


def handed_over(server, kind, name):
    if kind == "store":
        return s3_store(server), name
    fs = s3_file_system(server)
    path = f"{servers.BUCKET}/{name}"
    if kind == "pair":
        return fs, path
    return fs.open(path) if kind == "file" else pytest.importorskip("fsspec").core.OpenFile(fs, path)


@pytest.mark.parametrize("kind", ["pair", "file", "open file", "store"])
def test_objects_of_other_libraries(serve, raster, cog_bytes, kind):
    server = serve("s3")
    server.put("object.tif", cog_bytes)
    src = handed_over(server, kind, "object.tif")
    server.proxy.clear()
    image = tiffjet.open(src)
    assert len(server.proxy.requests()) <= 3
    server.proxy.clear()
    assert (numpy.asarray(image.read(window=WINDOW)) == cut(raster, WINDOW)).all()
    requests = server.proxy.requests()
    assert len(requests) <= tile_rows(WINDOW) + 1, requests  # and one that asks whether it changed
    assert sum(request.received for request in requests) < len(cog_bytes) / 2
    assert pickle.loads(pickle.dumps(image)).version == image.version
    if kind != "file":
        with pytest.raises(FileNotFoundError):
            tiffjet.open(handed_over(server, kind, "gone.tif"))
    server.put("object.tif", cog_bytes[:-2] + bytes(2))
    with pytest.raises(OSError, match=r"object\.tif: .*changed"):
        image.read(window=WINDOW)


@pytest.mark.parametrize("kind", ["pair", "store"])
def test_objects_of_other_libraries_in_dask(serve, raster, cog_bytes, kind):
    dask = pytest.importorskip("dask")
    pytest.importorskip("xarray")
    server = serve("s3")
    server.put("dask.tif", cog_bytes)
    da = tiffjet.open_geotiff(handed_over(server, kind, "dask.tif"), chunks={"y": 512})
    with dask.config.set(scheduler="processes", num_workers=1, **{"multiprocessing.context": "spawn"}):
        assert (da.values == raster).all()
    windows = [(handed_over(server, kind, "dask.tif"), ((i, i + 10), (i, i + 10))) for i in range(5)]
    assert numpy.asarray(tiffjet.read_many(windows)).shape == (5, 2, 10, 10)


def test_files_of_fsspec_that_are_near(raster, cog_bytes, folder):
    fsspec = pytest.importorskip("fsspec")
    (folder / "near.tif").write_bytes(cog_bytes)
    near = tiffjet.open(fsspec.open(f"file://{folder}/near.tif"))
    assert near.name == str(folder / "near.tif")
    fs = fsspec.filesystem("memory")
    fs.pipe("/near.tif", cog_bytes)
    for src in (fs, "/near.tif"), fs.open("/near.tif"):
        assert (numpy.asarray(tiffjet.open(src).read(window=WINDOW)) == cut(raster, WINDOW)).all()
    with pytest.raises(TypeError, match="pair"):
        tiffjet.open((3, "near.tif"))


# ---------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_an_upload_has_the_bytes_of_a_local_file(serve, raster, cog_bytes, kind):
    server = serve(kind)
    options = OPTIONS | {"storage_options": server.write_options}
    if kind == "gcs":  # one request: the emulator knows no uploads in parts
        options["storage_options"] |= {"part_bytes": len(cog_bytes) + 1}
    written = tiffjet.to_geotiff(raster, server.url(f"up-{kind}.tif"), **options)
    assert written.size == len(cog_bytes) and written.name == server.url(f"up-{kind}.tif")
    assert server.get(f"up-{kind}.tif") == cog_bytes


def test_a_streamed_upload(serve, raster, cog_bytes):
    da = pytest.importorskip("dask.array")
    server = serve("s3")
    lazy = da.from_array(raster, chunks=(2, 400, 700))
    options = server.storage_options | {"part_bytes": 5 << 20}
    tiffjet.to_geotiff(lazy, server.url("streamed.tif"), **OPTIONS, storage_options=options)
    assert server.get("streamed.tif") == cog_bytes
    parts = [request for request in server.proxy.requests() if "partNumber" in request.target]
    assert len(parts) >= 2 and "<UploadId>" not in server.uploads()


def noise(block_info=None):
    """Values that depend on their place alone and do not compress."""
    location = block_info[None]["array-location"]
    shape = tuple(stop - start for start, stop in location)
    seed = [start for start, _ in location]
    return numpy.random.default_rng(seed).integers(0, 60000, shape).astype("uint16")


def noisy(rows=4096, pause=0.0):
    da = pytest.importorskip("dask.array")

    def block(block_info=None):
        time.sleep(pause)
        return noise(block_info)

    chunks = ((1,), (512,) * (rows // 512), (2048,) * 2)
    return da.map_blocks(block if pause else noise, chunks=chunks, dtype="uint16", meta=numpy.empty((0, 0, 0), "uint16"))


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None,
                                  memory_limit="2GiB") as cluster:
        yield cluster


@pytest.fixture
def workers(cluster):
    """What dask computes with as long as the test runs; in tests after it, nobody asks them."""
    with cluster.get_client() as client:
        yield client


@pytest.mark.parametrize("more", [{}, {"overviews": [2, 4]}, {"mask": True, "interleave": "band"}, {"cog": True}])
def test_workers_send_their_parts_themselves(serve, workers, monkeypatch, more):
    """In the order of the file, as large as a store wants them: the object has the bytes of a local file."""
    from tiffjet import _parts

    server = serve("s3")
    data, options = noisy(), {"crs": 32633, "tile_size": 256, "compression_level": 1, **more}
    if "mask" in more:
        options["mask"] = numpy.indices((4096, 4096)).sum(axis=0) % 7 > 2
    tiffjet.to_geotiff(data.compute(scheduler="threads"), "local.tif", **options)
    here = []
    monkeypatch.setattr(_parts, "_send_part", lambda *_: here.append(1))  # of this process alone
    appended = []
    append = _parts.Bands._collect
    monkeypatch.setattr(_parts.Bands, "_collect", lambda self, *rest: (append(self, *rest), appended.append(self._upload))[0])
    storage = server.storage_options | {"part_bytes": 5 << 20}
    tiffjet.to_geotiff(data, server.url("shared.tif"), storage_options=storage, **options)
    assert server.get("shared.tif") == pathlib.Path("local.tif").read_bytes()
    assert not here and "<UploadId>" not in server.uploads()
    if "cog" in more:
        assert set(appended) == {None}  # begins with what is known last: one writer sends it
        return
    (upload,) = set(appended)
    assert len(upload._parts) >= 3
    assert len([request for request in server.proxy.requests() if "partNumber" in request.target]) > len(upload._parts)


def test_a_worker_that_is_lost_while_parts_are_sent(serve, folder):
    distributed = pytest.importorskip("distributed")
    server = serve("s3")
    data = noisy(pause=0.05)
    tiffjet.to_geotiff(data.compute(scheduler="threads"), "local.tif", compression="none")
    killed = []
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None,
                                  memory_limit="2GiB") as cluster, distributed.Client(cluster) as client:
        processes = list(client.run(os.getpid).values())

        def progress(rows, height):
            if rows > height // 3 and not killed:
                killed.append(processes[0])
                os.kill(processes[0], signal.SIGKILL)

        tiffjet.to_geotiff(data, server.url("lost.tif"), compression="none", progress=progress,
                           storage_options=server.storage_options | {"part_bytes": 5 << 20})
    assert killed and server.get("lost.tif") == pathlib.Path("local.tif").read_bytes()
    assert "<UploadId>" not in server.uploads()


def test_parts_of_many_that_fail_leave_nothing(serve, workers):
    server = serve("s3")

    def stop(done, rows):
        if done > rows // 2:
            raise RuntimeError("that will do")

    with pytest.raises(RuntimeError, match="that will do"):
        tiffjet.to_geotiff(noisy(), server.url("half.tif"), progress=stop,
                           storage_options=server.storage_options | {"part_bytes": 5 << 20})
    wait_until(lambda: "<UploadId>" not in server.uploads())
    assert server.get("half.tif") is None


def test_a_failed_upload_leaves_nothing(serve, raster):
    server = serve("s3")

    def stop(done, rows):
        if done == rows:
            raise RuntimeError("that will do")

    with pytest.raises(RuntimeError, match="that will do"):
        tiffjet.to_geotiff(raster, server.url("failed.tif"), **OPTIONS, progress=stop,
                           storage_options=server.storage_options)
    wait_until(lambda: "<UploadId>" not in server.uploads())
    assert server.get("failed.tif") is None
    with pytest.raises(NotImplementedError, match="http"):
        tiffjet.to_geotiff(raster, "http://127.0.0.1:1/failed.tif")
    with pytest.raises(OSError, match="no-such-bucket"):
        tiffjet.to_geotiff(raster, "s3://no-such-bucket/failed.tif", storage_options=server.storage_options)


KILLED = """
    import numpy, sys, tiffjet
    raster = numpy.random.default_rng(3).integers(0, 30000, (2, 1200, 2800)).astype("uint16")
    options = {"endpoint": sys.argv[1], "region": "us-east-1", "key": "testing", "secret": "testing", "part_bytes": 5 << 20}
    tiffjet.to_geotiff(raster, "s3://tiffjet/killed.tif", cog=True, storage_options=options)
"""


def test_an_upload_that_is_killed_leaves_no_object(serve):
    server = serve("s3")
    server.proxy.latency(0.5)
    with subprocess.Popen([sys.executable, "-P", "-c", textwrap.dedent(KILLED), server.endpoint]) as process:
        # Parts are on their way, and the request that would make an object of them is not.
        wait_until(lambda: any("partNumber" in request.target for request in server.proxy.requests()), 60)
        process.send_signal(signal.SIGKILL)
    time.sleep(1)
    requests = server.proxy.requests()
    assert server.get("killed.tif") is None
    assert not [request for request in requests if request.method == "POST" and "uploadId" in request.target], requests


@pytest.mark.parametrize("kind", ["pair", "open file", "store"])
def test_writing_to_objects_of_other_libraries(serve, raster, cog_bytes, kind):
    server = serve("s3")
    name = f"by-{kind.replace(' ', '-')}.tif"
    tiffjet.to_geotiff(raster, handed_over(server, kind, name), **OPTIONS)
    assert server.get(name) == cog_bytes

    def stop(done, rows):
        raise RuntimeError("that will do")

    with pytest.raises(RuntimeError, match="that will do"):
        tiffjet.to_geotiff(raster, handed_over(server, kind, "never.tif"), **OPTIONS, progress=stop)
    assert server.get("never.tif") is None


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------- the guide


def test_the_guide(serve, monkeypatch):
    """Its snippets run, in order, with these servers in the place of the world's."""
    for needed in ("xarray", "dask", "fsspec", "aiohttp", "obstore"):
        pytest.importorskip(needed)
    web, s3 = serve("http"), serve("s3")
    dem = numpy.random.default_rng(5).normal(size=(1024, 1024)).astype("float32")
    tiffjet.to_geotiff(dem, "dem.tif", **OPTIONS)
    data = pathlib.Path("dem.tif").read_bytes()
    web.put("dem.tif", data)
    s3.put("dem.tif", data, bucket="my-bucket", public=True)
    for name, value in {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "testing",
                        "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    guide = (pathlib.Path(__file__).parents[2] / "docs" / "guides" / "remote.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(snippets) > 8
    names = {}
    for snippet in snippets:
        exec(compile(snippet.replace("https://example.com", web.endpoint), "remote.md", "exec"), names)
    assert float(names["mean"]) == pytest.approx(float(dem.mean()), rel=1e-3, abs=1e-4)
    assert names["small"].shape == (1, 256, 256) and names["part"].shape == (1, 200, 200)
    assert s3.get("zeros.tif", bucket="my-bucket")[:2] == b"II"
