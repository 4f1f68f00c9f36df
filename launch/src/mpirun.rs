//! Command lines as of `mpirun`: `-np N`, `-np=N` and `-npN` are `-n N`.

use std::ffi::{OsStr, OsString};

/// The words of a command line of `taffrail`, with `-np` in front of PROGRAM in the only way that `clap` reads.
pub fn command_line(
    words: impl IntoIterator<Item = OsString>,
    command: &clap::Command,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let name = words.get(1).and_then(|name| name.to_str());
    if let Some(options) = name.and_then(|name| command.find_subcommand(name)) {
        replace(&mut words[2..], options);
    }
    words
}

/// Of these words, which begin with options of `command`.
pub(crate) fn replace(words: &mut [OsString], command: &clap::Command) {
    if !command.get_arguments().any(|option| option.get_long() == Some("ranks")) {
        return;
    }
    let mut at = 0;
    while let Some(word) = words.get_mut(at) {
        if let Some(plain) = ranks(word) {
            *word = plain;
        }
        if word == "--" || !is_option(word) {
            return;
        }
        at += if takes_next(word, command) { 2 } else { 1 };
    }
}

/// `-np`, `-np=2` and `-np2`, as `clap` reads them.
fn ranks(word: &OsStr) -> Option<OsString> {
    let number = word.to_str()?.strip_prefix("-np")?;
    match number.strip_prefix('=').unwrap_or(number) {
        "" if number.is_empty() => Some("--ranks".into()),
        number => Some(format!("--ranks={number}").into()),
    }
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word != "-"
}

/// Whether the next word is the value of this option.
fn takes_next(word: &OsStr, command: &clap::Command) -> bool {
    let Some(word) = word.to_str() else { return false };
    let mut options = command.get_arguments();
    let takes = |option: &clap::Arg| option.get_action().takes_values();
    if let Some(long) = word.strip_prefix("--") {
        let named = |option: &clap::Arg| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long() == Some(long) || aliases.contains(&long)
        };
        return options.any(|option| named(option) && takes(option));
    }
    // Of several letters the first that takes a value has what follows for it.
    let letters: Vec<char> = word.chars().skip(1).collect();
    let takes_letter = |letter: char| {
        command.get_arguments().any(|option| option.get_short() == Some(letter) && takes(option))
    };
    letters.iter().position(|&letter| takes_letter(letter)) == Some(letters.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::os::unix::ffi::OsStringExt;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Subcommand,
    }

    #[derive(clap::Subcommand)]
    enum Subcommand {
        Run(crate::run::Args),
        Mpi(crate::mpi::Args),
        Info(crate::info::Args),
    }

    fn read(line: &str) -> String {
        use clap::CommandFactory;
        let words = line.split(' ').map(OsString::from);
        let words = command_line(words, &Cli::command());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn np_is_n_in_front_of_the_program_and_its_own_word_behind() {
        for (line, expected) in [
            ("t run -np 2 ./a -np 3", "t run --ranks 2 ./a -np 3"),
            ("t mpi --label -np 2 -- ./a", "t mpi --label --ranks 2 -- ./a"),
            ("t run --bind core -np 4 a", "t run --bind core --ranks 4 a"),
            ("t run --bind=core -np 4 a", "t run --bind=core --ranks 4 a"),
            (
                "t mpi --mpi mpich --timeout 2m -np 4 a",
                "t mpi --mpi mpich --timeout 2m --ranks 4 a",
            ),
            ("t run -n 2 a -np 4", "t run -n 2 a -np 4"),
            ("t run -n2 a -np 4", "t run -n2 a -np 4"),
            ("t run -n 2 -- -np 4", "t run -n 2 -- -np 4"),
            ("t run -n 2 --timeout -np a", "t run -n 2 --timeout -np a"),
            ("t run a -np 4", "t run a -np 4"),
            ("t run -np", "t run --ranks"),
            ("t run -np=2 ./a -np=3", "t run --ranks=2 ./a -np=3"),
            ("t mpi --label -np2 ./a -np3", "t mpi --label --ranks=2 ./a -np3"),
            ("t run -n2 -- -np3", "t run -n2 -- -np3"),
            ("t info -np", "t info -np"),
            ("t", "t"),
            ("t -np 2", "t -np 2"),
        ] {
            assert_eq!(read(line), expected);
        }
    }

    #[test]
    fn clap_reads_every_way_of_saying_how_many() {
        use clap::CommandFactory;
        for line in [
            "-np 2 a",
            "-np=2 a",
            "-np2 a",
            "--np 2 a",
            "-n2 a",
            "-n 2 a",
            "--ranks=2 a",
            "--np=2 a",
            "-n=2 a",
        ] {
            let words = ["t", "run"].into_iter().chain(line.split(' ')).map(OsString::from);
            let cli = Cli::try_parse_from(command_line(words, &Cli::command()));
            let Ok(Cli { command: Subcommand::Run(args) }) = cli else { panic!("{line}") };
            assert_eq!((args.wanted(), args.words_of_program()), (Some(2), 1), "{line}");
        }
    }

    #[test]
    fn clap_says_of_wrong_numbers_what_they_are() {
        use clap::CommandFactory;
        for (line, why) in [
            ("-np= a", "'--ranks <N>'"),
            ("-npx a", "invalid value 'x' for '--ranks <N>'"),
            ("-np=0 a", "0 is not in 1..=4096"),
        ] {
            let words = ["t", "run"].into_iter().chain(line.split(' ')).map(OsString::from);
            let error = Cli::try_parse_from(command_line(words, &Cli::command())).err();
            let error = error.expect(line).to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn words_that_are_not_utf_8_stay_as_they_are() {
        use clap::CommandFactory;
        let odd = OsString::from_vec(b"-\xff".to_vec());
        let words = ["t".into(), "run".into(), odd.clone(), "-np".into()];
        assert_eq!(command_line(words, &Cli::command())[2..], [odd, "--ranks".into()]);
    }
}
