//! The hand-written interface against the headers that are installed: a C program prints what the
//! compiler makes of them.

use std::fmt::Write;
use std::process::Command;

/// A structure of the headers, as we have it.
pub trait Described {
    const NAME: &'static str;
    fn fields() -> Vec<(&'static str, usize)>;
}

/// Lines of C, and what each has to print.
#[derive(Default)]
struct Facts {
    program: String,
    expected: Vec<String>,
}

impl Facts {
    fn structure<T: Described>(&mut self) {
        // The headers have a tag for some of them and a type with this ending for all.
        let ours = T::NAME.trim_end_matches("_4_0_0_t").trim_end_matches("_t");
        let name = format!("{ours}_t");
        writeln!(self.program, "printf(\"{name} %zu\\n\", sizeof({name}));").unwrap();
        self.expected.push(format!("{name} {}", size_of::<T>()));
        for (field, offset) in T::fields() {
            let field = field.trim_start_matches("r#");
            let line = format!("printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));");
            writeln!(self.program, "{line}").unwrap();
            self.expected.push(format!("{name}.{field} {offset}"));
        }
    }
}

#[test]
fn the_interface_is_that_of_the_headers() {
    // Debian has them in a folder of their own.
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let folders = folders.map(|folder| folder.path().join("pmix2/include"));
    let mut places = folders.chain(["/usr/include".into()]);
    let Some(include) = places.find(|at| at.join("pmix_server.h").is_file()) else {
        eprintln!("skipped: no headers of PMIx; install libpmix-dev");
        return;
    };
    let mut facts = Facts::default();
    facts.structure::<super::pmix_proc>();
    facts.structure::<super::pmix_byte_object>();
    facts.structure::<super::pmix_value>();
    facts.structure::<super::pmix_info>();
    facts.structure::<super::pmix_server_module_4_0_0_t>();
    for (name, value) in super::NUMBERS {
        writeln!(facts.program, "printf(\"{name} %lld\\n\", (long long) ({name}));").unwrap();
        facts.expected.push(format!("{name} {value}"));
    }
    for (name, value) in super::KEYS {
        writeln!(facts.program, "printf(\"{name} %s\\n\", {name});").unwrap();
        facts.expected.push(format!("{name} {}", value.to_str().unwrap()));
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("facts.c"), dir.path().join("facts"));
    let includes = ["stdio.h", "stddef.h", "pmix.h", "pmix_server.h"];
    let includes: String = includes.iter().map(|name| format!("#include <{name}>\n")).collect();
    let text = format!("{includes}int main(void) {{\n{}return 0;\n}}\n", facts.program);
    std::fs::write(&source, text).unwrap();
    // The headers define functions that call the library.
    let mut cc = Command::new("cc");
    cc.args(["-w", "-O2", "-I"]).arg(include).arg("-o").args([&program, &source]).arg("-lpmix");
    assert!(cc.status().expect("a C compiler").success(), "the headers and our names do not agree");
    let output = Command::new(&program).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let wrong: Vec<_> = printed
        .lines()
        .zip(&facts.expected)
        .filter(|(theirs, ours)| theirs != ours)
        .map(|(theirs, ours)| format!("headers: {theirs}, ours: {ours}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(printed.lines().count(), facts.expected.len());
}
