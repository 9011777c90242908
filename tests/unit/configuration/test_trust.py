"""Files that are found and not named: what they may say only in folders that somebody trusts."""

from pathlib import Path

import pytest

from subgraphkit.backend import Backend, Option
from subgraphkit.configuration.config import config, resolve
from subgraphkit.errors import ConfigError
from subgraphkit.finding.opening import open_backends
from subgraphkit.finding.registry import registered
from subgraphkit.limits import LoadLimits


class Loading(Backend):
    """A backend that loads what an option names."""

    name = "loading"
    options = (Option("modules", "list", (), needs_trust=True), Option("n", int))

    def properties(self):  # type: ignore[override]
        return []


def refused(**settings):
    with pytest.raises(ConfigError, match="SGK126") as caught:
        open_backends(resolve(**settings))  # type: ignore[arg-type]
    return caught.value


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project that one works inside of, two folders below its file."""
    project = tmp_path / "project"
    (project / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(project / "a" / "b")
    return project


@pytest.fixture
def own(tmp_path):
    """Return the place of the user's own file."""
    (tmp_path / "home" / "subgraphkit").mkdir()
    return tmp_path / "home" / "subgraphkit" / "config.toml"


@pytest.mark.parametrize(("line", "where"), [
    ('data_roots = ["/"]', "data_roots=['/'] in "),
    ('limits = "unlimited"', "limits='unlimited' in "),
    ('limits = "max_nodes=99000000"', "limits="),
    ('trusted_folders = ["."]', "trusted_folders="),
    ('backend = "loading:modules=evil"', "backend='loading:modules=evil' in "),
    ('options.loading.modules = ["evil"]', "options={'loading': {'modules': ['evil']}} in "),
])  # fmt: skip
@pytest.mark.parametrize("file", ["subgraphkit.toml", "pyproject.toml"])
def test_a_file_above_may_not_name_code_or_widen_trust(file, line, where, project, monkeypatch):
    heading = "[tool.subgraphkit]\n" if file == "pyproject.toml" else ""
    (project / file).write_text(f'{heading}fallback = "none"\n{line}\n')
    with registered(Loading):
        chosen = {} if line.startswith("backend") else {"backend": "loading"}
        error = refused(**chosen)
        assert error.message.startswith(where)
        assert f"SUBGRAPH_TRUSTED_FOLDERS={project}" in error.hint
        monkeypatch.setenv("SUBGRAPH_TRUSTED_FOLDERS", f"/x, {project}")
        assert error.message
        open_backends(resolve(**chosen))  # type: ignore[arg-type]


def test_the_users_file_the_program_and_a_name_vouch_for_a_folder(project, own, monkeypatch):
    (project / "subgraphkit.toml").write_text('data_roots = ["data"]\nlimits = "max_nodes=5"\n')
    assert "trusted_folders" in refused().hint
    assert str(own) in refused().hint
    with config(trusted_folders=project.parent):
        assert resolve().data_roots == (project / "data",)
    own.write_text(f"trusted_folders = [{str(project)!r}]")
    assert resolve().data_roots == (project / "data",)
    own.write_text(f"trusted_folders = [{str(project / 'a')!r}]")
    refused()
    with monkeypatch.context() as patch:
        patch.setenv("SUBGRAPH_CONFIG", str(project / "subgraphkit.toml"))
        assert resolve().data_roots == (project / "data",)
    assert resolve(data_roots="/elsewhere").data_roots == (Path("/elsewhere"),)


def test_one_file_can_be_named_instead(tmp_path, project, own, monkeypatch):
    (project / "subgraphkit.toml").write_text("strict = true\n")
    own.write_text("verbose = 3\n")
    chosen = tmp_path / "chosen.toml"
    plan = 'backend = "@plan.json"\n'
    chosen.write_text(plan + 'on_missing = "warn"\ncache_dir = "cache"\ndata_roots = ["a", "/b"]\n')
    monkeypatch.setenv("SUBGRAPH_CONFIG", str(chosen))
    resolved = resolve()
    assert (resolved.strict, resolved.verbose, resolved.on_missing) == (False, 0, "warn")
    assert resolved.cache_dir == tmp_path / "cache"
    assert resolved.backends[0].plan == tmp_path / "plan.json"
    assert resolved.data_roots == (tmp_path / "a", Path("/b"))
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    assert resolve().on_missing == "error"


def test_what_narrows_trust_may_be_said_by_anybody(project, own):
    own.write_text('isolate = "one"\n')
    (project / "subgraphkit.toml").write_text('limits = "max_nodes=5"\nisolate = "one, two"\n')
    assert resolve().limits == LoadLimits(max_nodes=5)
    (project / "subgraphkit.toml").write_text('isolate = "process"\n')
    resolve()
    (project / "subgraphkit.toml").write_text('isolate = "two"\n')
    refused()
    (project / "subgraphkit.toml").write_text("options.loading.n = 3\nstrict = true\n")
    with registered(Loading):
        open_backends(resolve(backend="loading"))


def test_a_folder_is_trusted_for_what_it_is_and_not_for_its_links(project, own, tmp_path):
    (project / "subgraphkit.toml").write_text('data_roots = ["data"]\n')
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "project2").mkdir()
    own.write_text(f"trusted_folders = [{str(tmp_path / 'proj')!r}]")
    refused()
    own.write_text(f"trusted_folders = [{str(tmp_path / 'link')!r}]")
    assert resolve().data_roots == (project / "data",)
