//! Manual pages and completions of a command, for whoever installs it.

use crate::run::say;
use clap::ValueEnum;
use clap_complete::Shell;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where they go.
#[derive(clap::Args)]
pub struct Args {
    /// The prefix: they go to share/ in it
    prefix: PathBuf,
}

/// Writes manual pages of `command` and its sub-commands, and completions for shells, to where they are
/// looked for under a prefix.
pub fn pages(mut command: clap::Command, Args { prefix }: &Args) -> ExitCode {
    match write(&mut command, prefix) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(&format!("{}: {e}", prefix.display()));
            ExitCode::FAILURE
        }
    }
}

fn write(command: &mut clap::Command, prefix: &Path) -> Result<(), Error> {
    let share = prefix.join("share");
    let manual = share.join("man/man1");
    std::fs::create_dir_all(&manual)?;
    clap_mangen::generate_to(command.clone(), manual)?;
    let name = command.get_name().to_owned();
    for &shell in Shell::value_variants() {
        let (folder, file) = match shell {
            Shell::Bash => ("bash-completion/completions", name.clone()),
            Shell::Fish => ("fish/vendor_completions.d", format!("{name}.fish")),
            Shell::Zsh => ("zsh/site-functions", format!("_{name}")),
            _ => continue,
        };
        let folder = share.join(folder);
        std::fs::create_dir_all(&folder)?;
        let mut text = Vec::new();
        clap_complete::generate(shell, command, &name, &mut text);
        std::fs::write(folder.join(file), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_its_pages_and_completions() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = clap::Command::new("hidden").hide(true);
        let mut command = clap::Command::new("tool").about("Measures ropes").subcommand(hidden);
        command = command.subcommand(clap::Command::new("pull").about("Pulls at one"));
        write(&mut command, folder.path()).unwrap();
        let read = |file: &str| std::fs::read_to_string(folder.path().join("share").join(file));
        assert!(read("man/man1/tool.1").unwrap().contains("Measures ropes"));
        assert!(read("man/man1/tool-pull.1").unwrap().contains("Pulls at one"));
        assert!(read("man/man1/tool-hidden.1").is_err());
        for file in [
            "bash-completion/completions/tool",
            "fish/vendor_completions.d/tool.fish",
            "zsh/site-functions/_tool",
        ] {
            assert!(read(file).unwrap().contains("pull"), "{file}");
        }
    }
}
