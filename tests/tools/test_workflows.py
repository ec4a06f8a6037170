"""The workflows name only what exists, and keep the promises that the README makes of them.

Their schema is checked by `make lint`. Nothing here can run them.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
TOP_LEVEL = "tools|tests|benchmarks|csrc|python|third_party|docs"
REPOSITORY_PATH = re.compile(rf"(?<![\w./-])(?:(?:{TOP_LEVEL})/[\w./*-]*\w|\.ci/\w+)")


def load(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


WORKFLOWS = {path.name: load(path) for path in FILES}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]
STEPS = [
    (f"{name}: {job}: {step.get('name', step.get('run', step.get('uses')))}", step)
    for name, job in JOBS
    for step in WORKFLOWS[name]["jobs"][job].get("steps", [])
]
SCRIPTS = [(where, step["run"]) for where, step in STEPS if "run" in step]


def job_of(name, job):
    return WORKFLOWS[name]["jobs"][job]


def test_all_workflows_are_here():
    assert set(WORKFLOWS) == {"hosted-mac.yml", "linux.yml", "macos.yml", "release.yml"}


@pytest.mark.parametrize(("where", "script"), SCRIPTS, ids=[where for where, _ in SCRIPTS])
class TestScripts:
    def test_is_shell(self, where, script):
        text = EXPRESSION.sub("expression", script)
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr

    def test_names_only_paths_that_exist(self, where, script):
        for path in REPOSITORY_PATH.findall(script):
            assert list(ROOT.glob(path)), path

    def test_runs_only_what_can_be_run(self, where, script):
        for command in re.findall(r"(?:^|&& |\|\| )((?:tools|\.ci)/\S+)", script, re.MULTILINE):
            path = ROOT / command
            assert path.stat().st_mode & 0o111, f"{command} is not executable"
            assert path.read_text(encoding="utf-8").startswith("#!"), command

    def test_makes_only_targets_of_the_makefile(self, where, script):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in re.findall(r"(?:^|&& )make ([a-z-]+)", script, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

    def test_takes_no_text_of_others_into_the_shell(self, where, script):
        """`${{ github.head_ref }}` and the like in a script are commands of whoever wrote them."""
        assert not EXPRESSION.findall(script)

    def test_names_only_options_that_exist(self, where, script):
        commands = re.findall(r"(mps_ds\.selftest|\S+\.py)((?: +--?[\w-]+(?: [\w./]+)?)*)", script)
        for command, options in commands:
            start = ["-m", command] if command.startswith("mps_ds") else [ROOT / command]
            wanted = re.findall(r"--[\w-]+", options)
            if wanted:
                run = [sys.executable, *start, "--help"]
                text = subprocess.run(run, capture_output=True, text=True, check=True).stdout
                assert [option for option in wanted if option not in text] == [], command


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[f"{n}: {j}" for n, j in JOBS])
class TestJobs:
    def test_needs_only_jobs_that_exist(self, name, job):
        needs = job_of(name, job).get("needs", [])
        for needed in [needs] if isinstance(needs, str) else needs:
            assert needed in WORKFLOWS[name]["jobs"]

    def test_calls_only_workflows_that_exist_with_inputs_that_they_have(self, name, job):
        called = job_of(name, job).get("uses")
        if called:
            assert called.startswith("./")
            inputs = load(ROOT / called)["on"]["workflow_call"]["inputs"]
            assert set(job_of(name, job)["with"]) == set(inputs)

    def test_refers_only_to_steps_and_outputs_that_exist(self, name, job):
        text = str(job_of(name, job))
        steps = {step.get("id") for step in job_of(name, job).get("steps", [])}
        assert set(re.findall(r"\bsteps\.([\w-]+)\.", text)) <= steps
        for needed, output in re.findall(r"\bneeds\.([\w-]+)\.outputs\.([\w-]+)", text):
            assert output in job_of(name, needed)["outputs"]

    def test_cannot_run_forever(self, name, job):
        own = job_of(name, job)
        assert "uses" in own or own.get("timeout-minutes", 360) <= 120 or "gh release" in str(own)

    def test_runs_on_an_image_of_known_kind(self, name, job):
        runs_on = job_of(name, job).get("runs-on")
        known = ("macos-15", "macos-26", "ubuntu-24.04", "${{ inputs.image }}", None)
        assert runs_on in known or runs_on == ["self-hosted", "macOS", "ARM64"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_may_be_written_unless_said(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    writing = [job for job, text in WORKFLOWS[name]["jobs"].items() if "permissions" in text]
    assert writing == (["draft"] if name == "release.yml" else [])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_failing_command_in_a_pipe_fails_its_step(name):
    assert WORKFLOWS[name]["defaults"]["run"]["shell"] == "bash"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_only_actions_of_github_itself_are_used(name):
    for step in [s for w, s in STEPS if w.startswith(name) and "uses" in s]:
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])


# ---- promises ------------------------------------------------------------------------------------

HOSTED = WORKFLOWS["hosted-mac.yml"]["jobs"]
SELF_HOSTED = WORKFLOWS["macos.yml"]["jobs"]["self-hosted"]


def scripts(job):
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


def pytest_lines(job):
    return [line for line in scripts(job).splitlines() if "pytest" in line]


def test_linux_runs_what_a_person_runs():
    text = scripts(WORKFLOWS["linux.yml"]["jobs"]["test"])
    assert "bash .ci/run" in text
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_hosted_macs_run_gpu_tests_only_where_the_probe_passed():
    assert [line.count("--cpu-only") for line in pytest_lines(HOSTED["build"])] == [1]
    assert HOSTED["build"]["outputs"]["gpu"] == "${{ steps.probe.outputs.gpu }}"
    assert HOSTED["gpu"]["if"] == "needs.build.outputs.gpu == 'true'"
    assert [line.count("--cpu-only") for line in pytest_lines(HOSTED["gpu"])] == [0]


def test_gpu_tests_that_are_not_run_are_told():
    warning = next(s for s in HOSTED["build"]["steps"] if s.get("name") == "GPU tests are not run")
    assert warning["if"] == "steps.probe.outputs.gpu != 'true'"
    assert "::warning" in warning["run"]


def test_the_probe_s_no_fails_no_hosted_job_and_its_crash_does():
    """Exit status 3 is a no; any other is a fault of the probe itself."""
    probe = next(step for step in HOSTED["build"]["steps"] if step.get("id") == "probe")
    for status, outcome in [(0, 0), (3, 0), (1, 1), (2, 1)]:
        script = probe["run"].replace(".venv/bin/python", f"(exit {status}) #")
        script = re.sub(r"\(exit (\d)\) #.* \|\|", r"(exit \1) ||", script)
        assert subprocess.run(["bash", "-ec", script]).returncode == outcome


def test_hosted_macs_compile_shaders_with_both_of_metal_s_compilers():
    text = scripts(HOSTED["build"])
    assert "tools/compile_shaders.sh" in text
    assert "C.warm_up()" in text


def test_the_mac_with_a_gpu_runs_everything_validated():
    assert SELF_HOSTED["env"] == {"MTL_DEBUG_LAYER": "1", "MTL_SHADER_VALIDATION": "1"}
    (line,) = pytest_lines(SELF_HOSTED)
    assert line == ".venv/bin/python -m pytest --junitxml results/tests.xml"
    text = scripts(SELF_HOSTED)
    assert "mps_ds.selftest --json" in text
    assert "benchmarks/" in text
    assert "pip wheel" in text
    assert "probe_gpu.py" in text
    assert "probe_gpu.py --json results/probe.json ||" not in text  # a no fails here


def test_the_mac_with_a_gpu_never_runs_a_stranger_s_code():
    assert "github.event_name != 'pull_request'" in SELF_HOSTED["if"]
    assert "pull_request_target" not in WORKFLOWS["macos.yml"]["on"]


def test_releases_are_for_every_python_that_the_set_up_takes():
    setup = (ROOT / "tools" / "setup" / "python.sh").read_text(encoding="utf-8")
    oldest, newest = (
        int(re.search(rf"{word}_PYTHON=(\d+)", setup)[1]) for word in ("OLDEST", "NEWEST")
    )
    matrix = WORKFLOWS["release.yml"]["jobs"]["wheel"]["strategy"]["matrix"]["python"]
    assert matrix == [f"3.{minor}" for minor in range(oldest, newest + 1)]
