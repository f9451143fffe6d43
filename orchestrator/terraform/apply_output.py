"""Parse the output of an apply: finished resources, and errors by node."""

import re
from collections.abc import Callable

from orchestrator.errors import CommandFailed

_DONE = re.compile(r"^(\S+): (Creation|Destruction|Modifications) complete")
_ERROR, _OF_NODE = re.compile(r"^[│╷ ]*Error: (.+)"), re.compile(r"^[│ ]*with \w+\.node\[\"(.+)\"\],")


class NodesNotCreated(CommandFailed):
    """An apply failed to create nodes (``reasons`` by name) and ``other_problems`` resources that are not nodes."""

    def __init__(self, failed: CommandFailed, reasons: dict[str, str], other_problems: int) -> None:
        super().__init__(failed.step, failed.argv, "exit code 1", failed.tail, failed.log)
        self.reasons, self.other_problems = reasons, other_problems


class Errors:
    """Parser of an apply's output: finished resources go to ``on_line``, errors are sorted by node."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line, self.messages = on_line, list[list[str]]()

    def __call__(self, line: str) -> None:
        error, node, done = _ERROR.match(line), _OF_NODE.match(line), _DONE.match(line)
        if error:
            self.messages.append([error[1]])
        elif node and self.messages:
            self.messages[-1].append(node[1])
        elif done:
            self.on_line(done[1])

    def of_nodes(self, failed: CommandFailed) -> CommandFailed:
        """Convert ``failed`` to NodesNotCreated if a node is among the failed resources."""
        reasons = {node: message for message, *nodes in self.messages for node in nodes}
        return NodesNotCreated(failed, reasons, sum(len(words) == 1 for words in self.messages)) if reasons else failed
