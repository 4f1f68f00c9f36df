//! The hand-written interface against the headers that are installed: a C program prints what the
//! compiler makes of them.

use std::fmt::Write;
use std::process::Command;

/// A structure of the headers, as we have it.
pub trait Described {
    const NAME: &'static str;
    fn fields() -> Vec<(&'static str, usize)>;
}

/// One line of C for each fact, and what it has to print.
#[derive(Default)]
struct Facts {
    program: String,
    expected: Vec<String>,
}

impl Facts {
    fn structure<T: Described>(&mut self) {
        let name = T::NAME;
        let program = &mut self.program;
        writeln!(program, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        self.expected.push(format!("{name} {}", size_of::<T>()));
        for (field, offset) in T::fields() {
            let field = field.trim_start_matches("r#");
            let at = format!("{name}.{field}");
            writeln!(program, "printf(\"{at} %zu\\n\", offsetof(struct {name}, {field}));")
                .unwrap();
            self.expected.push(format!("{at} {offset}"));
        }
    }

    fn constants(&mut self, all: &[(&str, u64)]) {
        for (name, value) in all {
            // A negative one, or `-1` of an unsigned type, is the same after the conversion.
            writeln!(self.program, "printf(\"{name} %llu\\n\", (unsigned long long) ({name}));")
                .unwrap();
            self.expected.push(format!("{name} {value}"));
        }
    }
}

fn facts() -> Facts {
    let mut facts = Facts::default();
    macro_rules! structures {
        ($($module:ident: $($name:ident),+;)+) => {
            $($(facts.structure::<super::$module::$name>();)+)+
        };
    }
    structures! {
        atomic: fi_ioc, fi_rma_ioc, fi_msg_atomic, fi_atomic_attr, fi_ops_atomic;
        av: fi_av_attr, fi_ops_av, fid_av;
        cm: fi_ops_cm;
        cntr: fi_cntr_attr, fi_ops_cntr, fid_cntr;
        collective: fi_ops_collective;
        cq: fi_cq_attr, fi_ops_cq, fid_cq, fi_cq_entry, fi_cq_msg_entry, fi_cq_data_entry,
            fi_cq_tagged_entry, fi_cq_err_entry;
        domain: fi_ops_domain, fid_domain;
        ep: fi_ops_ep, fid_ep;
        eq: fi_eq_attr, fi_ops_eq, fid_eq, fi_eq_err_entry;
        fabric: fi_ops_fabric, fid_fabric;
        fid: fi_ops, fid, fi_context;
        info: fi_info, fi_tx_attr, fi_rx_attr, fi_ep_attr, fi_domain_attr, fi_fabric_attr;
        mr: fi_ops_mr, fid_mr, fi_mr_attr;
        msg: fi_msg, fi_ops_msg;
        provider: fi_provider;
        rma: fi_rma_iov, fi_msg_rma, fi_ops_rma;
        tagged: fi_msg_tagged, fi_ops_tagged;
    }
    facts.constants(super::errno::ALL);
    facts.constants(super::constants::ALL);
    facts
}

#[test]
fn the_interface_is_that_of_the_headers() {
    let headers = "/usr/include/rdma/fabric.h";
    let text = std::fs::read_to_string(headers).unwrap_or_default();
    if !text.contains("#define FI_MAJOR_VERSION 1\n") {
        eprintln!("skipped: no libfabric 1.x headers at {headers}; install libfabric-dev");
        return;
    }
    let facts = facts();
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("facts.c"), dir.path().join("facts"));
    let includes = [
        "stdio.h",
        "stddef.h",
        "rdma/fabric.h",
        "rdma/fi_atomic.h",
        "rdma/fi_cm.h",
        "rdma/fi_collective.h",
        "rdma/fi_domain.h",
        "rdma/fi_endpoint.h",
        "rdma/fi_eq.h",
        "rdma/fi_errno.h",
        "rdma/fi_rma.h",
        "rdma/fi_tagged.h",
        "rdma/providers/fi_prov.h",
    ];
    let includes: String = includes.iter().map(|name| format!("#include <{name}>\n")).collect();
    let text = format!("{includes}int main(void) {{\n{}return 0;\n}}\n", facts.program);
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").arg("-o").args([&program, &source]).status();
    assert!(built.expect("a C compiler").success(), "the headers and our names do not agree");
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
