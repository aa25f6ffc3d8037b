"""Arrays of other libraries: DLPack, xarray, zarr and h5py."""
