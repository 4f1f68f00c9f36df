//! What is said when all is installed: what to export, and what to type next.

use super::put::Tree;
use std::ffi::OsStr;
use std::path::Path;

/// Folders in which the loader looks by itself, once `ldconfig` has run.
const LOADER: [&str; 3] = ["/usr/lib", "/usr/local/lib", "/lib"];

/// The lines for a user whose environment `get` reads.
pub fn lines<S: AsRef<OsStr>>(tree: &Tree, get: impl Fn(&str) -> Option<S>) -> String {
    let (bin, lib) = (tree.prefix.join("bin"), tree.prefix.join("lib"));
    let has = |name: &str, folder: &Path| {
        let value = get(name);
        value.is_some_and(|value| std::env::split_paths(&value).any(|path| path == folder))
    };
    let export = |name: &str, folder: &Path| {
        // What is unset stays without an empty part, which would be the working directory.
        format!("    export {name}=\"{}${{{name}:+:${name}}}\"\n", folder.display())
    };
    let mut text = String::new();
    if !has("PATH", &bin) {
        text += "\nFor the commands, type this, or write it into your shell's profile:\n";
        text += &export("PATH", &bin);
    }
    let mut linked = String::new();
    let standard = LOADER.iter().any(|folder| Path::new(folder) == lib);
    if !standard && !has("LD_LIBRARY_PATH", &lib) {
        linked += &export("LD_LIBRARY_PATH", &lib);
    }
    let pkg_config = lib.join("pkgconfig");
    if !standard && !has("PKG_CONFIG_PATH", &pkg_config) {
        linked += &export("PKG_CONFIG_PATH", &pkg_config);
    }
    if !linked.is_empty() {
        text += "\nOnly for programs in C that are linked with libtaffrail:\n";
        text += &linked;
    }
    if standard {
        text +=
            "\nOnly for programs in C that are linked with libtaffrail, once, as root: ldconfig\n";
    }
    if !has("FI_PROVIDER_PATH", &lib) {
        text += "\nOnly for MPI programs that another launcher than `taffrail mpi` starts:\n";
        text += &format!("    export FI_PROVIDER_PATH=\"{}\"\n", lib.display());
    }
    text += "\nNext:\n    taffrail info                    # what this machine offers\n    \
             taffrail-perf netpipe            # latency and bandwidth\n    \
             taffrail mpi -n 2 ./program      # an MPI program over Taffrail\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(prefix: &str, environment: &[(&str, &str)]) -> String {
        let tree = Tree::new(Path::new(prefix), None, false).unwrap();
        let get = |name: &str| environment.iter().find(|(own, _)| *own == name).map(|(_, v)| *v);
        lines(&tree, get)
    }

    #[test]
    fn only_what_is_needed_is_exported() {
        let all = said("/opt/t", &[("PATH", "/usr/bin")]);
        for line in [
            "export PATH=\"/opt/t/bin${PATH:+:$PATH}\"",
            "export LD_LIBRARY_PATH=\"/opt/t/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"",
            "export PKG_CONFIG_PATH=\"/opt/t/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}\"",
            "export FI_PROVIDER_PATH=\"/opt/t/lib\"",
            "taffrail-perf netpipe",
        ] {
            assert!(all.contains(line), "{line}: {all}");
        }
        let none = said(
            "/opt/t",
            &[
                ("PATH", "/usr/bin:/opt/t/bin"),
                ("LD_LIBRARY_PATH", "/opt/t/lib"),
                ("PKG_CONFIG_PATH", "/opt/t/lib/pkgconfig"),
                ("FI_PROVIDER_PATH", "/opt/t/lib"),
            ],
        );
        assert!(!none.contains("export") && none.contains("Next:"), "{none}");
        let usual = said("/usr/local", &[("PATH", "/usr/local/bin:/usr/bin")]);
        assert!(usual.contains("ldconfig") && !usual.contains("LD_LIBRARY_PATH"), "{usual}");
    }
}
