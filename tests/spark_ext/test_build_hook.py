"""The build hook makes the same jar from the same sources, and says what it lacks."""

import shutil
import zipfile
from pathlib import Path

import pytest
from hatch_build import INTERFACE, INTERFACE_RESOURCE, JAR_IN_WHEEL, JAR_PATH, JarBuildError, SparkJarHook, build_jar

from interbed.spark_ext.process.interface import interface_version

ROOT = Path(__file__).parents[2]

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


def test_a_wheel_carries_the_jar_at_its_place_in_the_package(project: Path) -> None:
    build_data: dict[str, dict[str, str]] = {"force_include": {}}

    _hook(project).initialize("standard", build_data)

    assert build_data["force_include"] == {str(project / JAR_PATH): JAR_IN_WHEEL}
    with zipfile.ZipFile(project / JAR_PATH) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "interbed/spark/Probe.class", "interbed/spark/interface"]


def test_the_jar_says_which_interface_it_speaks(project: Path) -> None:
    with zipfile.ZipFile(build_jar(project)) as jar:
        assert jar.read(INTERFACE_RESOURCE.as_posix()).decode() == interface_version()


def test_an_editable_build_leaves_the_jar_beside_its_sources(project: Path) -> None:
    build_data: dict[str, dict[str, str]] = {"force_include": {}}

    _hook(project).initialize("editable", build_data)

    assert build_data["force_include"] == {}
    assert (project / JAR_PATH).is_file()


def test_building_twice_gives_the_same_bytes(project: Path) -> None:
    first = build_jar(project).read_bytes()

    assert build_jar(project).read_bytes() == first


def test_a_failed_compilation_keeps_the_old_jar_and_shows_javacs_words(project: Path) -> None:
    old = build_jar(project).read_bytes()
    (project / "spark_ext/jvm/src/interbed/spark/Broken.java").write_text(
        "package interbed.spark; class Broken { int }"
    )

    with pytest.raises(JarBuildError, match=r"Broken\.java"):
        build_jar(project)
    assert (project / JAR_PATH).read_bytes() == old


def test_a_missing_javac_is_named_with_the_way_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setenv("JAVA_HOME", str(project))

    with pytest.raises(JarBuildError, match="Install a JDK 17"):
        build_jar(project)


def test_a_missing_pyspark_is_named_with_the_way_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("javac")
    monkeypatch.setattr("hatch_build.importlib.util.find_spec", lambda name: None)

    with pytest.raises(JarBuildError, match="pyspark>=4"):
        build_jar(project)


def test_a_project_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JarBuildError, match="No Java sources"):
        build_jar(tmp_path)
