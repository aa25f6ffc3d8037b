"""A preload of dask's workers: each task takes a moment, and no core."""

import time


def dask_setup(worker):
    pool = worker.executors["default"]
    submit = pool.submit

    def submit_slowly(function, *args, **kwargs):
        def begin_later():
            time.sleep(0.2)
            return function(*args, **kwargs)

        return submit(begin_later)

    pool.submit = submit_slowly
