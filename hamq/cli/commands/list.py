"""`hamq list`: the zoo, without building it."""

from hamq.cli.messages import PrintOptions, make_console, make_table, print_json
from hamq.cli.parsing import Command, Request
from hamq.cli.problems import ZOO

COMMAND = Command("", "the problems of the zoo", 0, {"output": PrintOptions()})


def run(request: Request) -> int:
    if request.options["output"].json:
        fields = ("dimension", "num_states", "num_actions", "description")
        print_json({name: {field: getattr(entry, field) for field in fields} for name, entry in ZOO.items()})
        return 0
    table = make_table(("problem", "states", "axes", "actions", "law", "description"), ("problem", "law", "description"))
    for name, entry in ZOO.items():
        sizes = (f"{entry.num_states:,}", str(entry.dimension), str(entry.num_actions))
        table.add_row(name, *sizes, entry.options.law, entry.description)
    make_console().print(table)
    print("hamq solve PROBLEM --help shows the options of each. Your own: hamq solve file.py:function")
    return 0
