"""Checks the dependencies between crates, and the external crates that a crate must not have."""
import tomllib


def check_crates(root, workspace, manifests, sections, name):
    """Returns the problems of the dependencies between crates, by Cargo.toml and Cargo.lock. Dependencies of tests do not count."""
    lock = root / "Cargo.lock"
    locked = {}
    for package in tomllib.loads(lock.read_text())["package"] if lock.is_file() else ():
        locked.setdefault(package["name"], set()).update(it.split()[0] for it in package.get("dependencies", ()))
    folders = {manifest["package"]["name"]: folder for folder, manifest in manifests.items()}
    direct = {manifest["package"]["name"]: dependencies(manifest, workspace) for manifest in manifests.values()}
    problems = []
    for folder, manifest in manifests.items():
        wanted, package = sections.get(folder, {}), manifest["package"]["name"]
        used, permitted = {folders[it] for it in direct[package] if it in folders}, set(wanted.get("crates", ()))
        for other in sorted(used - permitted):
            problems.append(f"{folder}/Cargo.toml: {folder} depends on {other}; `crates` in {name} does not permit it")
        for other in sorted(permitted - used):
            problems.append(f"{name}: [{folder}] permits {other}, which {folder} does not use; remove it from `crates`")
        came_from, open_ = {package: None}, [package]
        while open_:
            one = open_.pop()
            for other in sorted(direct.get(one, locked.get(one, set())) - came_from.keys()):
                came_from[other] = one
                open_.append(other)
        for other in wanted.get("never", ()):
            if other in came_from:
                way, one = [other], other
                while one := came_from[one]:
                    way.insert(0, one)
                problems.append(f"{folder}/Cargo.toml: {package} must not depend on {other}: {' -> '.join(way)}")
    return problems


def dependencies(manifest, workspace):
    """Returns the names of the packages that a crate depends on, without those of its tests."""
    tables = [manifest, *manifest.get("target", {}).values()]
    found = {}
    for table in tables:
        found.update(table.get("dependencies", {}), **table.get("build-dependencies", {}))
    shared = workspace.get("dependencies", {})
    given = {name: shared.get(name, it) if isinstance(it, dict) and it.get("workspace") else it for name, it in found.items()}
    return {it.get("package", name) if isinstance(it, dict) else name for name, it in given.items()}
