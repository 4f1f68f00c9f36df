//! The header in all languages that it is for.

use super::*;

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
