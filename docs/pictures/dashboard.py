"""Take a picture of dask's dashboard in the middle of a herk, in a real browser.

pip install . bokeh selenium    # and Chromium with its driver
python docs/pictures/dashboard.py docs/pictures/dashboard.png
"""

import argparse
import time
from pathlib import Path

import dask.array as da
from selenium import webdriver

import twom_dist as td

# After its page is there, until the plots have their data.
DRAWN_SECONDS = 8


def take(url: str, path: Path) -> None:
    """Have a browser without a window open a page, and keep what it draws."""
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--window-size=1400,900"):
        options.add_argument(option)
    with webdriver.Chrome(options=options) as browser:
        browser.get(url)
        time.sleep(DRAWN_SECONDS)
        browser.save_screenshot(str(path))


def main() -> None:
    """Start workers, multiply, and take the picture meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--size", type=int, default=6144)
    args = parser.parse_args()
    with td.local_cluster(n_workers=2, dashboard=True) as client:
        A = da.random.default_rng(1).random((args.size, args.size), chunks=512) + 0j
        H = client.persist(td.herk(A, num_moduli=16))
        time.sleep(12)  # the first products load the kernels
        take(client.dashboard_link, args.picture)
        client.cancel(H)


if __name__ == "__main__":
    main()
