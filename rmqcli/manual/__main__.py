"""Writes the generated files and removes man pages of commands that no longer exist."""

from __future__ import annotations

from pathlib import Path

from rmqcli.manual import generated_files


def main() -> None:
    """Write the files below the current folder."""
    files = generated_files(Path())
    for path in Path("man").glob("*.1"):
        if path not in files:
            path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    print(f"{len(files)} files written")


if __name__ == "__main__":
    main()
