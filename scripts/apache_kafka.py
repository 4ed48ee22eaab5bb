"""A real Apache Kafka broker (KRaft, one process for both its roles) and redis-server, for real_kafka.py.

The jars come from Maven Central through `mvn`, once, into a cache folder; versions are tried newest first.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from turngate.devstack import ports, probe, valkey
from turngate.devstack.errors import StackError
from turngate.devstack.servers import ServerSpec
from turngate.devstack.stack import ServerStack

JAVA_MIN = 17
MAVEN_SECONDS = 900
# Newest first: where the newest does not resolve (a mirror that lags), the next one is taken.
VERSIONS = ("4.4.0", "4.3.1", "4.2.2", "4.1.2", "4.0.2")
HEAP = "-Xmx512m"

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>turngate</groupId><artifactId>test-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

# A single node; hanging transactions are aborted within a second of their timeout, groups form without delay,
# and a killed broker may register again after the short session timeout.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={log_dirs}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
default.replication.factor=1
min.insync.replicas=1
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=16777216
"""

# Kafka logs through slf4j, and its own jars carry no binding.
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")


def real_stack(data: Path, cache: Path) -> ServerStack:
    """A broker and a Redis on free ports, data and logs below `data`, not yet started.

    Raises StackError when java, mvn or redis-server is missing or no Kafka version resolves.
    """
    java = _java()
    version, libraries = kafka_jars(cache)
    kafka_port, controller_port, redis_port = ports.free_ports(3)
    redis = _redis_server()
    kafka = _kafka_spec(java, version, libraries, data, (kafka_port, controller_port))
    product = _first_line(str(redis), "--version")
    found = re.search(r"v=([0-9.]+)", product)
    name = f"redis {found.group(1)}" if found else "redis"
    spec = valkey.redis_spec(redis, name, data / "redis", data / "logs" / "redis.log", redis_port)
    return ServerStack(data, kafka, spec, keeps_kafka_on_kill=True)


def kafka_jars(cache: Path) -> tuple[str, Path]:
    """The version and the folder with its jars, from the cache or from Maven Central. Raises StackError."""
    for version in VERSIONS:
        if (cache / version / "complete").exists():
            return version, cache / version / "libs"
    mvn = shutil.which("mvn")
    if mvn is None:
        raise StackError("mvn is not installed: install Maven, it fetches the broker's jars")
    problems: list[str] = []
    for version in VERSIONS:
        folder = cache / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM.format(version=escape(version)))
        command = [mvn, "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder / 'libs'}"]
        with (folder / "maven.log").open("w") as log:
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=MAVEN_SECONDS
            ).returncode
        if code == 0:
            (folder / "complete").touch()
            return version, folder / "libs"
        problems.append(f"{version}: see {folder / 'maven.log'}")
    raise StackError("no Apache Kafka version resolved: " + "; ".join(problems))


def _kafka_spec(java: str, version: str, libraries: Path, data: Path, used: tuple[int, int]) -> ServerSpec:
    port, controller_port = used
    folder = data / "kafka"
    config = data / "config"
    properties = config / "server.properties"
    command = (java, HEAP, *LOGGING, "-cp", f"{libraries}/*")

    def format_storage() -> None:
        config.mkdir(parents=True, exist_ok=True)
        properties.write_text(
            PROPERTIES.format(host=ports.LOOPBACK, port=port, controller_port=controller_port, log_dirs=folder)
        )
        if (folder / "meta.properties").exists():
            return
        # The letter in front: an id that began with a dash would be read as an option.
        cluster = f"t{secrets.token_urlsafe(16)[:21]}"
        arguments = ("format", "--cluster-id", cluster, "--config", str(properties))
        done = subprocess.run(
            [*command, "kafka.tools.StorageTool", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise StackError(f"cannot format the broker's storage: {done.stderr.strip()[-500:]}")

    return ServerSpec(
        name="kafka",
        product=f"Apache Kafka {version}",
        argv=(*command, "kafka.Kafka", str(properties)),
        port=port,
        data=folder,
        log=data / "logs" / "kafka.log",
        ready=probe.kafka_coordinators_ready,
        ready_timeout_seconds=120.0,
        prepare=format_storage,
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise StackError(f"java is not installed: Apache Kafka 4 needs Java {JAVA_MIN} or newer")
    line = _first_line(java, "--version")
    found = re.search(r"\s(\d+)[.\s]", f"{line} ")
    if found is None or int(found.group(1)) < JAVA_MIN:
        raise StackError(f"{java} is '{line}': Apache Kafka 4 needs Java {JAVA_MIN} or newer")
    return java


def _redis_server() -> Path:
    found = shutil.which("redis-server")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        _apt_install()
        found = shutil.which("redis-server")
    if found is None:
        raise StackError("redis-server is not installed: install it (Debian: apt-get install redis-server)")
    return Path(found)


def _apt_install() -> None:
    # RUNLEVEL=1 keeps the package from starting its own server on the standard port.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "redis-server"]
    for command in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode == 0 and command is install:
            return
    raise StackError(f"apt-get install redis-server failed: {done.stderr.strip()[-500:]}")


def _first_line(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise StackError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip().splitlines()[0]
