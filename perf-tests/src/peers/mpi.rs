//! NetPIPE over the installed MPI libraries.

use super::running::{find, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use taffrail::words::counted;

/// Open MPI's half round trip, in microseconds.
pub fn open_mpi_us(size: usize) -> Result<f64, String> {
    let netpipe = find(&["NPopenmpi"], "netpipe-openmpi")?;
    let mpirun = find(&["mpirun.openmpi", "mpirun"], "openmpi-bin")?;
    let mut command = open_mpi(mpirun);
    command.args(["-n", "2", "--bind-to", "core"]);
    netpipe_us(&mut command, netpipe, size)
}

/// Open MPI's launcher, or what starts it, allowed to whoever runs this.
pub fn open_mpi(mpirun: PathBuf) -> Command {
    let mut command = Command::new(mpirun);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// Compiles a program of C into `folder`; its path.
pub fn compile(mpicc: &Path, name: &str, text: &str, folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
    run(Command::new(mpicc).arg("-O2").arg("-o").arg(&program).arg(&source))?;
    Ok(program)
}

/// MPICH's half round trip, in microseconds.
pub fn mpich_us(size: usize) -> Result<f64, String> {
    let netpipe = find(&["NPmpich2"], "netpipe-mpich2")?;
    let mpirun = find(&["mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"], "mpich")?;
    let mut command = Command::new(mpirun);
    command.args(["-n", "2", "-bind-to", "core"]);
    netpipe_us(&mut command, netpipe, size)
}

fn netpipe_us(launcher: &mut Command, netpipe: PathBuf, size: usize) -> Result<f64, String> {
    let name = netpipe.display().to_string();
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let output = folder.path().join("np.out");
    let bytes = size.to_string();
    launcher.arg(netpipe).args(["-p", "0", "-l", &bytes, "-u", &bytes, "-o"]).arg(&output);
    run(launcher)?;
    let text = std::fs::read_to_string(output).map_err(|e| format!("{name}'s output: {e}"))?;
    output_file_us(&text, size)
        .ok_or_else(|| format!("{name} wrote no line for {}", counted(size, "byte")))
}

/// The microseconds of `size` bytes in NetPIPE's output file. From its rate, which has more digits
/// than its seconds.
fn output_file_us(text: &str, size: usize) -> Option<f64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (bytes, mbps): (usize, f64) =
            (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let bits = (size * 8) as f64;
        (bytes == size && mbps > 0.0).then(|| bits / (mbps * 1024.0 * 1024.0) * 1e6)
    })
}

#[cfg(test)]
mod tests {
    use super::output_file_us;

    #[test]
    fn recorded_output_files_are_read() {
        let open_mpi = include_str!("../../tests/fixtures/NPopenmpi.np.out");
        assert_eq!(output_file_us(open_mpi, 8).map(|us| format!("{us:.4}")), Some("0.2637".into()));
        assert_eq!(output_file_us(open_mpi, 9), None);
        let mpich = include_str!("../../tests/fixtures/NPmpich2.np.out");
        assert!(output_file_us(mpich, 8).is_some_and(|us| (0.4..0.5).contains(&us)));
    }

    #[test]
    fn what_is_no_line_of_figures_is_passed_over() {
        assert_eq!(output_file_us("", 8), None);
        assert_eq!(output_file_us("Sending output\n\n   8\n 8 nothing\n 8 0.0 1", 8), None);
        assert!(output_file_us("rubbish\n       8 61.035156   0.00000100", 8).is_some());
    }
}
