"""Problems as Gymnasium environments. `import hamq.envs` registers those of the zoo: gymnasium.make("hamq/CartPole-v0")."""

from hamq.errors import MissingExtraError

try:
    import gymnasium as gymnasium
except ImportError as error:
    raise MissingExtraError("hamq.envs needs gymnasium: pip install 'hamq[gym]'.") from error

from hamq.envs.environment import ProblemEnv as ProblemEnv
from hamq.envs.environment import ProblemVectorEnv as ProblemVectorEnv
from hamq.envs.registration import register_zoo

__all__ = ["IDS", "ProblemEnv", "ProblemVectorEnv"]
IDS = register_zoo()
"""The environments of the zoo."""
