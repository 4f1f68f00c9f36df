//! The Rust sources of the working copy.

use std::io::Error;
use std::path::Path;

/// A source file.
pub struct Source {
    /// Its path from the root of the workspace, with `/` between its parts.
    pub path: String,
    pub text: String,
}

impl Source {
    /// The lines that are not comments, with their numbers from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Whether the file is `path`, or lies in a folder of that name.
    pub fn is_within(&self, path: &str) -> bool {
        let rest = self.path.strip_prefix(path);
        path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Whether a line has `word`, and not as a part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// All files that end in `.rs`, without what cargo builds and without hidden folders.
pub fn find(root: &Path) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path)?;
                let path = path.strip_prefix(root).unwrap_or(&path);
                sources.push(Source { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_a_part_of_another() {
        assert!(has_word("use loom::thread;", "loom"));
        assert!(!has_word("let bloom = loom_of(3);", "loom"));
        assert!(has_word("bloom(loom)", "loom"));
    }

    #[test]
    fn comments_are_not_code_and_folders_end_at_a_slash() {
        let text = "// one\n    /// two\nlet a = 1; // three\n".into();
        let source = Source { path: "src/wait.rs".into(), text };
        assert_eq!(source.code().collect::<Vec<_>>(), [(3, "let a = 1; // three")]);
        let within = ["src", "", "src/wait.rs"].map(|path| source.is_within(path));
        let outside = ["sr", "src/wait", "rc"].map(|path| source.is_within(path));
        assert_eq!((within, outside), ([true; 3], [false; 3]));
    }
}
