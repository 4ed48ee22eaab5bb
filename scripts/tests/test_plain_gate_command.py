"""The command as people run it: reports, exit codes, and that nothing but the standard library is needed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from validate_tool_stream import main

SCRIPT = Path(__file__).resolve().parents[1] / "validate_tool_stream.py"

CALL = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": "{}"}}


def fixture(*deltas, finish, profile="openai"):
    chunks = [{"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return {"profile": profile, "tool_schemas": {"now": {}}, "chunks": chunks, "meta": {"case": "ø"}}


FILES = {
    "pass.json": fixture({"tool_calls": [CALL]}, finish="tool_calls"),
    "fail.json": fixture({"tool_calls": [CALL]}, finish="length"),
    "text.json": fixture({"content": "hei"}, finish="stop"),
    "other.json": fixture(finish="stop", profile="gemini"),
    "list.json": [],
    "two.json": {**fixture(finish="stop"), "events": []},
    "none.json": {"profile": "openai"},
}


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, content in FILES.items():
            (Path(self.folder.name) / name).write_text(json.dumps(content))
        (Path(self.folder.name) / "broken.json").write_text("{")

    def run_it(self, *arguments, standard_input=None):
        """Without site-packages, from another folder."""
        return subprocess.run(
            [sys.executable, "-S", str(SCRIPT), *arguments],
            cwd=self.folder.name,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
            input=standard_input,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_exit_codes(self):
        for names, code in (
            (["pass.json"], 0), (["fail.json"], 1), (["text.json"], 2), (["other.json"], 1), (["broken.json"], 3),
            (["list.json"], 3), (["two.json"], 3), (["none.json"], 3), (["nowhere.json"], 3),
            (["pass.json", "text.json"], 2), (["text.json", "fail.json", "pass.json"], 1),
            (["fail.json", "nowhere.json", "text.json"], 3), ([], 64), (["pass.json", "--report", "xml"], 64),
            (["--what"], 64),
        ):  # fmt: skip
            paths = [name if name[0] == "-" or name == "xml" else f"{self.folder.name}/{name}" for name in names]
            with self.subTest(names=names), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                try:
                    found = main(paths)
                except SystemExit as exit_:  # argparse's way
                    found = exit_.code
                self.assertEqual(found, code)

    def test_one_line_of_json_for_each_file_in_order(self):
        done = self.run_it("fail.json", "nowhere.json", "other.json", "pass.json", "--report", "json")
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([report["status"] for report in reports], ["fail", "fail", "fail", "pass"])
        self.assertEqual([report.get("code") for report in reports], [None, "unreadable", "unsupported_profile", None])
        fields = {
            "status",
            "applicable",
            "executable",
            "calls",
            "findings",
            "turn",
            "normaliser",
            "fixtureDigest",
            "meta",
        }
        self.assertEqual(set(reports[3]), fields)
        self.assertEqual(reports[3]["meta"], {"case": "ø"})
        wanted = {"id": "c1", "name": "now", "arguments": {}, "argumentsRaw": "{}", "slot": "0/0"}
        self.assertEqual(reports[3]["calls"], [wanted])

    def test_text_and_standard_input(self):
        done = self.run_it("-", standard_input=json.dumps(FILES["fail.json"]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("fail  -  verdict=blocked stop=truncated calls=0", done.stdout)
        self.assertIn("error  wrong_terminal_reason", done.stdout)

    def test_no_cache_files_are_written(self):
        before = set(SCRIPT.parent.rglob("*.pyc"))
        self.run_it("pass.json")
        self.assertEqual(set(SCRIPT.parent.rglob("*.pyc")), before)


if __name__ == "__main__":
    unittest.main()
