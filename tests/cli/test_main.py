"""The program itself: help, version, unknown commands."""

import os
import re
import subprocess

import pytest
from conftest import call, good, wrong

COMMANDS = ["run", "report", "list", "flamegraph", "convert", "diff"]


def test_help_names_every_command():
    for words in (["--help"], ["-h"], ["help"]):
        text = good(*words)
        for command in COMMANDS:
            assert re.search(rf"^  {command} +\w", text, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    text = good(command, "--help")
    assert text.startswith(f"Usage: pyrometer {command} ")
    assert text == good(command, "-h")
    assert max(len(line) for line in text.splitlines()) <= 110


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_guide(command):
    guide = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "commands.md")
    with open(guide, encoding="utf-8") as file:
        text = file.read()
    for option in re.findall(r"--[a-z-]+", good(command, "--help")):
        assert f"`{option}" in text, option


def test_version():
    assert re.fullmatch(r"pyrometer \d+\.\d+\.\d+\n", good("--version"))
    assert good("version") == good("--version")


def test_no_command():
    done = call()
    assert done.returncode == 2 and done.stdout == ""
    assert "Usage: pyrometer COMMAND" in done.stderr


@pytest.mark.parametrize(
    "word, expected",
    [
        ("reprot", 'did you mean "report"?'),
        ("flame", 'did you mean "flamegraph"?'),
        ("difff", 'did you mean "diff"?'),
        ("xyzzy", "see pyrometer --help"),
        ("--verion", "see pyrometer --help"),
    ],
)
def test_unknown_command(word, expected):
    assert expected in wrong(word)


def test_a_reader_that_leaves_early_is_no_trouble(shop):
    program = os.environ.get("PYROMETER_PROGRAM", "pyrometer")
    done = subprocess.run(
        ["sh", "-c", '"$0" report "$1" | head -n 1', program, shop], capture_output=True, text=True
    )
    assert done.stdout.startswith("Process") and done.stderr == ""
