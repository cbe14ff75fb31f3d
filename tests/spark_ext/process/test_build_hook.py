"""The build hook creates the same jar from the same sources, and names missing prerequisites."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hatch_build import (
    INTERFACE,
    INTERFACE_RESOURCE,
    JAR_IN_WHEEL,
    JAR_PATH,
    PYSPARK,
    WITHOUT_JAR,
    JarBuildError,
    SparkJarHook,
    build_jar,
    find_javac,
)

from interbed.spark_ext.process.planner import interface_version

ROOT = Path(__file__).parents[3]

CLASS = """package interbed.spark;

/** Needs Spark's jars to compile. */
public final class Probe {
  public static String version() {
    return org.apache.spark.package$.MODULE$.SPARK_VERSION();
  }
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one Java class."""
    source = tmp_path / "spark_ext/jvm/src/interbed/spark/Probe.java"
    source.parent.mkdir(parents=True)
    source.write_text(CLASS)
    (tmp_path / INTERFACE).parent.mkdir()
    shutil.copy(ROOT / INTERFACE, tmp_path / INTERFACE)
    return tmp_path


def _hook(project: Path) -> SparkJarHook:
    return SparkJarHook(str(project), {}, None, None, str(project / "dist"), "wheel")  # type: ignore[arg-type]


def test_a_wheel_contains_the_jar_inside_the_package(project: Path) -> None:
    build_data: dict[str, dict[str, str]] = {"force_include": {}}

    _hook(project).initialize("standard", build_data)

    assert build_data["force_include"] == {str(project / JAR_PATH): JAR_IN_WHEEL}
    with zipfile.ZipFile(project / JAR_PATH) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "interbed/spark/Probe.class", "interbed/spark/interface"]


def test_the_jar_has_the_version_of_its_interface(project: Path) -> None:
    with zipfile.ZipFile(build_jar(project)) as jar:
        assert jar.read(INTERFACE_RESOURCE.as_posix()).decode() == interface_version()


@pytest.mark.long
def test_an_editable_build_leaves_the_jar_beside_its_sources(project: Path) -> None:
    build_data: dict[str, dict[str, str]] = {"force_include": {}}

    _hook(project).initialize("editable", build_data)

    assert build_data["force_include"] == {}
    assert (project / JAR_PATH).is_file()


@pytest.mark.long
def test_building_twice_gives_the_same_bytes(project: Path) -> None:
    first = build_jar(project).read_bytes()

    assert build_jar(project).read_bytes() == first


@pytest.mark.long
def test_a_failed_compilation_keeps_the_old_jar_and_shows_the_output_of_javac(project: Path) -> None:
    old = build_jar(project).read_bytes()
    (project / "spark_ext/jvm/src/interbed/spark/Broken.java").write_text(
        "package interbed.spark; class Broken { int }"
    )

    with pytest.raises(JarBuildError, match=r"Broken\.java"):
        build_jar(project)
    assert (project / JAR_PATH).read_bytes() == old


def test_a_missing_javac_is_reported_with_both_remedies(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setenv("JAVA_HOME", str(project))

    with pytest.raises(
        JarBuildError, match=r"javac was not found.* install a JDK 17 .*; or set INTERBED_BUILD_WITHOUT"
    ):
        build_jar(project)


@pytest.mark.parametrize(
    ("answer", "code"),
    [("javac 11.0.30", 0), ("javac 1.8.0_402", 0), ("The operation couldn't be completed.", 1), ("", 0)],
)
def test_a_javac_that_cannot_compile_the_extension_is_named(
    answer: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    javac = tmp_path / "javac"
    javac.write_text(f'#!/bin/sh\necho "{answer}" >&2\nexit {code}\n')
    javac.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JarBuildError) as raised:
        find_javac()

    assert str(raised.value).startswith(f"{javac} is not of a JDK 17 or newer (`javac -version`: {answer}).")


def test_a_build_requires_pyspark_only_where_it_can_compile(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _hook(project).dependencies() == [PYSPARK]

    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setenv("JAVA_HOME", str(project))
    with pytest.raises(SystemExit) as ended:
        _hook(project).dependencies()

    assert isinstance(ended.value.code, str)
    assert "\n" not in ended.value.code
    assert "JDK 17" in ended.value.code


def test_a_build_without_the_jar_requires_neither_a_jdk_nor_pyspark(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setenv("JAVA_HOME", str(project))
    monkeypatch.setenv(WITHOUT_JAR, "1")
    build_data: dict[str, dict[str, str]] = {"force_include": {}}

    assert _hook(project).dependencies() == []
    _hook(project).initialize("standard", build_data)

    assert build_data["force_include"] == {}
    assert not (project / JAR_PATH).exists()


def test_an_unknown_value_of_the_variable_is_refused_by_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT_JAR, "yes")

    steps: list[Callable[[SparkJarHook], object]] = [
        lambda hook: hook.dependencies(),
        lambda hook: hook.initialize("standard", {}),
    ]
    for step in steps:
        with pytest.raises(SystemExit, match="INTERBED_BUILD_WITHOUT_JAR is 'yes'; it takes 1"):
            step(_hook(project))


def test_a_missing_pyspark_is_reported_with_the_remedy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("javac")
    monkeypatch.setattr("hatch_build.importlib.util.find_spec", lambda name: None)

    with pytest.raises(JarBuildError, match="pyspark>=4"):
        build_jar(project)


def test_a_project_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JarBuildError, match="No Java sources"):
        build_jar(tmp_path)
