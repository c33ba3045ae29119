"""Tests run by processes that are forked after one collection."""

import os
import subprocess
import sys
from pathlib import Path

import forked_commands
import pytest

FILES = {
    "test_one.py": """
        import os, pathlib, sys, warnings
        KEPT = sys.stderr
        pathlib.Path(f"collected-{os.getpid()}").touch()
        def test_passes(tmp_path): pathlib.Path("first").write_text(str(tmp_path))
        def test_fails(): print("told"); assert False
        def test_ends_its_process(): os._exit(3)
        def test_after_it():
            print("to nobody", file=KEPT, flush=True)
            warnings.warn("a warning")
    """,
    "test_two.py": """
        import pathlib, time, pytest
        def test_beside(tmp_path):
            while not pathlib.Path("first").exists(): time.sleep(0.01)
            assert tmp_path.parent != pathlib.Path(pathlib.Path("first").read_text()).parent
        def test_skipped(): pytest.skip("a reason")
    """,
    "test_three.py": """
        def test_last(): print("not told")
    """,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a run says that has everything in it, and where it was."""
    if sys.platform == "darwin":
        pytest.skip("pytest-xdist is used here")
    folder = tmp_path_factory.mktemp("forked")
    for name, text in FILES.items():
        (folder / name).write_text(text.replace("\n        ", "\n"))
    return folder, run(folder)


def run(folder: Path, *options: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "-p",
        "forked",
    ]
    about = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command += ["-p", "no:schemathesis", "--forks", "2", "-q", "-ra", *options, *FILES]
    done = subprocess.run(
        command, cwd=folder, env=about, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_test_is_run_once_and_told(told):
    _, text = told
    assert "2 failed, 4 passed, 1 skipped, 1 warning" in text
    assert "FAILED test_one.py::test_fails" in text
    assert "told" in text and "not told" not in text and "to nobody" not in text
    assert "a reason" in text and "a warning" in text


def test_a_test_that_ends_its_process_has_failed_and_the_others_go_on(told):
    _, text = told
    assert "FAILED test_one.py::test_ends_its_process" in text
    assert "The process of this test ended with 3." in text


def test_everything_is_collected_once(told):
    folder, _ = told
    assert len(list(folder.glob("collected-*"))) == 1


def test_the_first_failure_can_be_the_last(told):
    folder, _ = told
    assert "1 failed" in run(folder, "--maxfail", "1")


COMMAND = """
import os, sys, threading
assert os.fsync.__name__ == "fsync"  # which tests replace
print(sys.argv[1:], os.environ["TOLD"], threading.active_count(), "torch" in sys.modules)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 7])
def test_a_command_is_done_by_a_copy_that_has_run_nothing(tmp_path, code):
    (tmp_path / "command.py").write_text(COMMAND)
    words = [sys.executable, tmp_path / "command.py", code, "a b"]
    done = forked_commands.run(words, env=os.environ | {"TOLD": "more"})
    assert done.returncode == code and done.stderr == ""
    assert done.stdout.startswith(f"['{code}', 'a b'] more 1 ")


def test_what_a_command_fails_with_is_told(tmp_path):
    done = forked_commands.run([sys.executable, "-m", "no_such_module"])
    assert done.returncode == 1 and "no_such_module" in done.stderr
