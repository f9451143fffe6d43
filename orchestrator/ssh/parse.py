"""Parse answers of nodes, which may be compromised, damaged or of another version."""

from typing import TypeVar

from pydantic import BaseModel

from orchestrator.errors import ContractError
from orchestrator.schema import bounded
from orchestrator.ssh.session import Session

Shape = TypeVar("Shape", bound=BaseModel)

REMEDY = "repair or remove that file on the node"


def parsed(shape: type[Shape], text: str, session: Session, name: str, remedy: str = REMEDY) -> Shape:
    """Parse JSON text, bounded in size and depth, as the model ``shape``.

    Args:
        shape: Pydantic model.
        text: Answer of the node.
        session: Connection to the node, which the error names.
        name: File on the node, or subject of the request.
        remedy: Hint of the error.

    Returns:
        The parsed model.

    Raises:
        ContractError: The text is not such JSON. It names the node, the file, each wrong key and its value.
    """
    source = f"{session.node}: {name}"
    try:
        if len(text) > bounded.LIMIT:
            raise bounded.Unreadable(source, f"larger than {bounded.LIMIT:,} characters")
        return bounded.load_model(text, shape, source)
    except bounded.Unreadable as error:
        raise ContractError(str(error), remedy) from None
