"""Which of several processes this one is: from the options, or from what SLURM or Open MPI say. Imports no JAX."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class ProcessOptions:
    """Several processes, on one host or many; under srun and mpirun they find each other. See docs/scale.md."""

    coordinator: str | None = None
    """HOST:PORT of process 0, a free port; the same in all processes."""
    num_processes: int | None = None
    """How many there are; 1 keeps a task of srun or mpirun to itself."""
    process_id: int | None = None
    """Which of them this is, from 0; process 0 alone writes and prints."""


class Place(NamedTuple):
    """Of this process among all. `local` is its number on its host, where the environment tells; `finds` says that JAX knows
    from the environment where process 0 is."""

    num: int = 1
    index: int = 0
    coordinator: str | None = None
    local: int | None = None
    finds: bool = False

    @property
    def name(self) -> str:
        return f"process {self.index} of {self.num}"

    @property
    def host(self) -> str | None:
        return None if self.coordinator is None else self.coordinator.rpartition(":")[0].strip("[]")


def place_of(options: ProcessOptions, environment: Mapping[str, str]) -> Place:
    """From the options, or from what SLURM or Open MPI say; a lone task of either is a process of its own."""
    place = _of_environment(environment)
    num = place.num if options.num_processes is None else options.num_processes
    index = place.index if options.process_id is None else options.process_id
    if num < 1:
        raise HamqError(f"--num-processes must be at least 1, got {num}.")
    if num == 1 and options.coordinator is None and not options.process_id:
        return Place()
    given = [options.coordinator, options.num_processes, options.process_id]
    if place.num == 1 and None in given:
        raise HamqError(
            "--coordinator HOST:PORT, --num-processes N and --process-id I belong together: the address of process 0, how "
            "many there are, and which of them (from 0) this one is; give all three, or none."
        )
    if not 0 <= index < num:
        raise HamqError(f"--process-id must be 0 to {num - 1} with --num-processes {num}, got {index}.")
    if options.coordinator is None and not place.finds:
        raise HamqError(
            f"Open MPI started {num} processes, but does not say where process 0 is; give --coordinator HOST:PORT, the host "
            "of rank 0 and a free port."
        )
    if options.coordinator is not None:
        _require_address(options.coordinator)
    return place._replace(num=num, index=index, coordinator=options.coordinator)


def _of_environment(environment: Mapping[str, str]) -> Place:
    slurm = [environment.get(f"SLURM_{name}", "") for name in ("STEP_NUM_TASKS", "PROCID", "LOCALID")]
    # Of the step, not of the job: a shell inside of an allocation is one process, whatever the allocation is for.
    if all(slurm) and "SLURM_STEP_NODELIST" in environment and int(slurm[0]) > 1:
        num, index, local = map(int, slurm)
        return Place(num, index, None, local, finds=True)
    mpi = [environment.get(f"OMPI_COMM_WORLD_{name}", "") for name in ("SIZE", "RANK", "LOCAL_RANK")]
    if all(mpi) and int(mpi[0]) > 1:
        num, index, local = map(int, mpi)
        return Place(num, index, None, local, finds="OMPI_MCA_orte_hnp_uri" in environment)
    return Place()


def _require_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise HamqError(f"--coordinator takes HOST:PORT, such as node1:29500 or 127.0.0.1:29500, got {address!r}.")
