#!/usr/bin/env python3
"""Calls by joblib, each of them a job of traind. Needs joblib.

    python3 examples/python/joblib_map.py
"""
import joblib
import traind.joblib  # noqa: F401 - makes the backend "traind" known


def area(radius, points=200_000):
    """Of a circle, by the points of a grid that lie within."""
    side = int(points ** 0.5)
    inside = sum((2 * i / side - 1) ** 2 + (2 * j / side - 1) ** 2 < 1 for i in range(side) for j in range(side))
    return 4 * radius * radius * inside / (side * side)


if __name__ == "__main__":
    with joblib.parallel_config("traind", n_jobs=8, resources={"cores": 1, "memory": "200 MiB"}):
        areas = joblib.Parallel()(joblib.delayed(area)(radius) for radius in range(1, 5))
    print(" ".join(f"{each:.2f}" for each in areas))
