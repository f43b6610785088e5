"""sample_history.py: writes samples of two years into the database of a daemon that is stopped, as sampling would have left them."""
import os
import sqlite3
import time

RINGS = {10: 390, 60: 1500, 900: 3072, 10800: 5850}  # sample_resolutions of daemon/store/sample_rows.c


def write(state, series, left_out=lambda ago: False, now=None):
    """`series`: {(device, quantity): value(resolution, number) -> (least, mean, greatest) in parts of the quantity's unit}.
    `left_out(ago)`: whether nothing was sampled so many seconds ago."""
    now = int(now or time.time())
    with sqlite3.connect(os.path.join(state, "traind.db")) as database:
        for i, ((device, quantity), value) in enumerate(series.items(), 1):
            database.execute("INSERT INTO sample_series VALUES (?, ?, ?, ?)", (i, device, quantity, now))
            for seconds, places in RINGS.items():
                count = seconds // 10
                rows = []
                for number in range(now // seconds - places + 1, now // seconds + 1):
                    if not left_out(now - number * seconds):
                        least, mean, greatest = value(seconds, number)
                        rows.append((seconds, number % places, i, number, count, mean * count, least, greatest))
                database.executemany("INSERT INTO sample_bucket VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()
