"""StandaloneCluster: a master of Spark and two workers on one machine, each worker on an address of its own.

For the tests of executors. Master and workers are started from pyspark's own jars and kept by a `Keeper`: nothing of
them, nor of the executors that they start, outlives the test run. To Spark the two workers are two hosts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

from conformance.kafka_server import free_ports
from spark.spark_home import spark_home
from support.keeper import Keeper
from support.waiting import wait_until

MASTER_HOST: Final = "127.0.0.1"
WORKER_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
_ANSWER_S: Final = 10


class StandaloneCluster:
    """Running when it is made; each worker gives one executor with one core."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="spark-standalone-"))
        self._keeper = Keeper(self._folder)
        with free_ports(2) as (port, web_port):
            self.url: str = f"spark://{MASTER_HOST}:{port}"
            self._state_url = f"http://{MASTER_HOST}:{web_port}/json/"
        try:
            self._launch("master", "Master", "--host", MASTER_HOST, "--port", str(port), "--webui-port", str(web_port))
            for host in WORKER_HOSTS:
                self._launch_worker(host)
            self._await_workers()
        except BaseException:
            self.close()
            raise

    def mend(self) -> None:
        """Start again the workers that were killed; returns when the master knows two."""
        for host in WORKER_HOSTS:
            if self._keeper.exit_code(host) is not None:
                self._launch_worker(host)
        self._await_workers()

    def close(self) -> None:
        """Kill everything."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch_worker(self, host: str) -> None:
        work = ["--work-dir", str(self._folder / host)]
        self._launch(host, "Worker", "--host", host, "--cores", "1", "--memory", "1g", *work, self.url)

    def _launch(self, name: str, kind: str, *arguments: str) -> None:
        home = spark_home()
        environment = [f"SPARK_HOME={home}", f"PYSPARK_PYTHON={sys.executable}", f"SPARK_LOG_DIR={self._folder}"]
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        self._keeper.start(name, ["env", *environment, *command], self._log_file(name))

    def _await_workers(self) -> None:
        wait_until(lambda: self._state().get("aliveworkers") == len(WORKER_HOSTS), self._tell)

    def _state(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self._state_url, timeout=_ANSWER_S) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except (OSError, json.JSONDecodeError):  # a master that has just started answers with nothing at all
            return {}

    def _tell(self) -> str:
        logs = [self._log_file(name) for name in ("master", *WORKER_HOSTS)]
        return "\n".join(f"{log.name}: {log.read_text()[-1_000:]}" for log in logs if log.exists())

    def _log_file(self, name: str) -> Path:
        return self._folder / f"{name}.log"
