"""How many lines of code the package has, without comments, docstrings and blank lines, room by room.

    python benchmarks/lines.py [--commit REVISION] [--json FILE]

A line counts if a token of code is on it; strings that stand alone, as docstrings do, are no code. Without `--commit`,
the files of the working tree are counted.
"""

import ast
import io
import json
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

from _measure import arguments

ROOT = Path(__file__).parent.parent
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(source: str) -> int:
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in NO_CODE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        for statement in node.body if isinstance(getattr(node, "body", None), list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                lines -= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return len(lines)


def sources(commit: str | None) -> dict[str, str]:
    if commit is None:
        return {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "winml_py").rglob("*.py")}

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    names = git("ls-tree", "-r", "--name-only", commit, "winml_py").splitlines()
    return {name: git("show", f"{commit}:{name}") for name in names if name.endswith(".py")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--commit", help="count the files of this commit")
    options = parser.parse_args()
    rooms: Counter[str] = Counter()
    for name, source in sources(options.commit).items():
        rooms["/".join(name.split("/")[1:-1][:2]) or "."] += lines_of_code(source)
    for room, lines in sorted(rooms.items()):
        print(f"{lines:6}  {room}")
    print(f"{sum(rooms.values()):6}  in all")
    if options.json:
        options.json.write_text(json.dumps({"rooms": rooms, "lines": sum(rooms.values())}, indent=2))


if __name__ == "__main__":
    main()
