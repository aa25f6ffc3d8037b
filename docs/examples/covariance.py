"""Covariance of the antennas of a telescope, channel by channel.

``X X^H`` of every channel is one call: the channels are a stack, and the dimension
that is averaged over has a name. The result is Hermitian bit for bit, and each channel
has the bits that it has alone.
"""

import numpy as np
import xarray as xr

import twom_dist as td

CHANNELS, ANTENNAS, TIMES = 16, 12, 200

rng = np.random.default_rng(1)
shape = CHANNELS, ANTENNAS, TIMES
noise = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
# A source that all antennas see, each with a delay of its own.
source = rng.standard_normal((CHANNELS, 1, TIMES))
delays = np.exp(2j * np.pi * np.outer(np.arange(CHANNELS), rng.random(ANTENNAS)))
samples = (noise + 3 * delays[:, :, np.newaxis] * source).astype("complex64")

data = xr.DataArray(
    samples,
    {"channel": 1.4e9 + 1e6 * np.arange(CHANNELS)},
    ("channel", "antenna", "time"),
)
covariance = td.xarray.herk(data, dim="time", rows="antenna", alpha=1 / TIMES)
print(covariance.sizes)

strongest = np.linalg.eigvalsh(covariance.values)[:, -1]
print(f"the strongest eigenvalue of each channel: {strongest.min():.0f} or more")

one = td.xarray.herk(data.isel(channel=3), dim="time", alpha=1 / TIMES)
assert np.array_equal(one, covariance.isel(channel=3))
assert np.array_equal(covariance, covariance.values.conj().swapaxes(1, 2))
