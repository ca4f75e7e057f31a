"""The Kustomize base keeps its promises: privileges, ports, probes, and what a job needs to be observed in any image.

There is no cluster to try it on; what is held here is that its parts fit together and fit the programs.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import paceline
from hostd.config import parse_config as parse_host_config
from nccl_shim.segment.layout import DEFAULT_SOCKET
from paceline.cli import main
from paceline.service.address import host_port
from paceline.service.metrics import ANSWER_S
from switchd.config import parse_config as parse_switch_config
from tests.nccl_shim.test_job_side import oldest_python

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
COUNT = """
from nccl_shim import ps
channel = ps.connect(role="worker", rank=0, world_size=2)
with channel.push(peer=1, size_bytes=1000):
    pass
channel.iteration_done()
"""


def objects(path: Path) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def one(path: Path, kind: str) -> dict[str, Any]:
    [found] = [found for found in objects(path) if found["kind"] == kind]
    return found


HOSTD = one(BASE / "hostd.yaml", "DaemonSet")
SWITCHD = one(BASE / "switchd.yaml", "Deployment")
POD = HOSTD["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
[PREPARE] = POD["initContainers"]

[TOPOLOGY] = [mount["mountPath"] for mount in CONTAINER["volumeMounts"] if mount["name"] == "topology"]
HOSTD_TOML, SWITCHD_TOML = (
    (BASE / name).read_text().replace("@NODE@", "h0").replace(f"{TOPOLOGY}/", f"{BASE}/")
    for name in ("hostd.toml", "switchd.toml")
)


def test_kustomizations_name_files_that_exist_and_all_of_them() -> None:
    for folder in (BASE, KUBERNETES / "monitoring"):
        [found] = objects(folder / "kustomization.yaml")
        maps = [file for generator in found.get("configMapGenerator", ()) for file in generator["files"]]
        assert {*found["resources"], *maps, "kustomization.yaml"} == {path.name for path in folder.iterdir()}
    [base] = objects(BASE / "kustomization.yaml")
    assert base["images"] == [{"name": "paceline", "newTag": paceline.__version__}]
    made = {generator["name"] for generator in base["configMapGenerator"]}
    asked = {volume["configMap"]["name"] for volume in _volumes(HOSTD) + _volumes(SWITCHD) if "configMap" in volume}
    assert made == asked


@pytest.mark.parametrize("workload", [HOSTD, SWITCHD], ids=["hostd", "switchd"])
def test_labels_mounts_and_limits_fit(workload: dict[str, Any]) -> None:
    template = workload["spec"]["template"]
    assert workload["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    containers = template["spec"]["containers"] + template["spec"].get("initContainers", [])
    mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in _volumes(workload)}
    for container in containers:
        assert container["image"] == "paceline"
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    assert {"name": "OPENBLAS_NUM_THREADS", "value": "1"} in template["spec"]["containers"][0]["env"]


def test_hostd_asks_for_no_more_than_the_unit() -> None:
    for container in (CONTAINER, PREPARE):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_PTRACE"]}
    [switchd] = SWITCHD["spec"]["template"]["spec"]["containers"]
    assert switchd["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert SWITCHD["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_pods_with_networks_of_their_own_are_reached() -> None:
    """htb on the node's devices does not reach them, and `auto` might choose it."""
    assert CONTAINER["command"][-2:] == ["--backend", "pacing"]
    assert POD["hostPID"] and POD["hostNetwork"] and POD["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_what_prepares_a_node_keeps_hostd_away_only_without_a_configuration() -> None:
    render, *others = PREPARE["command"][-1].splitlines()
    assert render.endswith("|| exit 1") and "@NODE@" in render
    assert others[0].startswith("paceline shim /shim")
    assert others[1].startswith("chmod 1777 /dev/shm/paceline"), "the kubelet makes it for root alone"
    assert others[2].startswith("paceline release --all")
    assert all(line.endswith("|| true") for line in others)


def test_configurations_are_read_by_the_daemons_and_fit_together() -> None:
    host = parse_host_config(HOSTD_TOML, "hostd.toml")
    switch = parse_switch_config(SWITCHD_TOML, "switchd.toml")
    assert host.mode == "observe"  # an example that throttles no job
    assert (host.slots, host.policy, host.switch_name) == (switch.slots, switch.policy, switch.name)
    assert host.topology.fingerprint == switch.topology.fingerprint
    service = one(BASE / "switchd.yaml", "Service")
    [base] = objects(BASE / "kustomization.yaml")
    [port] = service["spec"]["ports"]
    assert host.switch == f"{service['metadata']['name']}.{base['namespace']}.svc:{port['port']}"
    assert host_port(switch.listen).port == port["port"]
    assert host.registration_socket == DEFAULT_SOCKET
    assert str(host.state_directory) in {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}


def test_ports_and_probes_are_the_configurations() -> None:
    for container, text in (
        (CONTAINER, HOSTD_TOML),
        (SWITCHD["spec"]["template"]["spec"]["containers"][0], SWITCHD_TOML),
    ):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        metrics = host_port(tomllib.loads(text)["metrics"])
        assert ports["metrics"] == metrics.port and metrics.host == "0.0.0.0"
        for probe in (container["readinessProbe"], container["livenessProbe"]):
            assert probe["httpGet"] == {"port": "metrics", "path": "/healthz"}
            assert probe["timeoutSeconds"] > ANSWER_S


def test_prometheus_finds_both_daemons_under_names_that_the_alerts_know() -> None:
    found = objects(KUBERNETES / "monitoring" / "monitors.yaml")
    [monitor] = [one for one in found if one["kind"] == "ServiceMonitor"]
    services = [one for one in found if one["kind"] == "Service"]
    labels = monitor["spec"]["selector"]["matchLabels"]
    assert all(labels.items() <= one["metadata"]["labels"].items() for one in services)
    assert all(one["metadata"]["name"].startswith("paceline-") for one in services)  # alerts.yml: job=~"paceline-.*"
    pods = [HOSTD["spec"]["template"]["metadata"]["labels"], SWITCHD["spec"]["template"]["metadata"]["labels"]]
    for service, pod in zip(services, pods, strict=True):
        assert service["spec"]["selector"].items() <= pod.items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] == "metrics" and endpoint["honorLabels"] is True


