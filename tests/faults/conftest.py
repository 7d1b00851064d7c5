from tests.runs.conftest import solution as solution
