"""What Spark is configured with, for every kind of master. No Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.client.spark import SparkSettings, SparkUnavailable, configuration
from moorage.client.spark.configuration import local_cores, server_configuration
from moorage.client.spark.jars import ALL, fetch_jars, find_java, ivy_module, without_those_of_spark
from moorage.client.spark.settings import parse_conf

JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]
IMAGE = "spark.kubernetes.container.image"


def test_a_local_session_has_both_formats_and_as_many_tasks_as_cores() -> None:
    conf = configuration(SparkSettings(), JARS, cores=3)
    assert conf["spark.master"] == "local[*]"
    assert conf["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert {"Delta", "Iceberg"} == {name for name in ("Delta", "Iceberg") if name in conf["spark.sql.extensions"]}
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.driver.host"] == "127.0.0.1"


def test_a_standalone_cluster_keeps_the_parallelism_of_spark() -> None:
    conf = configuration(SparkSettings(master="spark://harbour:7077"), JARS)
    assert conf["spark.master"] == "spark://harbour:7077"
    assert "spark.sql.shuffle.partitions" not in conf
    assert "spark.driver.host" not in conf, "executors on other machines could not reach the driver"
    assert configuration(SparkSettings(master="spark://127.0.0.1:7077"), JARS)["spark.driver.host"] == "127.0.0.1"


def test_kubernetes_needs_an_image_and_runs_the_driver_here() -> None:
    master = "k8s://https://harbour:6443"
    with pytest.raises(SparkUnavailable, match=IMAGE):
        configuration(SparkSettings(master=master), JARS)
    settings = SparkSettings(master=master, conf={IMAGE: "moorage:1", "spark.kubernetes.namespace": "lake"})
    conf = configuration(settings, JARS)
    assert (conf["spark.submit.deployMode"], conf[IMAGE], conf["spark.kubernetes.namespace"]) == (
        "client",
        "moorage:1",
        "lake",
    )


def test_yarn_runs_the_driver_here_in_the_queue_that_the_settings_name() -> None:
    conf = configuration(SparkSettings(master="yarn", conf={"spark.yarn.queue": "upkeep"}), JARS)
    assert (conf["spark.master"], conf["spark.submit.deployMode"], conf["spark.yarn.queue"]) == (
        "yarn",
        "client",
        "upkeep",
    )
    assert conf["spark.jars"] == "/jars/a.jar,/jars/b.jar"


def test_a_connect_session_sets_only_what_a_client_may_set() -> None:
    settings = SparkSettings(remote="sc://harbour:15002", conf={"spark.sql.shuffle.partitions": "8"})
    assert configuration(settings) == {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "8"}
    assert server_configuration(settings, JARS)["spark.jars"] == "/jars/a.jar,/jars/b.jar"


def test_settings_of_the_user_override_ours() -> None:
    settings = SparkSettings(conf={"spark.driver.memory": "9g", "spark.sql.extensions": "mine"})
    conf = configuration(settings, JARS, cores=2)
    assert (conf["spark.driver.memory"], conf["spark.sql.extensions"]) == ("9g", "mine")


@pytest.mark.parametrize(("master", "tasks"), [("local", 1), ("local[4]", 4), ("local[2,3]", 2), ("local[*]", 7)])
def test_a_local_master_runs_as_many_tasks_as_it_says(master: str, tasks: int) -> None:
    assert local_cores(master, 7) == tasks


def test_an_unknown_local_master_is_refused() -> None:
    with pytest.raises(SparkUnavailable, match="expected a Spark master"):
        configuration(SparkSettings(master="locally"))


def test_the_environment_and_a_file_configure_a_session(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# ours\n\nspark.a  one two\nspark.b=x=y\n")
    found = SparkSettings.from_environment(
        {"MOORAGE_SPARK_MASTER": "yarn", "MOORAGE_SPARK_CONF": str(file), "MOORAGE_SPARK_JARS": str(tmp_path)}
    )
    assert found == SparkSettings(master="yarn", conf={"spark.a": "one two", "spark.b": "x=y"}, jars=tmp_path)
    assert SparkSettings.from_environment({}) == SparkSettings()


@pytest.mark.parametrize("text", ["spark.a", "=1", ""])
def test_a_setting_without_a_key_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(SparkUnavailable, match="KEY=VALUE"):
        parse_conf([text])


def test_a_missing_file_of_settings_is_named(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=r"no\.conf"):
        SparkSettings.from_environment({"MOORAGE_SPARK_CONF": str(tmp_path / "no.conf")})


def test_the_jars_are_pinned_and_no_host_is_named() -> None:
    text = ivy_module()
    assert all(f'name="{jar.name}" rev="{jar.version}"' in text for jar in ALL)
    assert "http" not in text


def test_a_folder_without_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="has no jars"):
        fetch_jars(SparkSettings(jars=tmp_path))


def test_a_missing_java_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailable, match="apt-get install openjdk-17-jre-headless"):
        find_java()


def test_a_jar_of_which_spark_has_its_own_version_is_left_out(tmp_path: Path) -> None:
    for name in ("netty-transport-4.2.7.Final.jar", "netty-transport-native-epoll-4.2.7.Final-linux-x86_64.jar"):
        (tmp_path / name).touch()
    ours = [Path(name) for name in ("netty-transport-4.1.115.Final.jar", "lance-spark-4.1_2.13-0.1.jar")]
    assert without_those_of_spark(ours, tmp_path) == [Path("lance-spark-4.1_2.13-0.1.jar")]
