"""DQN and DDPG whose targets come from a sampler, and a neural V fitted to backups. The public names, when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hamq.deep.config import DeepConfig as DeepConfig
    from hamq.deep.config import deep_config as deep_config
    from hamq.deep.config import deep_provenance as deep_provenance
    from hamq.deep.train import DeepResult as DeepResult
    from hamq.deep.train import make_train as make_train
    from hamq.deep.train import train_seeds as train_seeds
    from hamq.deep.value_network import FittedConfig as FittedConfig
    from hamq.deep.value_network import NetworkSolution as NetworkSolution
    from hamq.deep.value_network import fit_value_network as fit_value_network

_HOME = {
    "DeepConfig": "config",
    "DeepResult": "train",
    "FittedConfig": "value_network",
    "NetworkSolution": "value_network",
    "deep_config": "config",
    "deep_provenance": "config",
    "fit_value_network": "value_network",
    "make_train": "train",
    "train_seeds": "train",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"hamq.deep.{_HOME[name]}"), name)
    raise AttributeError(f"module 'hamq.deep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
