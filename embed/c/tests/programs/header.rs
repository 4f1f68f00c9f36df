//! The header in all languages that it is for.

use super::*;
use std::collections::BTreeSet;

#[test]
fn it_compiles_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("empty.c");
    // Twice, and nothing before it.
    std::fs::write(&program, "#include <taffrail.h>\n#include <taffrail.h>\nint a_name;\n")
        .unwrap();
    for dialect in [C99, C11, CPP17] {
        let Some(mut compiler) = dialect.compiler() else { continue };
        succeeds(compiler.arg("-fsyntax-only").arg(&program));
    }
}

/// The names of functions that the header declares.
pub fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(package().join("include/taffrail.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("taffrail_").then(|| name.to_owned())
    })
    .collect()
}

#[test]
fn the_documentation_has_a_table_of_all_calls() {
    let page = std::fs::read_to_string(package().join("../../docs/c-api.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let calls = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let calls: BTreeSet<String> = calls
        .map(|call| format!("taffrail{}", call.strip_prefix("taffrail").unwrap_or(call)))
        .collect();
    assert_eq!(calls, declared());
}
