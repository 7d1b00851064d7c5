"""Acting on a problem: its simulator, rollouts, policies read off solutions, LQR, MPC, statistics of returns."""
