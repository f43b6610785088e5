#!/usr/bin/env python3
"""A program of Hydra whose points are jobs of traind (hydra_app.yaml says so). Needs hydra-core and cloudpickle.

    python3 examples/python/hydra_app.py --multirun lr=0.003,0.01,0.03,0.1,0.3,0.6 steps=50,100
"""
import hydra
import train


@hydra.main(version_base=None, config_path=".", config_name="hydra_app")
def main(config):
    return train.fit(config.lr, config.steps)


if __name__ == "__main__":
    main()
