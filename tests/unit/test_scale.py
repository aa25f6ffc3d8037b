"""Predictions for larger machines: arithmetic that can be done by hand, and limits."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import dask
import pytest

import twom_dist as td
from tests.command import CommandLine, assert_refused
from twom_dist.cli.scale import MOST_WORKERS, parse_workers
from twom_dist.cli.scale_plot import draw_scale
from twom_dist.errors import PlanError
from twom_dist.plan.machines import (
    LINKS,
    MACHINES,
    Link,
    Machine,
    find_link,
    find_machine,
    find_scheduler,
)
from twom_dist.plan.scale import predict, scale
from twom_dist.tiles.triangle import triangle_map

OPS, BYTES, LINK = 1e12, 1e10, 1e9
MACHINE = Machine("m", OPS, BYTES, 10**9, 1024, True, "here")
WIRE = Link("l", LINK, True, "here")
NO_SCHEDULER = {"twom-dist.scheduler-seconds-per-task": 1e-12}
N = 2048


def gemm(workers=1, n=N, **options):
    return td.plan_gemm((n, n), (n, n), chunks=256, workers=workers, **options)


def herk(workers=1, n=N, **options):
    return td.plan_herk((n, n), chunks=256, workers=workers, **options)


# --- one prediction ---------------------------------------------------------------


def test_passes_of_one_worker_are_those_of_the_table():
    """With one tile along k, bytes are multiples of the entries of A, B and C."""
    plan = td.plan_gemm((N, N), (N, N), chunks=N)
    found = predict(plan, MACHINE, WIRE)
    count, entries = plan.num_moduli, N * N
    assert found.products_seconds == 2 * count * 2 * N**3 / OPS
    assert found.norms_seconds == pytest.approx(2 * 16 * 2 * entries / BYTES)
    assert found.encode_seconds == pytest.approx((16 + 2 * count) * 2 * entries / BYTES)
    assert found.requantise_seconds == pytest.approx(16 * count * entries / BYTES)
    assert found.decode_seconds == pytest.approx((4 * count + 16) * entries / BYTES)
    assert found.moving_seconds == 0


def test_the_sums_of_every_tile_along_k_are_written_out():
    """The int32 sums each time, and the residues that are added to from the second."""
    one, four = (
        predict(td.plan_gemm((N, N), (N, N), chunks=(N, N, k)), MACHINE, WIRE)
        for k in (N, N // 4)
    )
    added = 2 * 3 * 2 * one.plan.num_moduli * N * N / BYTES
    assert four.requantise_seconds == pytest.approx(4 * one.requantise_seconds + added)


@pytest.mark.parametrize(("plan", "aliases"), [(gemm, 0), (herk, 36)])
def test_seconds_are_the_work_or_the_scheduler(plan, aliases):
    found = predict(plan(4), MACHINE, WIRE)
    work = found.products_seconds + found.passes_seconds + found.exposed_seconds
    assert found.seconds == max(work, found.scheduling_seconds)
    with dask.config.set(NO_SCHEDULER):
        assert predict(plan(4), MACHINE, WIRE).seconds == work
    with dask.config.set({"twom-dist.scheduler-seconds-per-task": 10}):
        slow = predict(plan(4), MACHINE, WIRE)
    assert slow.seconds == 10 * (plan(4).num_tasks + aliases)
    assert (slow.dominant, slow.measured) == ("scheduling", False)


def test_gemm_receives_what_its_rows_and_columns_lack():
    """2 x 2 workers need half of A and of B, and have half of that already."""
    found = predict(gemm(4), MACHINE, WIRE)
    assert found.plan.worker_grid == (2, 2)
    assert found.moving_seconds * LINK == 2 * (N // 2 * N // 2) * 16
    # In all, that is what the plan says of the traffic.
    assert found.moving_seconds * LINK * 4 == found.plan.bytes_moved


@pytest.mark.parametrize("workers", [2, 6, 12])
def test_herk_receives_its_share_of_the_traffic(workers):
    plan = herk(workers)
    found = predict(plan, MACHINE, WIRE)
    mean = plan.bytes_moved / workers
    assert mean <= found.moving_seconds * LINK * (1 + 1e-12) <= 1.5 * mean


def test_a_slow_link_dominates_and_a_fast_one_hides():
    slow = predict(gemm(4), MACHINE, replace(WIRE, bytes_per_second=1e3))
    fast = predict(gemm(4), MACHINE, replace(WIRE, bytes_per_second=1e15))
    assert slow.dominant == "moving"
    work = slow.products_seconds + slow.passes_seconds
    # All but what the first task waits for hides behind the work.
    assert slow.moving_seconds - work <= slow.exposed_seconds <= slow.moving_seconds
    assert fast.exposed_seconds < 1e-6


@pytest.mark.parametrize("workers", [1, 3, 4, 6])
def test_the_busiest_worker_sets_the_products(workers):
    found = predict(herk(workers), MACHINE, WIRE)
    balance = triangle_map(8, workers).balance
    even = found.ideal_seconds / workers
    assert found.products_seconds == pytest.approx(balance * even)
    uneven = predict(gemm(3, n=256 * 4), MACHINE, WIRE)  # 16 tiles: 8 on one of 3
    assert uneven.products_seconds == pytest.approx(uneven.ideal_seconds / 2)


def test_what_the_cache_cannot_keep_is_encoded_for_every_task():
    kept = predict(gemm(), MACHINE, WIRE)
    with dask.config.set({"twom-dist.cache-bytes": "1 MiB"}):
        again = predict(gemm(), MACHINE, WIRE)
    assert again.encode_seconds == pytest.approx(8 * kept.encode_seconds)


def test_efficiency_is_the_share_of_the_int8_rate():
    found = predict(gemm(4), replace(MACHINE, pass_bytes_per_second=1e30), WIRE)
    assert 0 < found.efficiency <= 1
    with dask.config.set(NO_SCHEDULER):
        still = predict(
            gemm(4),
            replace(MACHINE, pass_bytes_per_second=1e30),
            replace(WIRE, bytes_per_second=1e30),
        )
    assert still.efficiency == pytest.approx(1)


def test_memory_is_that_of_the_plan():
    plan = gemm()
    found = predict(plan, MACHINE, WIRE)
    assert found.memory_share == plan.peak_worker_bytes / 10**9
    assert found.fits == (found.memory_share <= 0.8)
    unknown = predict(plan, replace(MACHINE, memory_bytes=None), WIRE)
    assert (unknown.memory_share, unknown.fits) == (None, True)


@pytest.mark.parametrize("routine", ["gemm", "herk", "syrk", "her2k", "syr2k"])
@pytest.mark.parametrize("shape", [(0, 0, 5), (5, 5, 0), (1, 1, 1), (300, 300, 7)])
def test_every_routine_and_shape(routine, shape):
    for method in ("2m", "3m", "4m", "hybrid"):
        for found in scale(routine, shape, (1, 3), method=method):
            assert found.seconds > 0
            assert 0 <= found.efficiency <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_every_dtype(dtype):
    (found,) = scale("herk", 1024, [2], dtype=dtype, uplo="lower")
    assert found.plan.dtype == dtype
    assert found.seconds > 0


def test_the_native_product_is_refused():
    with pytest.raises(PlanError, match="method='native' given; what is predicted"):
        predict(gemm(method="native"), MACHINE, WIRE)


# --- scaling ----------------------------------------------------------------------


@pytest.mark.parametrize("routine", ["gemm", "herk"])
def test_strong_scaling_keeps_the_shape(routine):
    found = scale(routine, 16384, (1, 2, 4, 8))
    assert {p.plan.n for p in found} == {16384}
    times = [p.seconds for p in found]
    assert times == sorted(times, reverse=True)
    assert all(p.efficiency <= found[0].efficiency for p in found)


def test_weak_scaling_keeps_the_bytes_of_a_worker():
    found = scale("gemm", (2000, 3000, 1000), (2, 4, 8), weak=True)
    sizes = [p.plan.m * p.plan.k / p.plan.workers for p in found]
    assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-2)


def test_tiles_are_the_largest_that_are_not_slow():
    few, many = scale("gemm", 8192, (1, 64), machine=find_machine("cpu"))
    assert few.plan.tile_shape[0] == 2048
    assert many.plan.tile_shape[0] < 2048
    (given,) = scale("gemm", 8192, [64], tile=700)
    assert max(given.plan.tile_shape) <= 700


def test_one_scheduler_ends_strong_scaling():
    options = {"machine": find_machine("h200"), "link": find_link("ndr")}
    found = scale("gemm", 65536, (4, 1024), **options)
    assert [p.dominant for p in found] == ["products", "scheduling"]


# --- machines and links -----------------------------------------------------------


def test_only_what_a_benchmark_gave_is_measured():
    rates = [*map(find_machine, MACHINES), *map(find_link, LINKS)]
    assert {x.name for x in rates if x.measured} == {"cpu", "h200", "tcp"}
    assert find_scheduler().measured
    assert all(x.source for x in rates)


@pytest.mark.parametrize(
    ("name", "value", "find"),
    [
        ("machines.h200.int8-ops-per-second", 2.0, lambda: find_machine("h200")),
        ("machines.cpu.pass-bytes-per-second", 2.0, lambda: find_machine("cpu")),
        ("int8-ops-per-second", 2.0, lambda: find_machine("cpu")),
        ("links.ndr.bytes-per-second", 2.0, lambda: find_link("ndr")),
        ("link-bytes-per-second", 2.0, lambda: find_link("tcp")),
        ("scheduler-seconds-per-task", 2.0, find_scheduler),
    ],
)
def test_settings_override_rates(name, value, find):
    with dask.config.set({f"twom-dist.{name}": value}):
        found = find()
    assert value in vars(found).values()
    assert not found.measured
    assert "_per_" in found.source
    assert found.source.endswith("= 2 in dask.config")


def test_settings_that_are_no_rates_are_refused():
    with (
        dask.config.set({"twom-dist.machines.h200.int8-ops-per-second": "fast"}),
        pytest.raises(PlanError, match=r"machines\.h200\.int8-ops.* a positive number"),
    ):
        find_machine("h200")
    with pytest.raises(PlanError, match="link 'usb' given; known are 'tcp', 'pcie'"):
        find_link("usb")
    with dask.config.set({"twom-dist.machines": None}):
        assert find_machine("h200") == MACHINES["h200"]


def test_several_cores_are_as_many_times_one():
    four = find_machine("cpu", 4)
    assert four.int8_ops_per_second == 4 * MACHINES["cpu"].int8_ops_per_second
    assert not four.measured


# --- the command ------------------------------------------------------------------


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


SHAPE = ("plan", "--routine", "herk", "--shape-a", "8192,4096")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("8", (8,)),
        ("8..64", (8, 16, 32, 64)),
        ("3..20", (3, 6, 12, 20)),
        ("5..5", (5,)),
        ("1..6", (1, 2, 4, 6)),
    ],
)
def test_ranges_double_and_end_where_they_say(text, counts):
    assert parse_workers(text) == counts


def test_the_table_says_what_was_not_measured(call):
    flags = ("--workers", "2..8", "--gpu", "h200", "--link", "ndr", "--tile", "1024")
    code, out, _ = call(*SHAPE, *flags)
    assert code == 0
    title, machine, link, scheduler, _, head, *rows = out.splitlines()
    assert "herk, 8192 x 4096" in title
    assert "h200, measured: " in machine
    assert "ndr, not measured: " in link
    assert "dask, measured: " in scheduler
    assert head.split() == [
        *("workers", "n", "tile", "seconds", "efficiency", "memory", "dominant")
    ]
    assert [row.split()[0] for row in rows] == ["2", "4", "8"]
    _, out, _ = call(*SHAPE, "--workers", "1..2")
    assert "cpu, measured: " in out
    assert "tcp, measured: " in out


def test_json_is_one_line_for_each_number_of_workers(call):
    flags = ("--workers", "2..8", "--weak", "--tile", "512", "--json")
    code, out, _ = call(*SHAPE, *flags)
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [x["workers"] for x in found] == [2, 4, 8]
    assert [x["plan"]["n"] for x in found] == [8192, 11585, 16384]
    assert {x["measured"] for x in found} == {True}
    assert all(x["seconds"] > 0 for x in found)


def test_a_machine_predicts_a_single_number_too(call):
    code, out, _ = call(*SHAPE, "--workers", "4", "--gpu", "b200")
    assert code == 0
    assert "b200, not measured" in out


def test_what_does_not_fit_is_marked(call):
    flags = ("--workers", "1..2", "--worker-memory", "256MiB")
    code, out, _ = call(*SHAPE, *flags)
    assert code == 0
    assert out.splitlines()[-1].startswith("* more than the workers hold: runs in wav")


def test_workers_without_a_tile_are_named(call):
    flags = ("--workers", "2..8", "--gpu", "h200", "--tile")
    _, out, _ = call(*SHAPE, *flags, "8192")
    *_, empty, line = out.splitlines()
    assert empty == ""
    assert line.startswith("idle, without a tile of C: 1 of 2, 3 of 4, 7 of 8; ")
    assert line.endswith("; smaller tiles would use them")
    _, out, _ = call(*SHAPE, *flags, "512")
    assert "idle" not in out
    small = ("--shape-a", "200,200", "--workers", "1..2")
    _, out, _ = call("plan", "--routine", "herk", *small)
    assert out.endswith("1 of 2; smaller tiles would use them and gain little\n")


def test_the_plot_is_svg_with_every_point(call, tmp_path):
    code, *_ = call(*SHAPE, "--workers", "1..8", "--gpu", "a100", "--plot", "p.svg")
    assert code == 0
    root = ET.fromstring((tmp_path / "p.svg").read_text("utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}circle")) == 2 * 4
    texts = [x.text or "" for x in root.iter(f"{name}text")]
    assert any("a100, not measured" in text for text in texts)
    assert {"1", "2", "4", "8", "seconds", "efficiency"} <= set(texts)


def test_the_plot_of_nothing_to_compute():
    picture = draw_scale(scale("gemm", (5, 5, 0), (1, 2)), "a < b", [])
    assert "a &lt; b" in picture
    ET.fromstring(picture)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--workers", "8..4"), r"'8\.\.4' is no range that rises"),
        (("--workers", f"1..{MOST_WORKERS + 1}"), f"up to {MOST_WORKERS} workers"),
        (("--workers", "0"), "is no number of workers such as 8"),
        (("--workers", "1.."), r"nor a range such as 8\.\.1024"),
        (("--workers", "1..2..4"), r"nor a range such as 8\.\.1024"),
        (("--workers", "many"), "is no number of workers such as 8"),
        (("--workers", "4", "--weak"), "--weak given; it takes a range"),
        (("--workers", "4", "--plot", "p.svg"), "--plot given; it takes a range"),
        (("--workers", "1..4", "--gpu", "v100"), "is not one of 'a100'"),
        (("--workers", "1..4", "--link", "usb"), "is not one of 'tcp'"),
        (("--workers", "1..4", "--method", "native"), "what is predicted is int8"),
        (("--workers", "1..4", "--plot", "no/p.svg"), "could not be written: No such"),
    ],
)
def test_refused_in_one_sentence(call, flags, text):
    assert re.search(text, assert_refused(call(*SHAPE, *flags)))