def test_a_job_in_any_image_is_observed_with_the_mounts_of_the_example(tmp_path: Path, capsys) -> None:
    job = one(KUBERNETES / "job.yaml", "Job")
    pod = job["spec"]["template"]["spec"]
    [train] = pod["containers"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    mounts = {paths[mount["name"]]: mount["mountPath"] for mount in train["volumeMounts"]}
    node = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in _volumes(HOSTD)}
    environment = {one["name"]: one.get("value") for one in train["env"]}
    # The socket: hostd's directory of the node, where the job looks for it.
    assert str(DEFAULT_SOCKET.parent) in mounts and str(DEFAULT_SOCKET).startswith(node["run"])
    assert Path(environment["PACELINE_SOCKET"]).parent == Path(mounts[str(DEFAULT_SOCKET.parent)])
    # The shim: what the node's init container writes is what the job's variables lead to, with an old Python.
    inside = mounts[node["shim"]]
    assert main(["shim", str(tmp_path / "shim"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["environment"]
    given = {name: (environment[name] or "").replace(inside, str(tmp_path / "shim")) for name in printed}
    assert given == printed
    counters = tmp_path / "counters"
    env = {**given, "PACELINE_SHM_DIR": str(counters), "PACELINE_JOB": "bert", "PATH": os.defpath}
    python = oldest_python() or sys.executable
    done = subprocess.run([python, "-c", COUNT], env=env, cwd="/", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    [counted] = counters.iterdir()
    assert b"bert" in counted.read_bytes()


def _volumes(workload: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workload["spec"]["template"]["spec"]["volumes"]
    return found


def test_the_shim_of_another_version_stays_where_it_is(tmp_path: Path) -> None:
    """Jobs that run have its library mapped."""
    for _ in range(2):
        assert main(["shim", str(tmp_path)]) == 0
    (tmp_path / paceline.__version__).rename(tmp_path / "0.0.1")
    library = (tmp_path / "0.0.1" / "nccl_shim" / "__init__.py").stat()
    assert main(["shim", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"0.0.1", paceline.__version__, "current"}
    assert (tmp_path / "current").resolve().name == paceline.__version__
    assert (tmp_path / "0.0.1" / "nccl_shim" / "__init__.py").stat().st_ino == library.st_ino
    shutil.rmtree(tmp_path / "0.0.1")
