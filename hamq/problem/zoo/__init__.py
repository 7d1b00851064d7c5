"""Problems to solve: the five of the paper, one whose density nobody can normalise, two chains, models of Gymnasium's."""

from hamq.problem.zoo.acrobot import acrobot as acrobot
from hamq.problem.zoo.cart_double_pendulum import cart_double_pendulum as cart_double_pendulum
from hamq.problem.zoo.cartpole import cartpole as cartpole
from hamq.problem.zoo.double_integrator import double_integrator as double_integrator
from hamq.problem.zoo.gym_acrobot import gym_acrobot as gym_acrobot
from hamq.problem.zoo.gym_cartpole import gym_cartpole as gym_cartpole
from hamq.problem.zoo.gym_inverted_double_pendulum import gym_inverted_double_pendulum as gym_inverted_double_pendulum
from hamq.problem.zoo.gym_inverted_pendulum import gym_inverted_pendulum as gym_inverted_pendulum
from hamq.problem.zoo.gym_pendulum import gym_pendulum as gym_pendulum
from hamq.problem.zoo.pendulum import pendulum as pendulum
from hamq.problem.zoo.pendulum_chain import pendulum_chain as pendulum_chain
from hamq.problem.zoo.preset import Sourced as Sourced
from hamq.problem.zoo.provenance import provenance as provenance
from hamq.problem.zoo.repelling_agents import repelling_agents as repelling_agents
from hamq.problem.zoo.spring_chain import spring_chain as spring_chain
