"""Correlate a zarr store of 8-bit samples into another one, and go on where it stopped.

    python correlator.py voltages.zarr visibilities.zarr
    sbatch -c 16 --mem=64G --wrap "python correlator.py voltages.zarr visibilities.zarr"

The source holds "voltage": integers of the dimensions channel, antenna, time, pol and
cplx, which are the real and the imaginary part. The target gets "visibility", averages
over both polarisations and over BLOCK samples. It is written chunk by chunk along time,
and "done" says which are complete: the same command computes those that are missing.
"""

import os
import sys

import numpy as np
import xarray as xr

import twom_dist as td

BLOCK = 1024
DIMS = "channel", "antenna", "time", "pol", "cplx"


def correlate(source, target):
    """Compute the visibilities that the target lacks."""
    try:
        voltage = xr.open_zarr(source)["voltage"]
    except (OSError, KeyError, ValueError):
        sys.exit(f"{source} is not a zarr store with an array named voltage")
    if {*voltage.dims} != {*DIMS} or voltage.sizes["time"] < BLOCK:
        sizes = dict(voltage.sizes)
        sys.exit(f"voltage has {sizes}, not {', '.join(DIMS)} and {BLOCK} samples")
    # Chunks of whole blocks; samples that fill no block are left out.
    whole = voltage.chunksizes["time"][0] // BLOCK * BLOCK
    voltage = voltage.chunk(time=max(BLOCK, whole))
    blocks = voltage.coarsen(time=BLOCK, boundary="trim")
    blocks = blocks.construct(time=("block", "time"))
    options = {"dim": ["time", "pol"], "rows": "antenna", "pairs": "cplx"}
    options |= {"alpha": 1 / (BLOCK * voltage.sizes["pol"]), "dtype": "complex64"}
    visibility = td.xarray.herk(blocks, **options)  # lazy
    made = {"samples": BLOCK, "source": os.path.abspath(source)}
    if not os.path.exists(target):
        one = blocks.isel(channel=0, block=0)
        print(td.plan(td.xarray.herk, one, **options))
        done = np.zeros(visibility.sizes["block"], bool)
        layout = visibility.to_dataset(name="visibility").assign(done=("block", done))
        layout.attrs |= made
        layout.to_zarr(f"{target}.part", mode="w", compute=False)
        os.rename(f"{target}.part", target)
    begun = xr.open_zarr(target)
    if begun.attrs != made or begun.sizes.get("block") != visibility.sizes["block"]:
        sys.exit(f"{target} was begun for other samples: remove it, or name another")
    done, stop = begun["done"].values, 0
    for size in visibility.chunksizes["block"]:
        start, stop = stop, stop + size
        if done[start:stop].all():
            continue
        region = {"block": slice(start, stop)}
        part = visibility.isel(region).variable
        xr.Dataset({"visibility": part}).to_zarr(target, region=region)
        told = ("block", np.ones(size, bool))
        xr.Dataset({"done": told}).to_zarr(target, region=region)
        print(f"{stop} of {len(done)} blocks", flush=True)
    print(f"{target} is complete")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: correlator.py SOURCE TARGET")
    correlate(*sys.argv[1:])
