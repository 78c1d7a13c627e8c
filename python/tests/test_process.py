"""Other processes, and signals."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import pytest

import tiffjet


def test_a_fork_reads_with_threads_of_its_own(cog):
    """The threads of a pool do not come along with a fork: who waits for them waits for ever."""
    code = f"""
        import multiprocessing, numpy, tiffjet
        image = tiffjet.open({cog!r})
        whole = int(numpy.asarray(image.read()).sum())
        def work(queue):
            tiffjet.to_geotiff(numpy.asarray(image.read()), "fork.tif")
            queue.put(int(numpy.asarray(tiffjet.open("fork.tif").read()).sum()))
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        assert queue.get(timeout=60) == whole
        child.join()
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], check=True, timeout=120)


def sum_of(image):
    return int(numpy.asarray(image.read()).sum())


def test_a_spawned_process_opens_the_file_again(cog, pixels):
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        assert pool.map(sum_of, [tiffjet.open(cog)] * 3) == [int(pixels.sum())] * 3


@pytest.mark.parametrize("job", ["read", "write"])
def test_ctrl_c_ends_a_long_call(folder, job):
    """A read and a write that take many seconds end within one or two."""
    rng = numpy.random.default_rng(0)
    tiffjet.to_geotiff(rng.integers(0, 255, (4096, 4096), "uint8"), "large.tif", compression="lzma", tile_size=256)
    code = """
        import numpy, signal, sys, time, tiffjet
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it ignored
        image = tiffjet.open("large.tif")
        data = numpy.asarray(image.read(window=((0, 512), (0, 4096))))
        data = numpy.concatenate([data] * 32, axis=1)
        print("ready", flush=True)
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < 60:
                if sys.argv[1] == "read":
                    image.read()
                else:
                    tiffjet.to_geotiff(data, "interrupted.tif", compression="lzma")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), job], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    assert time.monotonic() - sent < 5
    assert child.wait(30) == 0
    assert os.listdir() == ["large.tif"]


def test_a_handler_may_read_too(cog, pixels):
    """A signal is handled in the middle of a read, in the same thread, by whatever the user likes."""
    image = tiffjet.open(cog)
    sums = []
    before = signal.signal(signal.SIGALRM, lambda *_: sums.append(sum_of(image)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.06, 0.06)
        end = time.monotonic() + 30
        while len(sums) < 3 and time.monotonic() < end:
            tiffjet.read_many([(image, None)] * 20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(sums) == {int(pixels.sum())}


def test_other_threads_run_while_pixels_are_read(cog):
    """A thread that counts gets on with it during a read: the interpreter is let go."""
    import threading

    image = tiffjet.open(cog)
    count, running = [0], threading.Event()

    def work():
        while not running.is_set():
            count[0] += 1
            time.sleep(0.0005)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody takes the interpreter from who does not let it go
    thread = threading.Thread(target=work)
    try:
        thread.start()
        tiffjet.read_many([(image, None)] * 60)
        counted = count[0]
    finally:
        sys.setswitchinterval(before)
        running.set()
        thread.join()
    assert counted > 5


def test_importing_does_not_import_xarray():
    code = "import sys, tiffjet; assert not {'xarray', 'dask', 'pandas', 'pyproj'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    pytest.importorskip("xarray")
    for code in ("import tiffjet, xarray", "import xarray, tiffjet"):
        code += "; assert xarray.DataArray([[1]]).tiffjet; assert type(xarray.__loader__).__module__ != 'tiffjet._hook'"
        subprocess.run([sys.executable, "-c", code], check=True)
