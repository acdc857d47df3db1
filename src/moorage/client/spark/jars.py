"""The jars that Spark needs, pinned by name and version and resolved once into a cache.

Ivy, which is part of PySpark, resolves them. Its settings name no host: a resolver without a root is Maven Central.
Delta's own dependencies are left out, because PySpark has them in the versions that it was built with.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from moorage.client.spark.failure import SparkUnavailable
from moorage.client.spark.settings import SparkSettings


class Jar(NamedTuple):
    """A module of a Maven repository."""

    group: str
    name: str
    version: str
    with_dependencies: bool = False


TABLE_FORMATS: Final = (
    Jar("io.delta", "delta-spark_4.1_2.13", "4.4.0"),
    Jar("io.delta", "delta-storage", "4.4.0"),
    Jar("io.delta", "delta-kernel-api", "4.4.0"),
    Jar("io.delta", "delta-kernel-defaults", "4.4.0"),
    Jar("io.delta", "delta-kernel-unitycatalog", "4.4.0"),
    Jar("io.unitycatalog", "unitycatalog-client", "0.6.0"),
    Jar("io.unitycatalog", "unitycatalog-hadoop", "0.6.0"),
    Jar("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
)
INPUT_FORMATS: Final = (Jar("org.apache.spark", "spark-avro_2.13", "4.1.1"),)
"""PySpark reads CSV, JSON, Parquet and text by itself. Avro is a module of its own, of the same line as PySpark."""
S3: Final = (
    # The version of Hadoop in PySpark. It asks for a bundle of 641 MB; these modules of the same SDK take 20 MB. Hadoop
    # needs apache-client, Iceberg apache5-client, so the version of the SDK is that of Iceberg.
    Jar("org.apache.hadoop", "hadoop-aws", "3.4.2"),
    Jar("org.wildfly.openssl", "wildfly-openssl", "2.1.4.Final"),
    *(
        Jar("software.amazon.awssdk", name, "2.54.17", with_dependencies=True)
        for name in ("s3", "s3-transfer-manager", "sts", "kms", "apache-client", "apache5-client", "netty-nio-client")
    ),
)
ALL: Final = TABLE_FORMATS + INPUT_FORMATS + S3

_SETTINGS: Final = """<ivysettings><settings defaultResolver="central"/>
<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>
"""
JAVA_MISSING: Final = "Spark needs Java 17 or newer; install it with: apt-get install openjdk-17-jre-headless"
PYSPARK_MISSING: Final = "PySpark is not installed; install it with: pip install 'moorage[spark]'"


def fetch_jars(settings: SparkSettings = SparkSettings()) -> list[Path]:  # noqa: B008 - it is frozen
    """The jars for a session: those of the folder in the settings, else of the cache, which is filled first."""
    folder = settings.jars or cache_folder()
    if settings.jars is None and not folder.is_dir():
        _fill(folder, settings.ivy_settings)
    found = sorted(folder.glob("*.jar"))
    if not found:
        raise SparkUnavailable(f"the folder '{folder}' has no jars; remove it, or set MOORAGE_SPARK_JARS")
    return found


def without_those_of_spark(jars: Iterable[Path], spark: Path) -> list[Path]:
    """The jars of which Spark has no version of its own, for a class path that comes before that of Spark.

    Another version of a library in front of Spark's own stops Spark: NoSuchMethodError.
    """
    own = {_artifact(jar) for jar in spark.glob("*.jar")}
    return [jar for jar in jars if _artifact(jar) not in own]


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d.*$", "", jar.stem)


def cache_folder() -> Path:
    """The folder of this set of jars. Another version of any of them has another folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "moorage" / f"spark-jars-{hashlib.sha256(ivy_module().encode()).hexdigest()[:12]}"


def find_java() -> str:
    """The path of the Java program, or SparkUnavailable with the command that installs it."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise SparkUnavailable(JAVA_MISSING)
    return found


def find_pyspark() -> Path:
    """The folder of the PySpark package, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkUnavailable(PYSPARK_MISSING)
    return Path(spec.origin).parent


def ivy_module() -> str:
    """What Ivy resolves: every jar by its name, most of them without what they depend on."""
    lines = "".join(_dependency(jar) for jar in ALL)
    return (
        '<ivy-module version="2.0"><info organisation="moorage" module="spark-jars"/>'
        '<configurations><conf name="default"/></configurations>\n'
        f'<dependencies>\n{lines}<exclude org="org.slf4j"/></dependencies></ivy-module>\n'
    )


def _dependency(jar: Jar) -> str:
    how = (
        'conf="default->master,compile,runtime"'
        if jar.with_dependencies
        else 'transitive="false" conf="default->master"'
    )
    named = f"org={quoteattr(jar.group)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)}"
    return f"<dependency {named} {how}/>\n"


def _fill(folder: Path, ivy_settings: Path | None) -> None:
    """Resolve all jars into a new folder beside the cache's, then give it its name: a killed run leaves no half."""
    java, pyspark = find_java(), find_pyspark()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "spark-jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():  # another process filled it meanwhile
            return
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="resolving-") as name:
            work = Path(name)
            (work / "ivy.xml").write_text(ivy_module())
            (work / "settings.xml").write_text(_SETTINGS)
            _resolve(java, pyspark, work, ivy_settings or work / "settings.xml")
            (work / "jars").rename(folder)


def _resolve(java: str, pyspark: Path, work: Path, settings: Path) -> None:
    (ivy,) = (pyspark / "jars").glob("ivy-*.jar")
    command = [
        *(java, "-cp", str(ivy), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml")),
        *("-retrieve", f"{work}/jars/[artifact]-[revision].[ext]", "-types", "jar", "bundle"),
        *("-confs", "default", "-warn"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0 or len(list((work / "jars").glob("*.jar"))) < len(ALL):
        reason = next((line.strip() for line in done.stdout.splitlines() if "UNRESOLVED" in line), "see --verbose")
        raise SparkUnavailable(
            f"the jars for Spark could not be resolved ({reason}); check the network, or name a mirror with "
            "MOORAGE_SPARK_IVY_SETTINGS, or a folder of jars with MOORAGE_SPARK_JARS"
        )
