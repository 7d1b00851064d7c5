from tests.runs.conftest import as_user as as_user
from tests.runs.conftest import solution as solution
